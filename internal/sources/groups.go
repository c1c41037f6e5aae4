package sources

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Membership is what a pod says of the job it belongs to.
type Membership struct {
	// Job is that of the group which the pod names, always in its own namespace, or one of its own.
	Job model.JobKey
	// Role is the role that the pod plays in it; empty when it names none.
	Role string
	// MinMember is how many members an implicit group needs as far as this pod says; zero when it says nothing that can be read.
	MinMember int32
	// Malformed says what cannot be read of that, or that the group's name cannot be one: the pod waits alone then. nil when all is
	// well.
	Malformed *model.Refusal
	// Otherwise is what holds in its place: while the PodGroup of ours does not exist, since the same mark may mean another group,
	// or once the foreign object says that it is no gang. nil when nothing does, and the pod waits for the object.
	Otherwise *Membership
}

// All returns the membership and those that hold in its place, in their order.
func (m *Membership) All() iter.Seq[*Membership] {
	return func(yield func(*Membership) bool) {
		for ; m != nil && yield(m); m = m.Otherwise {
		}
	}
}

// Implicit returns what holds while the pod says what its group needs; nil when it waits for an object.
func (m Membership) Implicit() *Membership {
	for one := range m.All() {
		if one.Job.IsImplicit() {
			return one
		}
	}
	return nil
}

// SaysTheSame reports whether two versions of a pod say the same of their job, beyond which job it is, the role in it and its
// queue.
func SaysTheSame(a, b *model.Member) bool {
	return a == b || sameTopology(a.Topology, b.Topology) && a.Set == b.Set && a.Exclusive == b.Exclusive &&
		a.Unfollowed == b.Unfollowed && a.UnfollowedAlone == b.UnfollowedAlone
}

func sameTopology(a, b *model.SaidTopology) bool {
	return a == b || a != nil && b != nil && a.Key == b.Key
}

// FillImplicit writes what its members say into a job without a PodGroup: identity and minimum, which is the highest that any of
// them asks for, and which of them share a domain. A member whose minimum cannot be read is refused itself, and does not
// change that of the others. set is what the LeaderWorkerSet of the group says; nil when that is not known, or the group is of
// none. was is what the group is known to have been whole with.
func FillImplicit(job *model.Job, set *Spec, was model.Minima) {
	job.UID, job.Invalid = job.Key.Owner, nil
	spec := gang.Spec{MinMember: 1}
	for _, task := range job.Tasks {
		spec.MinMember = max(spec.MinMember, task.MinMember)
	}
	if len(job.Tasks) > 0 {
		job.Created = job.Tasks[0].Created
	}
	if spec.MinMember > 1 && workersAreLate(job, set) {
		spec.Roles = lateWorkers(spec.MinMember)
	}
	fillNeed(job, &spec, nil, was)
}

// FillForeign writes what a foreign object says into its job: identity, age, minimum, which members share a domain, and a
// refusal when a field cannot be read. It may be the minimum, so that all members are needed then. What no status of ours has is
// read from the pods, as for an implicit group; so is it that the workers of a LeaderWorkerSet are made later, which its group
// does not say. was is as in FillImplicit.
func FillForeign(job *model.Job, spec *Spec, was model.Minima) {
	states := gang.Spec{UID: spec.UID, MinMember: spec.MinMember, Roles: spec.Roles, Done: spec.Done, Left: spec.Left}
	if spec.MinMember > 1 && len(spec.Roles) == 0 && isExclusive(job) {
		states.Roles = lateWorkers(spec.MinMember)
	}
	job.UID, job.Created, job.Invalid = spec.UID, spec.CreationTimestamp.Time, nil
	if spec.Contradiction != "" {
		job.Invalid, states.Undecodable = spec.Refusal(), true
		states.MinMember = max(spec.MinMember, gang.OfUnknown(job.Tasks, false).MinMember)
	}
	fillNeed(job, &states, spec.Topology, was)
}

// fillNeed works out what a job needs, which of its members share a domain, and since when it is in the queue where no status
// says so.
func fillNeed(job *model.Job, spec *gang.Spec, topology []model.TopologyConstraint, was model.Minima) {
	job.Need = gang.Of(spec, job.Tasks, was)
	job.QueuedSince = latest(job.Created, completeAt(&job.Present.Minima, job.Present.Tasks))
	fillTopology(job, topology, spec.Roles)
}

// Replacement returns the key of the PodGroup of ours that takes the place of the job's group once it exists; ok is false when
// the members of the job are in no other group whatever exists.
func Replacement(job model.JobKey) (key model.JobKey, ok bool) {
	ok = job.Source == model.SourceImplicit || job.Source == model.SourceVolcano && len(job.Name) <= validation.LabelValueMaxLength
	return model.JobKey{Namespace: job.Namespace, Name: job.Name}, ok
}

// Key returns the key of the job that a PodGroup stands for.
func Key(group *v1alpha1.PodGroup) model.JobKey {
	return model.JobKey{Namespace: group.Namespace, Name: group.Name}
}

