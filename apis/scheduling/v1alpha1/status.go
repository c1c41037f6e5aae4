package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroupPhase summarizes the state of a group in one word. The conditions say why, the counts say how many. There may be more
// phases in a later version: a client should treat one that it does not know as Pending.
//
//	Pending ──► Starting ──► Running ──► Succeeded
//	   ▲            │  ▲      │   ▲
//	   │            ▼  │      ▼   │
//	   │           Degraded ◄─────┘       Failed: from any phase, once no member lives
//	   └── new members, after Succeeded or Failed
//
// +kubebuilder:validation:Enum=Pending;Starting;Running;Degraded;Succeeded;Failed
type PodGroupPhase string

const (
	// PodGroupPending: nothing is bound, or a start was interrupted (fewer than the minimum bound, never scheduled).
	PodGroupPending PodGroupPhase = "Pending"

	// PodGroupStarting: the minimum is bound, but fewer than the minimum run or have succeeded yet.
	PodGroupStarting PodGroupPhase = "Starting"

	// PodGroupRunning: at least the minimum run or have succeeded.
	PodGroupRunning PodGroupPhase = "Running"

	// PodGroupDegraded: was Starting or Running, and now fewer than the minimum are bound or have succeeded.
	PodGroupDegraded PodGroupPhase = "Degraded"

	// PodGroupSucceeded: no member lives, and at least minMember have succeeded. New members lead back to Pending.
	PodGroupSucceeded PodGroupPhase = "Succeeded"

	// PodGroupFailed: no member lives, at least one failed, and fewer than minMember succeeded. New members lead back
	// to Pending. Members that were evicted have not failed: while no other one has, the group stays Pending.
	PodGroupFailed PodGroupPhase = "Failed"
)

