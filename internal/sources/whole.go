package sources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says what a gang needs that was whole and has lost members. Members that have finished may be deleted, and are not
// replaced; the replacement of another one must not wait for them.
//
// An implicit group has no condition. That a container of a member runs or has done its work says in its place that it was
// whole: all members of a start are bound before most containers run, and running work is not ended for the sake of a start.
// It does not say what the group was whole with: any member can say any minimum at any time. Of that only what this process has
// seen counts, see Seen.

// Whole reports whether the PodGroup has had its minimum bound, as its condition Scheduled says.
func Whole(group *v1alpha1.PodGroup) bool {
	return whole(&group.Status)
}

func whole(status *v1alpha1.PodGroupStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduled)
}

// startedMinima returns the minima that the group was whole with; zero when it was not. A status of the version before does not
// have them: a group that was not degraded then had as many members as it says, and one that was had what its spec says.
func startedMinima(group *v1alpha1.PodGroup) model.Minima {
	status := &group.Status
	switch {
	case !Whole(group):
		return model.Minima{}
	case status.StartedMinMember > 0:
		return model.Minima{MinMember: status.StartedMinMember, Roles: rolesOf(status.StartedRoles)}
	}
	minima := model.Minima{MinMember: group.Spec.MinMember, Roles: rolesOf(group.Spec.Roles)}
	if status.DegradedSince == nil {
		minima.MinMember = min(minima.MinMember, status.Placed)
	}
	return minima
}

// Seen returns what an implicit group is known to have been whole with: what it has now while that is enough for its minimum,
// that of late roles not counted, else what was known before, nothing once no member has a node. spec is what its object says;
// nil when there is none. Of a role that is done it was whole with all that the object says, however many of these still exist.
func Seen(job *model.Job, before model.Minima, spec *Spec) model.Minima {
	begun := WithoutLate(job)
	switch {
	case !slices.ContainsFunc(job.Tasks, hasNode):
		return model.Minima{}
	case begun.FirstUnmetMinimum(counts) == nil:
		return withDone(model.Minima{MinMember: begun.MinMember, Roles: begun.Roles, Requests: begun.Held()}, spec)
	}
	return before
}

// withDone returns the minima with those of roles that are done as the object says them.
func withDone(minima model.Minima, spec *Spec) model.Minima {
	if spec == nil || len(spec.Done) == 0 {
		return minima
	}
	minima.Roles = slices.Clone(minima.Roles)
	for _, role := range spec.Roles {
		i := slices.IndexFunc(minima.Roles, func(left model.Role) bool { return left.Name == role.Name })
		switch {
		case !slices.Contains(spec.Done, role.Name):
		case i < 0:
			minima.MinMember, minima.Roles = minima.MinMember+role.MinMember, append(minima.Roles, role)
		case minima.Roles[i].MinMember < role.MinMember:
			minima.MinMember += role.MinMember - minima.Roles[i].MinMember
			minima.Roles[i].MinMember = role.MinMember
		}
	}
	return minima
}

// StartedMinima writes the minima that the group was whole with, and what its members requested: those of the job, as its group
// states them, while they are bound; the ones before while it is whole and lacks members, which are those that were seen until a
// status says so; none when it is not whole. list writes down a request; nil writes none.
func StartedMinima(
	status *v1alpha1.PodGroupStatus, job *model.Job, before *v1alpha1.PodGroup, seen model.Minima,
	list func(model.Resources) corev1.ResourceList,
) {
	if !whole(status) {
		status.StartedMinMember, status.StartedRoles, status.StartedRequests = 0, nil, nil
		return
	}
	minima := startedMinima(before)
	isBound := job.FirstUnmetMinimum(bound) == nil
	if isBound {
		seen = model.Minima{MinMember: job.MinMember, Roles: job.Roles, Requests: job.Held()}
	}
	if isBound || !Whole(before) {
		minima = seen
		if status.StartedRequests = nil; list != nil {
			status.StartedRequests = list(seen.Requests)
		}
	}
	status.StartedMinMember, status.StartedRoles = min(minima.MinMember, maxMembers), nil
	for _, role := range minima.Roles {
		status.StartedRoles = append(status.StartedRoles, v1alpha1.Role{Name: role.Name, MinMember: min(role.MinMember, maxOfRole)})
	}
}

// The limits of the API for what a group was whole with, in all and of a role: the minima of a spec that was stored before there
// were limits may be above them, and a status that the API server refuses would never be written.
const (
	maxMembers = 10_000_000
	maxOfRole  = 100_000
)

