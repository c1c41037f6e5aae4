// Package gang works out what a gang needs now, from what its group states and what its members are. It reads no clock and no
// object, and changes nothing.
//
// The files, in reading order:
//
//	need.go         what a group states, and what the gang needs by that: Of
//	incarnation.go  members of an earlier attempt, or of a deleted object of the same name
//	parts.go        what starts as a whole: what is made first, and each role that is made later
package gang

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Spec is what the group of a gang states: its object, or the marks of its pods where it has none.
type Spec struct {
	// UID is that of the object where members may be of an earlier attempt, or of a deleted object of the same name; empty where
	// these are not told apart.
	UID types.UID
	// MinMember is how many members must start together, and Roles are the minima of its parts, by name. A role that is made later
	// says so in MadeLater.
	MinMember int32
	Roles     []model.Role
	// Done are the roles of which the object says that all members have succeeded. Left is how many members have still to succeed,
	// zero when it does not say.
	Done []string
	Left int32
	// HasStatus reports that a status says whether the gang was whole, and with what: Whole, and was of Of. Otherwise its members say
	// whether it was, and with what is what was seen of it.
	HasStatus, Whole bool
	// Undecodable reports that not all of it could be decoded. Such a gang is never below its minimum: it might be undone although it
	// was whole.
	Undecodable bool
}

// Of returns what a gang of these members needs, in CompareTasks order. was is what it was whole with: of a group with a status
// what that says, of others what the last Need said; zero when it never was.
//
// An implicit group has no status. That a container of a member runs or has done its work says in its place that it was whole:
// all members of a start are bound before most containers run, and running work is not ended for the sake of a start. It does
// not say what the group was whole with: any member can say any minimum at any time. Of that only what was seen counts.
//
// Invariant: no earlier member counts for the present group.
func Of(spec *Spec, members []*model.Task, was model.Minima) (need model.Need) {
	present, earlier := members, []*model.Task(nil)
	if spec.UID != "" {
		present, earlier = byIncarnation(members, spec.UID)
	}
	stated := model.Minima{MinMember: spec.MinMember, Roles: spec.Roles}
	stated = withoutDone(stated, spec.Done, present)
	stated = atMostLeft(stated, spec.Left, present)
	stated = withLate(stated, present)
	need.Whole = spec.Whole || !spec.HasStatus && hasStarted(present)
	need.Present = model.Part{Minima: stated, Tasks: present, Whole: need.Whole}
	holds := need.Whole && slices.ContainsFunc(present, HasNode) // a bind in flight is of a replacement, not of a start
	need.Present.BelowMinimum = !spec.Undecodable && (IsBelow(&stated, present) || holds && stated.FirstUnmet(present, (*model.Task).CountsTowardMinimum) != nil)

	stated = withEarlier(stated, earlier)
	if need.StartedMinima = was; !spec.HasStatus {
		need.StartedMinima = seen(stated, members, was, spec)
	}
	now := stated
	if need.Whole && slices.ContainsFunc(members, HasNode) {
		now, need.LostMembers = lowered(stated, need.StartedMinima, members)
	}
	if need.MinMember, need.Roles = now.MinMember, now.Roles; now.MinMember != stated.MinMember || !slices.Equal(now.Roles, stated.Roles) {
		need.Stated = &stated
	}
	first, of := First(now, members) // what is made later it need not have
	need.BelowMinimum = !spec.Undecodable && IsBelow(&first, of)
	return need
}

// OfUnknown returns what a job needs of whose group nothing is known: all of its members, so that none counts as surplus.
// mayHaveEarlier reports that members may be of an earlier attempt, or of a deleted object of the same name.
func OfUnknown(members []*model.Task, mayHaveEarlier bool) model.Need {
	need := Of(&Spec{MinMember: int32(min(max(1, len(members)), 1<<30)), HasStatus: true}, members, model.Minima{})
	if mayHaveEarlier {
		need.Present.Tasks, _ = byIncarnation(members, "")
	}
	return need
}