// PodGroupStatus is the observed state of a group. The scheduler writes every field, and only when it changes.
type PodGroupStatus struct {
	// phase summarizes the state of the group in one word.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// observedGeneration is the metadata.generation that the rest of the status is about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// schedulerName is the scheduler that has written the status. A group that names no scheduler and whose members are all gone
	// belongs to it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SchedulerName string `json:"schedulerName,omitempty"`

	// queue is the Queue that the group is in: that of spec.queue, else the one that its oldest member or its namespace names, else
	// default. It is not set while there is no Queue of that name, or no Queue at all. A group that has ended keeps it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue,omitempty"`

	// members is how many pods belong to the group, the finished ones included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Members int32 `json:"members"`

	// placed is how many members are bound to a node, those that succeeded included, those that failed not.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Placed int32 `json:"placed"`

	// running is how many members run.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Running int32 `json:"running"`

	// succeeded is how many members have succeeded.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Succeeded int32 `json:"succeeded"`

	// failed is how many members have failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Failed int32 `json:"failed"`

	// startedMinMember is the minimum that the group was whole with when it was last started as a whole. It is not set before.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	StartedMinMember int32 `json:"startedMinMember,omitempty"`

	// startedRoles are the minima of roles that the group was whole with then.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	StartedRoles []Role `json:"startedRoles,omitempty"`

	// startedRequests is what the members requested together when the group last had its minimum bound. Members that replace lost
	// ones come before other jobs only up to that.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	StartedRequests corev1.ResourceList `json:"startedRequests,omitempty"`

	// queuedSince is since when the group has been in the queue: when the last member of its minimum was created. Waiting groups of
	// equal priority start in this order. It stays when the scheduler deletes members: evicted for another job, a start undone or
	// restarted. A group that has ended, or lost all members in another way, gets another one with its next members.
	// +optional
	QueuedSince *metav1.Time `json:"queuedSince,omitempty"`

	// evictedAt is when the scheduler last began to delete members of the group: evicted for another job, a start undone or
	// restarted. It is not set once the group has its minimum bound again, or has ended.
	// +optional
	EvictedAt *metav1.Time `json:"evictedAt,omitempty"`

	// reclaims is how often all members of the group were evicted for jobs of other queues. With each time the group runs for
	// longer before it goes for the fair share of another queue. It is not set before, nor once the group has ended.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Reclaims int32 `json:"reclaims,omitempty"`

	// waitingSince is since when the group has had the members it needs and has waited for capacity. It is not set while
	// members are missing, nor once the minimum is bound.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`

	// degradedSince is since when a group that was started has been below its minimum because it has lost members. It is not
	// set otherwise.
	// +optional
	DegradedSince *metav1.Time `json:"degradedSince,omitempty"`

	// finishedAt is when the phase became Succeeded or Failed, to the second. It is not set in other phases.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`

	// overrunSince is since when the group has run for longer than spec.expectedRunSeconds. It stays when the group starts again:
	// from then on no reserved capacity is lent to the group, unless its pods have a deadline.
	// +optional
	OverrunSince *metav1.Time `json:"overrunSince,omitempty"`

	// topology says in which domains the bound members are: one entry for each of spec.topology, in its order. It is not set while no
	// member is bound, and stays when the group has ended. A field that is not there says nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Topology []TopologyStatus `json:"topology,omitempty"`

	// reservation is the capacity that is reserved for a group that has waited for a long time. It is not set when nothing
	// is reserved.
	// +optional
	Reservation *Reservation `json:"reservation,omitempty"`

	// reservationGivenUp is when a reservation of the group was given up because the group had not started in time. The group
	// gets another one after the others that have waited long had theirs. It is not set otherwise, nor once the minimum is
	// bound.
	// +optional
	ReservationGivenUp *metav1.Time `json:"reservationGivenUp,omitempty"`

	// advice is what would let a waiting group start, each alternative tried by the scheduler on a copy of the cluster in which no
	// other waiting job has a turn. It is about the reason beside it, and is not set while nothing is known. No decision reads it.
	// +optional
	Advice *Advice `json:"advice,omitempty"`

	// conditions explain the phase. Scheduled says whether the gang has been started, and if not, why. Degraded says that it was
	// started, and has fewer members than its minimum now. Reserved says that capacity is reserved for it. Evicted says that members
	// were evicted and the minimum has not been bound since; its reason is ByPriority, ByShare, ByGuarantee or ByUser. The last three
	// are only there once they have been true.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// TopologyStatus says in which domains of a level the bound members are that one entry of spec.topology is about.
type TopologyStatus struct {
	// level is the level of the entry.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Level string `json:"level"`

	// roles are the roles of the entry, sorted. It is not set when the entry is about all members.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	Roles []string `json:"roles,omitempty"`

	// domains is in how many domains of the level the members are. One on a node without a label of the level is in none.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Domains int32 `json:"domains"`

	// least is how many domains the members would need at least if the cluster was empty. It is a lower bound: it counts what nodes
	// offer, for members with one request at a time, as the nodes were when the members were placed. That few may not be enough.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Least int32 `json:"least"`

	// names are the first 8 of the domains in natural order, each with the domains around it in front, such as b1/r3.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=511
	Names []string `json:"names,omitempty"`
}

// Advice is what would let a waiting group start.
type Advice struct {
	// message says all of it in one line, such as "add 2 nodes like n7, or lower minMember from 3 to 2".
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`

	// alternatives are the suggestions, each of which is enough, the better one first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Alternatives []Suggestion `json:"alternatives,omitempty"`
}

// Suggestion is what to do, all of it, for the group to start.
type Suggestion struct {
	// changes are what to do, all of them.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Changes []Change `json:"changes"`
}

// ChangeKind is what a change is made to. There may be more kinds in a later version: a client should show the message of one
// that it does not know.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
type ChangeKind string

// The kinds of changes.
const (
	// CreatePods: create members that are missing, count of them.
	CreatePods ChangeKind = "CreatePods"
	// UngatePods: remove the scheduling gates of members, count of them.
	UngatePods ChangeKind = "UngatePods"
	// RelaxPods: remove a constraint of the pods on nodes, or let them tolerate a taint; the message says which.
	RelaxPods ChangeKind = "RelaxPods"
	// FreeCapacity: end what uses capacity on nodes, on each as much as nodes says.
	FreeCapacity ChangeKind = "FreeCapacity"
	// UncordonNodes: uncordon nodes.
	UncordonNodes ChangeKind = "UncordonNodes"
	// AddNodes: add nodes, count of them, each like the node that nodes names.
	AddNodes ChangeKind = "AddNodes"
	// LowerMinMember: lower minMember, from one number to another, and with a role the minimum of that role, to count.
	LowerMinMember ChangeKind = "LowerMinMember"
	// AllowPreemption: remove preemptionPolicy: Never.
	AllowPreemption ChangeKind = "AllowPreemption"
	// RaisePriority: raise the priority of the pods, from and to a number, or allow evictions for them; the message says how.
	RaisePriority ChangeKind = "RaisePriority"
	// RaiseLimit: raise the limits of a queue to the resources.
	RaiseLimit ChangeKind = "RaiseLimit"
	// ProvideCapacity: provide capacity for count more members in a domain that they share; the message names it.
	ProvideCapacity ChangeKind = "ProvideCapacity"
	// WidenTopology: name a wider level in an entry of spec.topology; the message says which.
	WidenTopology ChangeKind = "WidenTopology"
)

// Change is one thing to do. Its kind says which of the other fields are set.
type Change struct {
	// kind is what the change is made to.
	// +required
	Kind ChangeKind `json:"kind"`

	// message says the change in one line.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// count is how many pods, members or nodes it is about, or, with a role, what the minimum of the role should be.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Count int32 `json:"count,omitempty"`

	// role is the role whose minimum is to be lowered.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role,omitempty"`

	// from is the number as it is.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	From *int32 `json:"from,omitempty"`

	// to is the number as it should be.
	// +optional
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	To *int32 `json:"to,omitempty"`

	// queue is the name of the queue whose limits are to be raised.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue,omitempty"`

	// resources are what each new node should have for the members, or what the limits of the queue should be: the first 64 of them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// nodes are the first 16 of the nodes, sorted by name; count is how many there are.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Nodes []NodeChange `json:"nodes,omitempty"`
}

// NodeChange is a node that is to be changed.
type NodeChange struct {
	// name is the node's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// resources are what is to be freed on the node: the first 64 of them. It is not set when nothing is.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// Reservation is capacity of nodes that is given to no other group or pod of the same or a lower priority. It may be idle
// already, or still in use.
type Reservation struct {
	// nodes are the nodes with reserved capacity, by name. Nothing is reserved on more nodes, nor more than 64 resources on one,
	// nor what takes more than half a megabyte to write down.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=4096
	Nodes []ReservedNode `json:"nodes"`

	// since is when the capacity was chosen.
	// +required
	Since metav1.Time `json:"since"`

	// expectedStart is when the last pod that uses the capacity is expected to end. It is not set while that is not known
	// of all of these pods.
	// +optional
	ExpectedStart *metav1.Time `json:"expectedStart,omitempty"`

	// until is when the reservation is given up if the group has not started by then.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// gaveWay is when the reservation first gave way to a job of another queue, which used some of the capacity. It stays when other
	// capacity is chosen, and is not set before.
	// +optional
	GaveWay *metav1.Time `json:"gaveWay,omitempty"`
}

// ReservedNode is the capacity that is reserved on one node.
type ReservedNode struct {
	// name is the node's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// members is for how many members of the group it is reserved.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	Members int32 `json:"members"`

	// resources is what they request together.
	// +required
	// +kubebuilder:validation:MaxProperties=64
	Resources corev1.ResourceList `json:"resources"`
}