// Lower lowers the minima of a job that was whole and has a member with a node. If it lacks members of what it was whole with,
// no more is needed than that: a minimum that was raised since counts again when it has these. If it also has a member that
// waits, no more is needed than the members that exist.
//
// Late roles are part of that as a whole or not at all: they count nothing while other members are missing, and in full
// otherwise. One that has begun since the job was whole counts in full, too: those of its members that wait start together.
//
// Invariant: a job that was never whole keeps its minima, and so does one that has what it was whole with and whose minima the
// existing members reach.
func Lower(job *model.Job) {
	if !Left(job) {
		return
	}
	if begun := WithoutLate(job); begun != job && begun.FirstUnmetMinimum(counts) != nil {
		keepStated(job)
		job.MinMember, job.Roles = begun.MinMember, lowered(job.Roles, func(role model.Role) int {
			if role.Late {
				return 0
			}
			return int(role.MinMember)
		})
	}
	before := *job
	before.MinMember, before.Roles = min(job.MinMember, job.StartedMinima.MinMember), lowered(job.Roles, func(role model.Role) int {
		i := slices.IndexFunc(job.StartedMinima.Roles, func(started model.Role) bool { return started.Name == role.Name })
		if i < 0 || role.Late {
			return 0
		}
		return int(job.StartedMinima.Roles[i].MinMember)
	})
	if before.FirstUnmetMinimum(counts) != nil {
		before.MinMember, before.Roles = withBegun(job, &before)
		job.LostMembers = before.CompletesWithin(job.StartedMinima.Requests)
		if before.MinMember < job.MinMember || !slices.Equal(before.Roles, job.Roles) {
			keepStated(job)
		}
		job.MinMember, job.Roles = before.MinMember, before.Roles
	}
	replaces := func(task *model.Task) bool { return waits(task) && !job.InLateRole(task) }
	if !slices.ContainsFunc(job.Tasks, replaces) || job.FirstUnmetMinimum((*model.Task).Exists) == nil {
		return
	}
	usable := func(task *model.Task) bool { return counts(task) || replaces(task) }
	keepStated(job)
	job.MinMember = min(job.MinMember, int32(job.Count(usable)))
	job.Roles = lowered(job.Roles, func(role model.Role) int {
		if role.Late {
			return 0
		}
		return job.Count(func(task *model.Task) bool { return task.Role == role.Name && usable(task) })
	})
}

// withBegun returns what a job was whole with, and the minima of the roles made later that have begun since, in the job's order.
func withBegun(job, before *model.Job) (minMember int32, roles []model.Role) {
	minMember = before.MinMember
	for _, role := range job.Roles {
		i := slices.IndexFunc(before.Roles, func(known model.Role) bool { return known.Name == role.Name })
		switch {
		case i >= 0:
			roles = append(roles, before.Roles[i])
		case role.MadeLater: // and not late: lowered keeps those
			roles = append(roles, role)
			minMember += role.MinMember
		}
	}
	return min(minMember, job.MinMember), roles
}

// keepStated keeps the minima that the group states before they are lowered.
func keepStated(job *model.Job) {
	if job.Stated == nil {
		job.Stated = &model.Minima{MinMember: job.MinMember, Roles: job.Roles}
	}
}

// lowered returns the roles with no minimum above the limit for it; those that need no member are left out, except late ones.
func lowered(roles []model.Role, limit func(role model.Role) int) []model.Role {
	var left []model.Role
	for _, role := range roles {
		if role.MinMember = min(role.MinMember, int32(limit(role))); role.MinMember > 0 || role.Late {
			left = append(left, role)
		}
	}
	return left
}

// Stated returns the job with the minima that its group states: the job itself unless they were lowered.
func Stated(job *model.Job) *model.Job {
	if job.Stated == nil {
		return job
	}
	stated := *job
	stated.MinMember, stated.Roles, stated.Stated = job.Stated.MinMember, job.Stated.Roles, nil
	stated.BelowMinimum = true // or nothing would have been lowered
	return &stated
}

// Left reports whether the job was whole and has a member with a node: it is not held back by lack of members.
func Left(job *model.Job) bool { return job.Whole && slices.ContainsFunc(job.Tasks, hasNode) }

// BelowMinimum reports whether the job holds capacity, not only by binds in flight, and is below its minimum.
func BelowMinimum(job *model.Job) bool {
	holds := func(task *model.Task) bool { return task.Status == model.Bound || task.Status == model.Running }
	return job.FirstUnmetMinimum(counts) != nil && slices.ContainsFunc(job.Tasks, holds)
}

// hasStarted reports whether a member with a node has a container that runs, or has ended.
func hasStarted(job *model.Job) bool {
	return slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Started && hasNode(task) })
}

// hasNode reports whether the task has a node, or a bind to one is in flight.
func hasNode(task *model.Task) bool {
	return task.Status == model.Binding || task.Status == model.Bound || task.Status == model.Running
}

// counts reports whether the task has capacity, or has succeeded.
func counts(task *model.Task) bool { return task.Status.CountsTowardMinimum() }

// waits reports whether the task can be placed as soon as a node has capacity for it.
func waits(task *model.Task) bool {
	return task.Status == model.Pending && !task.SchedulingGated && task.Invalid == nil
}