// withoutDone counts of roles that are done only the members that are there: those that have succeeded may be deleted, are not
// replaced, and must not be waited for. A role with a member that has not ended is not done: it has begun again.
func withoutDone(minima model.Minima, done []string, members []*model.Task) model.Minima {
	if len(done) == 0 {
		return minima
	}
	left := model.Minima{MinMember: minima.MinMember}
	for _, role := range minima.Roles {
		lives := func(task *model.Task) bool {
			return task.Role == role.Name && task.Status != model.Succeeded && task.Status != model.Failed
		}
		if slices.Contains(done, role.Name) && !slices.ContainsFunc(members, lives) {
			has := int32(model.CountOf(members, func(task *model.Task) bool { return task.Role == role.Name && task.Status == model.Succeeded }))
			left.MinMember = max(1, left.MinMember-max(0, role.MinMember-has))
			if role.MinMember = min(role.MinMember, has); has == 0 {
				continue
			}
		}
		left.Roles = append(left.Roles, role)
	}
	return left
}

// atMostLeft lowers the minimum to the members that have still to succeed, and the succeeded ones that exist: other succeeded
// ones may be deleted, and are not replaced. left is zero when the object does not say.
func atMostLeft(minima model.Minima, left int32, members []*model.Task) model.Minima {
	if left > 0 {
		has := int32(model.CountOf(members, model.Succeeded.Is))
		minima.MinMember = min(minima.MinMember-has, left) + has
	}
	return minima
}

// withEarlier adds the earlier members that exist, in all and by role: they are about to be deleted, and until they are gone they
// are among the members that minima are compared with.
func withEarlier(minima model.Minima, earlier []*model.Task) model.Minima {
	if len(earlier) == 0 {
		return minima
	}
	minima.Roles = slices.Clone(minima.Roles)
	for _, task := range earlier {
		if !task.Exists() {
			continue
		}
		addOne(&minima.MinMember)
		if i := indexOf(minima.Roles, task.Role); i >= 0 {
			addOne(&minima.Roles[i].MinMember)
		}
	}
	return minima
}

// addOne adds to a minimum, up to the largest number that there is.
func addOne(minimum *int32) { *minimum = int32(min(int64(*minimum)+1, math.MaxInt32)) }

// seen returns what a group without a status is known to have been whole with: what it states while that is met, that of late
// roles not counted, else what was known before, nothing once no member has a node. Of a role that is done it was whole with all
// that the object says, however many of these still exist.
func seen(stated model.Minima, members []*model.Task, was model.Minima, spec *Spec) model.Minima {
	if !slices.ContainsFunc(members, HasNode) {
		return model.Minima{}
	}
	begun, of := without(stated, members, notBegun)
	if begun.FirstUnmet(of, (*model.Task).CountsTowardMinimum) != nil {
		return was
	}
	begun.Requests = model.HeldBy(of)
	if len(spec.Done) > 0 {
		begun.Roles = slices.Clone(begun.Roles)
	}
	for _, role := range spec.Roles {
		i := indexOf(begun.Roles, role.Name)
		switch {
		case !slices.Contains(spec.Done, role.Name):
		case i < 0:
			begun.MinMember, begun.Roles = begun.MinMember+role.MinMember, append(begun.Roles, role)
		case begun.Roles[i].MinMember < role.MinMember:
			begun.MinMember += role.MinMember - begun.Roles[i].MinMember
			begun.Roles[i].MinMember = role.MinMember
		}
	}
	return begun
}

