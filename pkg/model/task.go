package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Status is the phase of a task. The cluster state has all of them but Allocated and Pipelined, which a session adds.
//
//	            ┌── Pipelined            session only: holds capacity that is being released
//	            │
//	Pending ────┼── Allocated            session only: holds idle capacity
//	   ▲        │      │ decision
//	   │ forget │      ▼
//	   └────────┼── Binding              assumed: the call is in flight
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
	"Pending", "Pipelined", "Allocated", "Binding", "Bound", "Running", "Releasing", "Succeeded", "Failed",
}

// String returns the status's name.
func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return "Unknown"
	}
	return statusNames[s]
}

// Occupies reports whether a task of this status uses capacity on its node now.
func (s Status) Occupies() bool { return s >= Allocated && s <= Releasing }

// HasNode reports whether a task of this status has a node, now or soon.
func (s Status) HasNode() bool { return s >= Pipelined && s <= Releasing }

// CountsTowardMinimum reports whether a task of this status counts towards its gang's minimum: it has capacity, or has
// succeeded.
func (s Status) CountsTowardMinimum() bool {
	return s == Allocated || s == Binding || s == Bound || s == Running || s == Succeeded
}

// Is reports whether a task has the status.
func (s Status) Is(task *Task) bool { return task.Status == s }

// PodRef names one incarnation of a pod.
type PodRef struct {
	UID       types.UID
	Namespace string
	Name      string
}

// String returns namespace/name.
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// Shape identifies everything about a pod that decides which nodes may run it, apart from other pods: its request, selectors,
// tolerations, images. Two tasks have equal shapes exactly when these are equal: the key is compared in full.
type Shape = unique.Handle[string]

// NonZeroDefaults is what scores count in addition to a request, at the positions CPU and Memory: kube-scheduler assumes a
// small request of containers without one, so that such pods do not accumulate on one node. It uses no capacity.
type NonZeroDefaults [Memory + 1]int64

// Placement is a task's status and, when the status has one, its node.
type Placement struct {
	Status Status
	// Node is the node's name; empty when the status has none.
	Node string
}

// Task is one pod as the scheduler sees it.
//
// Invariant: within a session only Snapshot.Move changes a task, and only its Placement; except that a nomination may end until
// the session does, and that a statement sets a task's isolated CPUs before it places it, and clears them after it has undone
// that.
type Task struct {
	PodRef
	Placement
	// queue is where the task counts; nil while there are no queues. It is read with the placement.
	queue *Queue

	// Job is the key of the job the task belongs to; the zero key for a pod of another scheduler.
	Job JobKey
	// Role is the task's role in its job; empty when it names none.
	Role string
	// Member is what the pod says of its place in its job beside that; nil when it says nothing, see Says.
	Member   *Member
	Ranks    Ranks
	Priority int32
	// MinMember is the group's minimum by this pod's annotation, used while no PodGroup exists; zero when it has none.
	MinMember int32
	// BoundWith is how many binds its job needed when the pod was bound for it, as the pod says; none of a group of ours.
	BoundWith Number
	// MayDoWithoutGroup reports whether the pod names a minimum of its own, so that it goes on in a group when its PodGroup is
	// deleted.
	MayDoWithoutGroup bool
	// Started reports whether a container of the pod runs, or has ended.
	Started bool
	// SchedulingGated reports whether the pod has scheduling gates.
	SchedulingGated bool
	// TerminationOverdue reports whether a Releasing task has exceeded its grace period: its capacity is not idle, nor
	// expected to be.
	TerminationOverdue bool
	Created            time.Time
	// GraceSeconds is how long the pod may take to end when the scheduler evicts or deletes it, in seconds: its own grace period,
	// and at most what the configuration says, by default DefaultMaxGrace. Zero is the pod's own.
	GraceSeconds int64
	// Request is the task's request. It holds one at the position Unoffered when Unoffered is not empty: what it requests of
	// resources that no node offers, never changed.
	Request   Resources
	Unoffered corev1.ResourceList
	// Devices is what the request has of devices by claims; nil when the pod names no claim.
	Devices *Devices
	// MayUseDeviceClass reports whether a part of it may be devices of a DeviceClass, where a node does not report them
	// itself.
	MayUseDeviceClass bool
	// released reports that the nomination has ended in this session, which the state does not know yet.
	released bool
	// NonZeroDefaults is what scores count in addition to Request.
	NonZeroDefaults NonZeroDefaults
	// Shape is the task's shape.
	Shape Shape
	// Pod is the stripped pod, never changed; terminal pods keep only their metadata and phase.
	Pod *corev1.Pod
	// Nominated is the node with capacity nominated to the task in an earlier cycle, for which others were evicted; empty
	// when there is none.
	Nominated string
	// Place is where in the topology the pod is, as it says, or as is written with an assumed bind, never changed; nil when neither
	// says it.
	Place *Place
	// Asks is what the pod asks of isolated CPUs; nil when it says nothing of them.
	Asks *isolated.Asked
	// Isolated are the isolated CPUs that the task holds on its node, never changed; nil when it holds none.
	Isolated *isolated.Assignment
	// Invalid says why the task alone cannot be scheduled, whatever the cluster; nil when it can.
	Invalid *Refusal
}