// Fill writes what the PodGroup says into its job: identity, age, minima, and a refusal when it contradicts itself. was is what
// the group was whole with, as StartedMinimaOf returns it. isDecoded reports that all of it could be decoded: else all members
// are needed where it states no minimum.
func Fill(job *model.Job, group *v1alpha1.PodGroup, was model.Minima, isDecoded bool) {
	spec := gang.Spec{
		MinMember: group.Spec.MinMember, Roles: rolesOf(group.Spec.Roles), HasStatus: true, Whole: Whole(group), Undecodable: !isDecoded,
	}
	if !isDecoded {
		spec.MinMember = cmp.Or(spec.MinMember, group.Status.StartedMinMember, gang.OfUnknown(job.Tasks, false).MinMember)
	}
	job.Need, job.Topology = gang.Of(&spec, job.Tasks, was), topologyOf(group.Spec.Topology)
	job.UID = group.UID
	job.Created = group.CreationTimestamp.Time
	job.HasGroup = true
	job.StatusFinished = group.Status.Phase == v1alpha1.PodGroupSucceeded || group.Status.Phase == v1alpha1.PodGroupFailed
	if since := group.Status.WaitingSince; since != nil {
		job.WaitingSince = latest(since.Time, group.CreationTimestamp.Time, completeAt(&job.Present.Minima, job.Present.Tasks))
	}
	job.Evicted = job.Evicted && job.Present.FirstUnmetMinimum((*model.Task).IsBound) != nil
	job.QueuedSince = job.Created
	if since := QueuedSince(gang.Stated(job), &group.Status); since != nil {
		job.QueuedSince = latest(since.Time, job.Created)
	}
	job.Reclaims = max(0, group.Status.Reclaims)
	job.ExpectedRunSeconds = group.Spec.ExpectedRunSeconds
	if since := group.Status.OverrunSince; since != nil {
		job.OverrunSince = since.Time
	}
	job.Invalid = nil
	if detail := contradiction(group, spec.Roles); detail != "" {
		job.Invalid = &model.Refusal{Code: model.InvalidGroup, Detail: detail}
	}
}

// rolesOf returns the roles by name.
func rolesOf(listed []v1alpha1.Role) (roles []model.Role) {
	for _, role := range listed {
		roles = append(roles, model.Role{Name: role.Name, MinMember: role.MinMember})
	}
	slices.SortFunc(roles, func(a, b model.Role) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MinMember, b.MinMember))
	})
	return roles
}

// topologyOf returns which members share a domain.
func topologyOf(listed []v1alpha1.TopologyConstraint) (topology []model.TopologyConstraint) {
	for _, one := range listed {
		topology = append(topology, model.TopologyConstraint{
			Level: one.Level, Preferred: one.Mode == v1alpha1.TopologyPreferred, Roles: slices.Sorted(slices.Values(one.Roles)),
			SliceSize: max(0, one.SliceSize), WaitSeconds: max(0, one.WaitSeconds),
		})
	}
	return topology
}

// completeAt returns when the last of the members had been created that the minima need, the oldest ones counted; zero while some
// are lacking. A status that says that a group has waited for longer was not written by a scheduler.
func completeAt(minima *model.Minima, members []*model.Task) (at time.Time) {
	if minima.FirstUnmet(members, (*model.Task).Exists) != nil || minima.MinMember < 1 {
		return at
	}
	at = createdAt(members, minima.MinMember, func(*model.Task) bool { return true })
	for _, role := range minima.Roles {
		at = latest(at, createdAt(members, role.MinMember, func(task *model.Task) bool { return task.Role == role.Name }))
	}
	return at
}

// createdAt returns when the n-th of the existing members that count was created, in the order of their creation.
func createdAt(members []*model.Task, n int32, counts func(*model.Task) bool) time.Time {
	for _, task := range members {
		if task.Exists() && counts(task) {
			if n--; n == 0 {
				return task.Created
			}
		}
	}
	return time.Time{}
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// contradiction repeats the rules of the CRD, since an object may be older than they are.
func contradiction(group *v1alpha1.PodGroup, roles []model.Role) string {
	if group.Spec.MinMember < 1 {
		return fmt.Sprintf("minMember is %d, it must be at least 1", group.Spec.MinMember)
	}
	var sum int64
	for i, role := range roles {
		if role.MinMember < 1 {
			return fmt.Sprintf("minMember of role %q is %d, it must be at least 1", role.Name, role.MinMember)
		}
		if i > 0 && roles[i-1].Name == role.Name {
			return fmt.Sprintf("role %q is listed twice", role.Name)
		}
		sum += int64(role.MinMember)
	}
	for _, one := range group.Spec.Topology {
		for _, name := range one.Roles {
			if !slices.ContainsFunc(roles, func(role model.Role) bool { return role.Name == name }) {
				return fmt.Sprintf("topology %s: role %q is none of the group's roles", one.Level, model.Brief(name, maxQuoted))
			}
		}
	}
	if sum > int64(group.Spec.MinMember) {
		return fmt.Sprintf("the roles need %d members together, which is more than minMember: %d", sum, group.Spec.MinMember)
	}
	return ""
}