// lowered returns what a gang needs that was whole and has a member with a node. If it lacks members of what it was whole with,
// no more is needed than that: a minimum that was raised since counts again when it has these. If it also has a member that
// waits, no more is needed than the members that exist. lost reports whether it lacks members of what it was whole with, and the
// waiting ones ask for no more than those did.
//
// Members that have finished may be deleted, and are not replaced; the replacement of another one must not wait for them. Late
// roles are part of that as a whole or not at all: they count nothing while other members are missing, and in full
// otherwise. One that has begun since the job was whole counts in full, too: those of its members that wait start together.
//
// Invariant: a job that was never whole keeps its minima, and so does one that has what it was whole with and whose minima the
// existing members reach.
func lowered(stated, was model.Minima, members []*model.Task) (now model.Minima, lost bool) {
	now = stated
	begun, of := without(now, members, notBegun)
	if slices.ContainsFunc(now.Roles, notBegun) && begun.FirstUnmet(of, (*model.Task).CountsTowardMinimum) != nil {
		now.MinMember, now.Roles = begun.MinMember, limited(now.Roles, func(role model.Role) int { return int(role.MinMember) })
	}
	before := model.Minima{MinMember: min(now.MinMember, was.MinMember), Roles: limited(now.Roles, func(role model.Role) int {
		if i := indexOf(was.Roles, role.Name); i >= 0 {
			return int(was.Roles[i].MinMember)
		}
		return 0
	})}
	if before.FirstUnmet(members, (*model.Task).CountsTowardMinimum) != nil {
		now = withBegun(now, before)
		asks := model.Job{Tasks: members, Need: model.Need{MinMember: now.MinMember, Roles: now.Roles}}
		lost = asks.CompletesWithin(was.Requests)
	}
	replaces := func(task *model.Task) bool {
		return task.Status == model.Pending && !task.SchedulingGated && task.Invalid == nil && !isIn(now.Roles, task, notBegun)
	}
	if !slices.ContainsFunc(members, replaces) || now.FirstUnmet(members, (*model.Task).Exists) == nil {
		return now, lost
	}
	usable := func(task *model.Task) bool { return task.CountsTowardMinimum() || replaces(task) }
	return model.Minima{
		MinMember: min(now.MinMember, int32(model.CountOf(members, usable))),
		Roles: limited(now.Roles, func(role model.Role) int {
			return model.CountOf(members, func(task *model.Task) bool { return task.Role == role.Name && usable(task) })
		}),
	}, lost
}

// withBegun returns what a gang was whole with, and the minima of the roles made later that have begun since, in the order of
// now.
func withBegun(now, before model.Minima) model.Minima {
	both := model.Minima{MinMember: before.MinMember}
	for _, role := range now.Roles {
		i := indexOf(before.Roles, role.Name)
		switch {
		case i >= 0:
			both.Roles = append(both.Roles, before.Roles[i])
		case role.MadeLater: // and not late: limited keeps those
			both.Roles = append(both.Roles, role)
			both.MinMember += role.MinMember
		}
	}
	both.MinMember = min(both.MinMember, now.MinMember)
	return both
}

// limited returns the roles with no minimum above the limit for it, and with none of late ones; others that need no member are
// left out.
func limited(roles []model.Role, limit func(role model.Role) int) (left []model.Role) {
	for _, role := range roles {
		if role.NotBegun {
			role.MinMember = 0
		} else if role.MinMember = min(role.MinMember, int32(limit(role))); role.MinMember <= 0 {
			continue
		}
		left = append(left, role)
	}
	return left
}

// indexOf returns the position of the role of a name, negative when there is none.
func indexOf(roles []model.Role, name string) int {
	return slices.IndexFunc(roles, func(role model.Role) bool { return role.Name == name })
}

// Stated returns the job with the minima that its group states: the job itself unless they are lowered.
func Stated(job *model.Job) *model.Job {
	if job.Stated == nil {
		return job
	}
	stated := *job
	stated.Need.MinMember, stated.Need.Roles, stated.Need.Stated = job.Stated.MinMember, job.Stated.Roles, nil
	return &stated
}

// IsBelow reports whether members hold capacity, not only by binds in flight, and are below the minima.
func IsBelow(minima *model.Minima, members []*model.Task) bool {
	holds := func(task *model.Task) bool { return task.Status == model.Bound || task.Status == model.Running }
	return slices.ContainsFunc(members, holds) && minima.FirstUnmet(members, (*model.Task).CountsTowardMinimum) != nil
}

// Remains reports whether a member is bound or about to be, or has succeeded.
func Remains(members []*model.Task) bool {
	return slices.ContainsFunc(members, func(task *model.Task) bool { return task.IsBound() || task.Status == model.Binding })
}

// hasStarted reports whether a member with a node has a container that runs, or has ended.
func hasStarted(members []*model.Task) bool {
	return slices.ContainsFunc(members, func(task *model.Task) bool { return task.Started && HasNode(task) })
}

// HasNode reports whether the task has a node, or a bind to one is in flight.
func HasNode(task *model.Task) bool {
	return task.Status == model.Binding || task.Status == model.Bound || task.Status == model.Running
}