// Devices is what is known of the devices that a task asks for by claims. It is never changed. nil is a task without claims.
type Devices struct {
	// Claimed is the part of the request that claims ask for.
	Claimed Resources
	// Kept is the part of the request that does not become free when the task leaves its node: devices that other tasks use, too,
	// and devices that no other task could be given.
	Kept Resources
	// Shared is the part of the request that a task of another job is charged for when this one is gone.
	Shared Resources
	// Selectors are those of the requests of its claims that are in the request; nil is none. Where all devices of their classes
	// satisfy them, the numbers of a node are enough.
	Selectors []DeviceSelectors
	// Searched says why the request does not say all that the task asks for, so that kube-scheduler's allocator has to be asked
	// which nodes can run it; empty where the numbers are enough.
	Searched string
	// Uncounted are the positions of the classes of which the task asks for devices that are not in the request, ascending.
	Uncounted []int
}

// SearchesDevices reports whether the task asks more of devices than its request says.
func (t *Task) SearchesDevices() bool {
	if t.Devices == nil {
		return t.Pod != nil && len(t.Pod.Spec.ResourceClaims) > 0
	}
	return t.Devices.Searched != ""
}

// Equal reports whether both say the same.
func (d *Devices) Equal(other *Devices) bool {
	if d == nil || other == nil {
		return d == other
	}
	return d.Searched == other.Searched && d.Kept.Equal(other.Kept) && d.Shared.Equal(other.Shared) && d.Claimed.Equal(other.Claimed) &&
		slices.Equal(d.Uncounted, other.Uncounted) && slices.Equal(d.Selectors, other.Selectors)
}

// DeviceSelectors are the CEL expressions of a request for devices of a class, each of which a device must satisfy.
type DeviceSelectors struct {
	Class string
	// text is the expressions with zero bytes between them, so that the whole can be compared.
	text string
}

// NewDeviceSelectors returns the selectors of a request for devices of the class.
func NewDeviceSelectors(class string, expressions []string) DeviceSelectors {
	return DeviceSelectors{Class: class, text: strings.Join(expressions, "\x00")}
}

// Expressions returns the CEL expressions, in the order of the request.
func (d DeviceSelectors) Expressions() []string { return strings.Split(d.text, "\x00") }

// String returns the class and the expressions, different for different selectors.
func (d DeviceSelectors) String() string { return fmt.Sprintf("%s %q", d.Class, d.Expressions()) }

// CountsTowardMinimum is as that of its status.
func (t *Task) CountsTowardMinimum() bool { return t.Status.CountsTowardMinimum() }

// IsBound reports whether the API server has bound the task, or it has ended: an assumed bind does not count.
func (t *Task) IsBound() bool {
	return t.Status == Bound || t.Status == Running || t.Status == Succeeded
}

// Exists reports whether the task counts towards the minimum, or would if it had a node.
func (t *Task) Exists() bool {
	return t.Status.CountsTowardMinimum() || t.Status == Pending && !t.SchedulingGated
}

// ReleasesResources reports whether the task's capacity is being released and can be counted on.
func (t *Task) ReleasesResources() bool { return t.Status == Releasing && !t.TerminationOverdue }

// DefaultMaxGrace is how long a pod that the scheduler ends may take at most where the configuration does not say.
const DefaultMaxGrace = 5 * time.Minute

// systemCritical is the lowest priority of Kubernetes' own classes, system-cluster-critical and system-node-critical
// (scheduling.SystemCriticalPriority in k8s.io/kubernetes).
const systemCritical = 2_000_000_000

// Deleted reports whether a client has deleted the pod, with however long a grace: while that is longer than pods may take to
// end, the status is that of a pod which runs.
func (t *Task) Deleted() bool { return t.Pod != nil && t.Pod.DeletionTimestamp != nil }

// SharesClaim reports whether both pods name one resource claim: devices of it stay allocated until both have left it.
func (t *Task) SharesClaim(other *Task) bool {
	return t != other && t.Namespace == other.Namespace && slices.ContainsFunc(t.Pod.Spec.ResourceClaims, func(claim corev1.PodResourceClaim) bool {
		return claim.ResourceClaimName != nil && slices.ContainsFunc(other.Pod.Spec.ResourceClaims, func(its corev1.PodResourceClaim) bool {
			return its.ResourceClaimName != nil && *its.ResourceClaimName == *claim.ResourceClaimName
		})
	})
}

// IsSystemCritical reports whether the task must never be evicted: it is in the system's namespace, or critical by its
// priority.
func (t *Task) IsSystemCritical() bool {
	return t.Namespace == metav1.NamespaceSystem || t.Priority >= systemCritical
}

// CompareTasks orders tasks by creation and then by UID: the last criterion of every task order, so that it is total.
func CompareTasks(a, b *Task) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
}
