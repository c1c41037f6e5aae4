package sources

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
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
// none.
func FillImplicit(job *model.Job, set *Spec) {
	job.UID, job.MinMember, job.Invalid = job.Key.Owner, 1, nil
	for _, task := range job.Tasks {
		job.MinMember = max(job.MinMember, task.MinMember)
	}
	if len(job.Tasks) > 0 {
		job.Created = job.Tasks[0].Created
	}
	var roles []model.Role
	if job.MinMember > 1 && workersAreLate(job, set) {
		roles = lateWorkers(job.MinMember)
		job.Roles = roles
		countLate(job)
	}
	fillFromPods(job)
	fillTopology(job, nil, roles)
}

// FillForeign writes what a foreign object says into its job: identity, age, minimum, which members share a domain, and a
// refusal when it contradicts itself. What no status of ours has is read from the pods, as for an implicit group; so is it
// that the workers of a LeaderWorkerSet are made later, which its group does not say.
func FillForeign(job *model.Job, spec *Spec) {
	roles := spec.Roles
	if spec.MinMember > 1 && len(roles) == 0 && isExclusive(job) {
		roles = lateWorkers(spec.MinMember)
	}
	job.UID, job.Created, job.MinMember, job.Roles = spec.UID, spec.CreationTimestamp.Time, spec.MinMember, roles
	job.Invalid = nil
	if spec.Contradiction != "" {
		job.Invalid = spec.Refusal()
	}
	withoutEarlier(job, func() {
		countDone(job, spec.Done)
		countLeft(job, spec.Left)
		countLate(job)
		fillFromPods(job)
	})
	fillTopology(job, spec.Topology, roles)
}

// fillFromPods works out since when a job is in the queue, and whether it was whole, where no status says so.
func fillFromPods(job *model.Job) {
	job.QueuedSince = latest(job.Created, completeAt(job))
	job.Whole = hasStarted(job)
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

// Fill writes what the PodGroup says into its job: identity, age, minima, and a refusal when it contradicts itself.
func Fill(job *model.Job, group *v1alpha1.PodGroup) {
	job.UID = group.UID
	job.Created = group.CreationTimestamp.Time
	job.MinMember = group.Spec.MinMember
	job.HasGroup = true
	job.StatusFinished = group.Status.Phase == v1alpha1.PodGroupSucceeded || group.Status.Phase == v1alpha1.PodGroupFailed
	if since := group.Status.WaitingSince; since != nil {
		job.WaitingSince = latest(since.Time, group.CreationTimestamp.Time, completeAt(job))
	}
	job.Roles, job.Topology = rolesOf(group.Spec.Roles), topologyOf(group.Spec.Topology)
	job.Evicted = job.Evicted && job.FirstUnmetMinimum(bound) != nil
	if since := QueuedSince(job, &group.Status); since != nil {
		job.QueuedSince = latest(since.Time, job.Created)
	} else {
		job.QueuedSince = job.Created
	}
	job.Reclaims = max(0, group.Status.Reclaims)
	job.ExpectedRunSeconds = group.Spec.ExpectedRunSeconds
	if since := group.Status.OverrunSince; since != nil {
		job.OverrunSince = since.Time
	}
	job.Whole, job.StartedMinima = Whole(group), startedMinima(group)
	job.Invalid = nil
	if detail := contradiction(group, job.Roles); detail != "" {
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

// completeAt returns when the last of the members had been created that the job needs, the oldest ones counted; zero while it
// lacks some. A status that says that it has waited for longer was not written by a scheduler.
func completeAt(job *model.Job) (at time.Time) {
	if job.FirstUnmetMinimum((*model.Task).Exists) != nil || job.MinMember < 1 {
		return at
	}
	at = createdAt(job, job.MinMember, func(*model.Task) bool { return true })
	for _, role := range job.Roles {
		at = latest(at, createdAt(job, role.MinMember, func(task *model.Task) bool { return task.Role == role.Name }))
	}
	return at
}

// createdAt returns when the n-th of the existing tasks that count was created, in the order of the tasks, which is that of their
// creation.
func createdAt(job *model.Job, n int32, counts func(*model.Task) bool) time.Time {
	for _, task := range job.Tasks {
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
