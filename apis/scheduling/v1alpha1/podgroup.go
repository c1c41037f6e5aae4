package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroup is a gang: the pods of one AI or MPI job, which start together or not at all. A pod joins by the label
// scheduling.tutti.dev/pod-group in the same namespace.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=pg
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.minMember`,description="Members that must start together"
// +kubebuilder:printcolumn:name="Placed",type=integer,JSONPath=`.status.placed`,description="Members bound to a node, those that succeeded included"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Scheduled")].reason`,description="Why the group waits, or that it is scheduled"
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queue`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a PodGroup has at most 63 characters, because its pods carry it as a label value"
type PodGroup struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what the group needs.
	// +required
	Spec PodGroupSpec `json:"spec"`

	// Status says where the group stands. The scheduler writes it.
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupSpec says what a group needs before any of its pods starts.
//
// The minima (minMember and the roles) may be changed at any time, as an elastic job does: a waiting group is judged by
// the new numbers in the next cycle, and raising them above what runs makes a started group Degraded rather than
// stopping it. The queue may be changed, since it is only shown. The priority class may not, like a pod's.
//
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.map(r, r.minMember).sum() <= self.minMember",message="the roles need more members together than minMember; raise minMember or lower that of a role",fieldPath=".minMember",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.memberLossTimeoutSeconds) || has(self.onMemberLoss) && self.onMemberLoss == 'Restart'",message="memberLossTimeoutSeconds is for onMemberLoss: Restart; nothing ends the wait of others",fieldPath=".memberLossTimeoutSeconds",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule=`(has(self.priorityClassName) ? self.priorityClassName : "") == (has(oldSelf.priorityClassName) ? oldSelf.priorityClassName : "")`,message="priorityClassName cannot be changed, like that of a pod; delete the PodGroup and create it again",fieldPath=".priorityClassName",reason=FieldValueForbidden
type PodGroupSpec struct {
	// MinMember is how many members must be able to start before any of them does: 1 or more. Members above it are
	// surplus: they are placed when there is room, one by one.
	// +required
	// +kubebuilder:validation:Minimum=1
	MinMember int32 `json:"minMember"`

	// Roles are the parts of the group that have a minimum of their own, such as a launcher and its workers. The
	// minima of the roles may add up to less than minMember, never to more. A member says its role by the label
	// scheduling.tutti.dev/role.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Roles []Role `json:"roles,omitempty"`

	// Queue is the name of the queue the group is meant for. It is shown and nothing else so far: it orders, limits and
	// separates nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue,omitempty"`

	// PriorityClassName is the PriorityClass of the group as a whole, by which it is ordered among the waiting. It
	// never lifts the group above the highest priority of its pods. Without it, the group has the priority of its
	// pods. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// PreemptionPolicy says whether pods of lower priority may be evicted so that the group can start:
	// PreemptLowerPriority, which is also what leaving it out means, or Never. Never counts as well if any pod of the
	// group says it.
	// +optional
	// +kubebuilder:validation:Enum=PreemptLowerPriority;Never
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`

	// ExpectedRunSeconds is how long the group is expected to run, counted from the start of its first member. Nothing
	// ends it then. A group that says so may use room that is reserved for another one as long as it is expected to be
	// gone in time, and lets the scheduler say when a group that waits for its room will start.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ExpectedRunSeconds *int64 `json:"expectedRunSeconds,omitempty"`

	// OnMemberLoss says what becomes of a group that was started, has lost members since and is below its minimum. It is
	// completed before any other group starts, as soon as there are members and room for them. Wait, which is also what
	// leaving it out means, waits for that and leaves the members alone that are left. Restart waits for
	// memberLossTimeoutSeconds, and then deletes them: those who create the pods create them again, and the group starts
	// again as a whole.
	// +optional
	// +kubebuilder:validation:Enum=Wait;Restart
	OnMemberLoss MemberLossPolicy `json:"onMemberLoss,omitempty"`

	// MemberLossTimeoutSeconds is how long a group that lost members may be below its minimum before it is restarted; 300
	// when it is left out. It is for onMemberLoss: Restart.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemberLossTimeoutSeconds *int64 `json:"memberLossTimeoutSeconds,omitempty"`
}

// MemberLossPolicy is what becomes of a group that has lost members.
type MemberLossPolicy string

const (
	// MemberLossWait leaves the members alone that are left.
	MemberLossWait MemberLossPolicy = "Wait"

	// MemberLossRestart deletes them after a time, so that the group starts again as a whole.
	MemberLossRestart MemberLossPolicy = "Restart"
)

// Role is a named part of a group with its own minimum.
type Role struct {
	// Name is the role's name, unique in the group: a DNS label, since pods carry it as a label value.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a role consists of lower case letters, digits and '-', and starts and ends with a letter or digit"
	Name string `json:"name"`

	// MinMember is how many members of this role the gang needs to start: 1 or more.
	// +required
	// +kubebuilder:validation:Minimum=1
	MinMember int32 `json:"minMember"`
}

// PodGroupPhase is where a group stands, in one word. The condition says why, the counts say how many.
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
	// to Pending.
	PodGroupFailed PodGroupPhase = "Failed"
)

// PodGroupStatus says where a group stands. Every field is written by the scheduler, on change only.
type PodGroupStatus struct {
	// Phase is where the group stands, in one word.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// ObservedGeneration is the metadata.generation that the rest of the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Members is how many pods belong to the group, the finished ones included.
	// +optional
	Members int32 `json:"members"`

	// Placed is how many members are bound to a node, those that succeeded included, those that failed not.
	// +optional
	Placed int32 `json:"placed"`

	// Running is how many members run.
	// +optional
	Running int32 `json:"running"`

	// Succeeded is how many members have finished well.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// Failed is how many members have failed.
	// +optional
	Failed int32 `json:"failed"`

	// WaitingSince is since when the group has had the members it needs and has waited for room for them. It is not set
	// while members are missing, nor once the minimum is bound.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`

	// DegradedSince is since when a group that was started has been below its minimum because it has lost members. It is not
	// set otherwise.
	// +optional
	DegradedSince *metav1.Time `json:"degradedSince,omitempty"`

	// Reservation is the room that is kept for a group which has waited for long. It is not set when nothing is kept.
	// +optional
	Reservation *Reservation `json:"reservation,omitempty"`

	// SmallestChange is the least that would let a group start which waits, in one line, such as "free 3 nvidia.com/gpu on
	// node n7". It is not set when nothing small is known to help, and gone as soon as the group need not wait any more.
	// +optional
	SmallestChange string `json:"smallestChange,omitempty"`

	// Conditions are the findings behind the phase; the type Scheduled says whether the gang has been started, and if
	// not, why.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// Reservation is room on nodes that no other group or pod of the same or a lower priority is given, whether it is free
// already or in use by others for now.
type Reservation struct {
	// Nodes are the nodes on which room is kept, by name.
	// +required
	// +listType=map
	// +listMapKey=name
	Nodes []ReservedNode `json:"nodes"`

	// Since is when the room was chosen.
	// +required
	Since metav1.Time `json:"since"`

	// ExpectedStart is when the last of those who use the room is expected to end. It is not set while that is not known
	// of all of them.
	// +optional
	ExpectedStart *metav1.Time `json:"expectedStart,omitempty"`
}

// ReservedNode is the room that is kept on one node.
type ReservedNode struct {
	// Name is the node's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// Members is how many members of the group the room is for.
	// +required
	// +kubebuilder:validation:Minimum=1
	Members int32 `json:"members"`

	// Resources is what they request together.
	// +required
	Resources corev1.ResourceList `json:"resources"`
}

// PodGroupList is a list of PodGroups.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodGroup `json:"items"`
}
