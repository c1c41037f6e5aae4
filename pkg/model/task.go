package model

import (
	"cmp"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Status is where a task is in its life. The state holds all of them but Placed and Promised, which a session adds.
//
//	            ┌── Promised             session only: holds room that is being released
//	            │
//	Pending ────┼── Placed               session only: holds idle room
//	   ▲        │      │ decision
//	   │ forget │      ▼
//	   └────────┼── Binding              assumed: the call is on its way
//	            │      │ watch
//	            │      ▼
//	            └─► Bound ──► Running ──┬──► Succeeded
//	                  │          │      └──► Failed
//	                  └────┬─────┘
//	                       ▼
//	                   Releasing ──► (gone)
type Status int8

// The statuses.
const (
	Pending Status = iota
	Pipelined
	Allocated
	Binding
	Bound
	Running
	Releasing
	Succeeded
	Failed
)

var statusNames = [...]string{
	"Pending", "Promised", "Placed", "Binding", "Bound", "Running", "Releasing", "Succeeded", "Failed",
}

// String returns the status's name.
func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return "Unknown"
	}
	return statusNames[s]
}

// Occupies tells whether a task of this status takes room on its node now.
func (s Status) Occupies() bool { return s >= Allocated && s <= Releasing }

// HasNode tells whether a task of this status belongs to a node, now or soon.
func (s Status) HasNode() bool { return s >= Pipelined && s <= Releasing }

// CountsTowardMinimum tells whether a task of this status counts towards its gang's minimum: it has room, or it has done its work.
func (s Status) CountsTowardMinimum() bool {
	return s == Allocated || s == Binding || s == Bound || s == Running || s == Succeeded
}

// PodRef names one incarnation of a pod.
type PodRef struct {
	UID       types.UID
	Namespace string
	Name      string
}

// String returns namespace/name.
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// Shape stands for everything about a pod that decides which nodes may run it whatever else runs there: its request,
// selectors, tolerations, images. Two tasks have equal shapes exactly when that is equal: the key is compared in full.
type Shape = unique.Handle[string]

// NonZeroDefaults is what scores count on top of a request, at the positions CPU and Memory: kube-scheduler takes a container that
// does not say how much of one it wants to use a little all the same, so that such pods do not pile up on one node. It takes
// no room.
type NonZeroDefaults [Memory + 1]int64

// Placement is where a task is: its status and, when the status has one, its node.
type Placement struct {
	Status Status
	// Node is the node's name; empty when the status has none.
	Node string
}

// Task is one pod as the scheduler sees it.
//
// Invariant: within a session only Snapshot.Move changes a task, and only its Position; but that a statement says which isolated
// CPUs a task holds before it places it, and takes them back after it has undone that.
type Task struct {
	PodRef
	Placement

	// Job is the key of the job the task belongs to; the zero key for a pod of another scheduler.
	Job JobKey
	// Role is the part the task plays in its job; empty when it names none.
	Role     string
	Priority int32
	// MinMember is how many members its group needs, as far as this one says, while no PodGroup says so; zero when it says nothing.
	MinMember int32
	// Started tells that a container of the pod runs, or has done its work.
	Started bool
	Created time.Time
	// Request is what the task takes on a node.
	Request Resources
	// MayUseDeviceClass tells that some of it may be devices that a DeviceClass provides, where a node does not report them itself.
	MayUseDeviceClass bool
	// NonZeroDefaults is what scores count on top of it.
	NonZeroDefaults NonZeroDefaults
	// Shape is the placement question of the task.
	Shape Shape
	// Pod is the stripped pod, never changed; terminal pods keep only their metadata and phase.
	Pod *corev1.Pod
	// SchedulingGated tells that the pod carries scheduling gates.
	SchedulingGated bool
	// TerminationOverdue tells that a Releasing task has outlived its grace: its room is neither idle nor about to be.
	TerminationOverdue bool
	// Nominated is the node on which room was promised to the task in an earlier cycle, for which others were evicted; empty
	// when there is none.
	Nominated string
	// Isolated are the isolated CPUs that the task holds on its node, never changed; nil when it holds none.
	Isolated *isolated.Assignment
	// Invalid says why the task alone cannot be scheduled, whatever the cluster; nil when it can.
	Invalid *Refusal
}

// IsBound reports whether the API server has the task on a node, or done: an assumed bind does not count.
func (t *Task) IsBound() bool {
	return t.Status == Bound || t.Status == Running || t.Status == Succeeded
}

// Exists reports whether the task counts towards the minimum, or would if it had a node.
func (t *Task) Exists() bool {
	return t.Status.CountsTowardMinimum() || t.Status == Pending && !t.SchedulingGated
}

// ReleasesResources tells whether the task's room is being released and can be counted on.
func (t *Task) ReleasesResources() bool { return t.Status == Releasing && !t.TerminationOverdue }

// systemCritical is the lowest priority of Kubernetes' own classes, system-cluster-critical and system-node-critical
// (scheduling.SystemCriticalPriority in k8s.io/kubernetes).
const systemCritical = 2_000_000_000

// IsSystemCritical tells whether nobody may ever end the task, whatever for: it is in the system's own namespace, or critical to it.
func (t *Task) IsSystemCritical() bool {
	return t.Namespace == metav1.NamespaceSystem || t.Priority >= systemCritical
}

// CompareTasks orders tasks by creation and then by UID: the tail of every task order, total over distinct tasks.
func CompareTasks(a, b *Task) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
}
