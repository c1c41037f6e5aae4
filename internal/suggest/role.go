package suggest

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// lowerRole returns the first role, by name, with a lower minimum of which the job would start: the highest that would do,
// and with it the highest minMember, which may not be below the roles' minima together. It is for jobs that no lower
// minMember alone helps. The workers of a LeaderWorkerSet, which are the only role of pods without an object, have no minimum of
// their own.
func (q *search) lowerRole() *Change {
	job, roles, from, priority := q.job, q.job.Roles, q.job.MinMember, q.job.Priority
	if job.Stated != nil || job.Key.IsImplicit() {
		return nil
	}
	defer func() { job.Roles, job.MinMember, job.Priority = roles, from, priority }()
	var together int64
	for _, role := range roles {
		together += int64(role.MinMember)
	}
	if together > int64(from) { // the group contradicts itself
		return nil
	}
	for i, role := range roles {
		others := int32(together) - role.MinMember
		can := func(minimum, minMember int32) bool {
			if q.left <= 0 {
				return false
			}
			job.Roles = slices.Clone(roles)
			job.Roles[i].MinMember, job.MinMember = minimum, minMember
			job.SetPriority()
			return q.isSchedulable()
		}
		if role.MinMember < 2 || !can(1, others+1) {
			continue
		}
		to := highest(1, role.MinMember, func(minimum int32) bool { return can(minimum, others+minimum) })
		minMember := from
		if !can(to, from) {
			minMember = highest(others+to, from, func(minMember int32) bool { return can(to, minMember) })
		}
		return loweredRole(model.Role{Name: role.Name, MinMember: to}, role.MinMember, from, minMember)
	}
	return nil
}

// highest returns the highest number from low on, and below high, that will do; low will.
func highest(low, high int32, will func(int32) bool) int32 {
	for low+1 < high {
		if middle := low + (high-low)/2; will(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// loweredRole says "lower minMember of role worker from 8 to 6, and minMember from 9 to 7".
func loweredRole(role model.Role, was, from, to int32) *Change {
	c := &Change{Kind: LowerRole, PerRole: []model.Role{role}, From: from, To: to}
	c.words = fmt.Sprintf("lower minMember of role %s from %d to %d", role.Name, was, role.MinMember)
	if to < from {
		c.words += fmt.Sprintf(" and that of the group from %d to %d", from, to)
	}
	return c
}
