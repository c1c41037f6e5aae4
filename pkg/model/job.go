package model

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// JobKey names a job: a PodGroup, an implicit group, or a pod without either.
type JobKey struct {
	Namespace string
	Name      string
	// IsPod tells that the job is one plain pod and Name is the pod's.
	IsPod bool
	// WithoutPodGroup tells that the job is a group which no PodGroup stands for: Name is what its pods call it, Owner the UID of their
	// controller, empty when they have none.
	WithoutPodGroup bool
	Owner           types.UID
}

// String returns namespace/name, and of an implicit group with a controller namespace/name/UID of that.
func (k JobKey) String() string {
	if k.Owner != "" {
		return k.Namespace + "/" + k.Name + "/" + string(k.Owner)
	}
	return k.Namespace + "/" + k.Name
}

// Describe returns what the key names, and its name: "PodGroup ns/name", "implicit group ns/name" or "pod ns/name".
func (k JobKey) Describe() string {
	name := k.Namespace + "/" + k.Name
	switch {
	case k.IsPod:
		return "pod " + name
	case k.WithoutPodGroup:
		return "implicit group " + name
	}
	return "PodGroup " + name
}

// PodGroup returns the key that the PodGroup has, or would have, which the members of a group name.
func (k JobKey) PodGroup() JobKey { return JobKey{Namespace: k.Namespace, Name: k.Name} }

// Compare orders keys by namespace, name, kind and owner.
func (k JobKey) Compare(other JobKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name),
		cmp.Compare(k.kind(), other.kind()), cmp.Compare(k.Owner, other.Owner))
}

func (k JobKey) kind() int {
	switch {
	case k.IsPod:
		return 1
	case k.WithoutPodGroup:
		return 2
	}
	return 0
}

// Role is a named part of a job with a minimum of its own.
type Role struct {
	Name      string
	MinMember int32
}

// Job is the tasks of one PodGroup, of one implicit group, or one plain pod.
type Job struct {
	Key JobKey
	// UID is the group's, the single pod's, or that of the controller of an implicit group; empty while the group does not exist,
	// and of an implicit group without a controller.
	UID types.UID
	// Priority decides the job's turn; see the priority plugin for what it comes from.
	Priority int32
	// MinMember is how many members must start together.
	MinMember int32
	// Roles are the minima of the job's parts, by name; nil when it has none.
	Roles []Role
	// Whole reports whether the gang has had its minimum bound, as far as the API says; members may have been lost since.
	Whole bool
	// Lowered reports whether MinMember and Roles are below what the group states, since a gang that was whole lacks members.
	Lowered bool
	Created time.Time
	// NeverPreempts tells that nobody is evicted for the job: its group or one of its pods says preemptionPolicy: Never.
	NeverPreempts bool
	// Tasks are all tasks of the job, in CompareTasks order.
	Tasks []*Task
	// Group is the PodGroup, never changed; nil for a single pod, for an implicit group, and for a group that does not exist.
	Group *v1alpha1.PodGroup
	// ClassPriority is the value of the group's priority class; nil when it names none or one that does not exist.
	ClassPriority *int32
	// Warning is what the user should know about the job besides why it waits, such as a priority class that does not count;
	// empty when there is nothing.
	Warning string
	// Invalid says why the job as a whole cannot be scheduled, whatever the cluster; nil when it can.
	Invalid *Refusal
	// Reservation is the room that is kept for the job; nil when none is.
	Reservation *Reservation

	// NothingPending tells that there was nothing to decide when the snapshot was taken: nobody of the job waits for a node, and it
	// has its minimum or has ended. False is always safe.
	NothingPending bool
	// BelowMinimum tells that the gang held room and was below its minimum when the snapshot was taken.
	BelowMinimum bool
	// Class is what decides about the job while all of its members wait; zero when one of them does not.
	Class Class
	// Version differs from one state of the job to the next; what a session does to its tasks aside. Zero is unknown.
	Version uint64
}

// IsSchedulableGroup tells whether the job is a group that can start: its PodGroup exists, or it needs none.
func (j *Job) IsSchedulableGroup() bool { return j.Group != nil || j.Key.WithoutPodGroup }

// Count returns how many tasks satisfy the condition.
func (j *Job) Count(condition func(*Task) bool) int {
	n := 0
	for _, task := range j.Tasks {
		if condition(task) {
			n++
		}
	}
	return n
}

// Finished tells whether the job has done its work or failed at it: it has had members, and none of them lives. New members
// make it wait again.
func (j *Job) Finished() bool {
	done := j.Count(func(t *Task) bool { return t.Status == Succeeded || t.Status == Failed })
	if len(j.Tasks) > 0 {
		return done == len(j.Tasks)
	}
	return j.Group != nil && (j.Group.Status.Phase == v1alpha1.PodGroupSucceeded ||
		j.Group.Status.Phase == v1alpha1.PodGroupFailed)
}

// UnmetMinimum is a minimum that is not reached.
type UnmetMinimum struct {
	Needs, Has int64
	// Role is whose minimum it is; empty for the job's own.
	Role string
}

// What returns "role worker", or nothing when it is the job's own minimum.
func (s *UnmetMinimum) What() string {
	if s.Role == "" {
		return ""
	}
	return "role " + s.Role
}

// FirstUnmetMinimum returns the first minimum that the tasks which count do not reach, the job's own before those of its roles; nil
// when all are reached.
func (j *Job) FirstUnmetMinimum(counts func(*Task) bool) *UnmetMinimum {
	if has := j.Count(counts); has < int(j.MinMember) {
		return &UnmetMinimum{Needs: int64(j.MinMember), Has: int64(has)}
	}
	for _, role := range j.Roles {
		has := j.Count(func(task *Task) bool { return task.Role == role.Name && counts(task) })
		if has < int(role.MinMember) {
			return &UnmetMinimum{Needs: int64(role.MinMember), Has: int64(has), Role: role.Name}
		}
	}
	return nil
}

// Pending returns the tasks that want a node: pending, not gated, in CompareTasks order.
func (j *Job) Pending() []*Task {
	var waiting []*Task
	for _, task := range j.Tasks {
		if task.Status == Pending && !task.SchedulingGated {
			waiting = append(waiting, task)
		}
	}
	return waiting
}

// CompareJobs orders jobs by creation and then by UID and key: the tail of every job order, total over distinct jobs.
func CompareJobs(a, b *Job) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID), a.Key.Compare(b.Key))
}

// Queue is where jobs wait for their turn. Until queues are objects of their own there is exactly one.
type Queue struct {
	Name    string
	UID     types.UID
	Created time.Time
}

// CompareQueues orders queues by creation, UID and name: the tail of every queue order.
func CompareQueues(a, b *Queue) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
}
