package sources

import (
	"iter"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is about roles whose members are made only when others run, or have succeeded: a launcher that waits for its workers,
// a Job that depends on another. Before its first member exists such a role counts nothing, or the gang would wait for what waits
// for it. From then on it counts in full: its members start together, once the gang has all else that it needs.
//
// A job with such roles has parts: what is made first, and each of these roles. Each part starts as a whole.
//
// Invariant: no member of a late role starts before all of its members exist that the role needs.

// countLate leaves out of the minima the late roles without a member, and marks as late those that have not begun.
func countLate(job *model.Job) {
	var counted []model.Role
	for _, role := range job.Roles {
		member := func(task *model.Task) bool {
			return task.Role == role.Name && task.Status != model.Failed && task.Status != model.Releasing
		}
		if role.MadeLater && !slices.ContainsFunc(job.Tasks, member) {
			job.MinMember = max(1, job.MinMember-role.MinMember)
			continue
		}
		role.Late = role.MadeLater && !hasBegun(onlyRole(job, role))
		counted = append(counted, role)
	}
	job.Roles = counted
}

// hasBegun reports whether a part has begun as a whole: all that it needs have a node, or a container of it has run.
func hasBegun(part *model.Job) bool { return part.Whole || part.FirstUnmetMinimum(counts) == nil }

// countDone counts of roles that are done only the members that are there: those that have succeeded may be deleted, are not
// replaced, and must not be waited for. A role with a member that has not ended is not done: it has begun again.
func countDone(job *model.Job, done []string) {
	if len(done) == 0 {
		return
	}
	var counted []model.Role
	for _, role := range job.Roles {
		lives := func(task *model.Task) bool {
			return task.Role == role.Name && task.Status != model.Succeeded && task.Status != model.Failed
		}
		if slices.Contains(done, role.Name) && !slices.ContainsFunc(job.Tasks, lives) {
			has := int32(job.Count(func(task *model.Task) bool { return task.Role == role.Name && task.Status == model.Succeeded }))
			job.MinMember = max(1, job.MinMember-max(0, role.MinMember-has))
			if role.MinMember = min(role.MinMember, has); has == 0 {
				continue
			}
		}
		counted = append(counted, role)
	}
	job.Roles = counted
}

// countLeft lowers the minimum to the members that have still to succeed, and the succeeded ones that exist: other succeeded ones
// may be deleted, and are not replaced. left is zero when the object does not say.
func countLeft(job *model.Job, left int32) {
	if left == 0 {
		return
	}
	has := int32(job.Count(func(task *model.Task) bool { return task.Status == model.Succeeded }))
	job.MinMember = min(job.MinMember-has, left) + has
}

// HasLate reports whether members of the group are made only when others run.
func (s *Spec) HasLate() bool { return slices.ContainsFunc(s.Roles, madeLater) }

// WithoutLate returns the job without its late roles: itself when it has none.
func WithoutLate(job *model.Job) *model.Job { return without(job, isLate) }

// Parts returns the parts of a job by the name of their role: what is made first, without a name, and each role that is made
// later and has a member. A job without such roles is its only part.
func Parts(job *model.Job) iter.Seq2[string, *model.Job] {
	return func(yield func(string, *model.Job) bool) {
		if !yield("", First(job)) {
			return
		}
		for _, role := range job.Roles {
			if role.MadeLater && !yield(role.Name, onlyRole(job, role)) {
				return
			}
		}
	}
}

// First returns the part of the job that is made first: itself when none is made later.
func First(job *model.Job) *model.Job { return without(job, madeLater) }

func isLate(role model.Role) bool    { return role.Late }
func madeLater(role model.Role) bool { return role.MadeLater }

// without returns the job without such roles and their members, itself when there are none.
func without(job *model.Job, is func(model.Role) bool) *model.Job {
	if !slices.ContainsFunc(job.Roles, is) {
		return job
	}
	rest := *job
	rest.Roles, rest.Tasks = nil, nil
	left := func(task *model.Task) bool {
		return !slices.ContainsFunc(job.Roles, func(role model.Role) bool { return role.Name == task.Role && is(role) })
	}
	for _, role := range job.Roles {
		if is(role) {
			rest.MinMember = max(1, rest.MinMember-role.MinMember)
		} else {
			rest.Roles = append(rest.Roles, role)
		}
	}
	rest.Tasks = selected(job.Tasks, left)
	rest.BelowMinimum = BelowMinimum(&rest)
	return &rest
}

// onlyRole returns the job as if there were nothing but one of its roles.
func onlyRole(job *model.Job, role model.Role) *model.Job {
	part := *job
	part.MinMember, part.Roles = role.MinMember, nil
	part.Tasks = selected(job.Tasks, func(task *model.Task) bool { return task.Role == role.Name })
	succeeded := func(task *model.Task) bool { return task.Status == model.Succeeded }
	part.Whole = hasStarted(&part) || slices.ContainsFunc(part.Tasks, succeeded)
	part.BelowMinimum = BelowMinimum(&part)
	return &part
}

func selected(tasks []*model.Task, is func(*model.Task) bool) (these []*model.Task) {
	for _, task := range tasks {
		if is(task) {
			these = append(these, task)
		}
	}
	return these
}
