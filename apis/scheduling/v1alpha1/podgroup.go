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

	// Status is the observed state of the group. The scheduler writes it.
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupSpec says what a group needs before any of its pods starts.
//
// The minima (minMember and the roles) may be changed at any time, as an elastic job does. The next cycle uses the new
// numbers for a waiting group. A started group with fewer members than a raised minimum becomes Degraded; it is not
// stopped. The queue may be changed, since it is only shown. The priority class cannot be changed, like that of a pod.
//
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.map(r, r.minMember).sum() <= self.minMember",message="the roles need more members together than minMember; raise minMember or lower that of a role",fieldPath=".minMember",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.memberLossTimeoutSeconds) || has(self.onMemberLoss) && self.onMemberLoss == 'Restart'",message="memberLossTimeoutSeconds is for onMemberLoss: Restart; nothing ends the wait of others",fieldPath=".memberLossTimeoutSeconds",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule=`(has(self.priorityClassName) ? self.priorityClassName : "") == (has(oldSelf.priorityClassName) ? oldSelf.priorityClassName : "")`,message="priorityClassName cannot be changed, like that of a pod; delete the PodGroup and create it again",fieldPath=".priorityClassName",reason=FieldValueForbidden
type PodGroupSpec struct {
	// MinMember is how many members must be able to start before any of them does: 1 or more. Members above it are
	// surplus: they are placed one by one when there is capacity.
	// +required
	// +kubebuilder:validation:Minimum=1
	MinMember int32 `json:"minMember"`

	// Roles are the parts of the group that have a minimum of their own, such as a launcher and its workers. The
	// minima of the roles may add up to less than minMember, never to more. The role of a member is its label
	// scheduling.tutti.dev/role.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Roles []Role `json:"roles,omitempty"`

	// Queue is the name of the queue the group is meant for. It is only shown so far: it has no effect on
	// order, limits or shares.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Queue string `json:"queue,omitempty"`

	// PriorityClassName is the PriorityClass of the group as a whole, by which waiting groups are ordered. It
	// never raises the group above the highest priority of its pods. Without it, the group has the priority of its
	// pods. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// PreemptionPolicy says whether pods of lower priority may be evicted so that the group can start:
	// PreemptLowerPriority, which is also what leaving it out means, or Never. Never also applies if any pod of the
	// group has it.
	// +optional
	// +kubebuilder:validation:Enum=PreemptLowerPriority;Never
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`

	// ExpectedRunSeconds is how long the group is expected to run, counted from the start of its first member. The group
	// is not stopped after that time. With it, the group may use capacity that is reserved for another group, if it is
	// expected to end in time; and a group that waits for this one gets an expected start.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ExpectedRunSeconds *int64 `json:"expectedRunSeconds,omitempty"`

	// OnMemberLoss says what happens to a group that was started, has lost members since and is below its minimum.
	// Replacements are placed before any other group starts, as soon as there are pods and capacity for them. Wait, the
	// default, waits for that and does not touch the remaining members. Restart waits for memberLossTimeoutSeconds and
	// then deletes the remaining members: their controller creates the pods again, and the group starts again as a whole.
	// +optional
	// +kubebuilder:validation:Enum=Wait;Restart
	OnMemberLoss MemberLossPolicy `json:"onMemberLoss,omitempty"`

	// MemberLossTimeoutSeconds is how long a group that lost members may be below its minimum before it is restarted; 300
	// by default. It requires onMemberLoss: Restart.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemberLossTimeoutSeconds *int64 `json:"memberLossTimeoutSeconds,omitempty"`
}

// MemberLossPolicy is what happens to a group that has lost members.
type MemberLossPolicy string

const (
	// MemberLossWait does not touch the remaining members.
	MemberLossWait MemberLossPolicy = "Wait"

	// MemberLossRestart deletes the remaining members after a time, so that the group starts again as a whole.
	MemberLossRestart MemberLossPolicy = "Restart"
)

// Role is a named part of a group with its own minimum.
type Role struct {
	// Name is the role's name, unique in the group: a DNS label, since it is a label value of pods.
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

// PodGroupPhase summarizes the state of a group in one word. The condition says why, the counts say how many.
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

// PodGroupStatus is the observed state of a group. The scheduler writes every field, and only when it changes.
type PodGroupStatus struct {
	// Phase summarizes the state of the group in one word.
	// +optional
	Phase PodGroupPhase `json:"phase,omitempty"`

	// ObservedGeneration is the metadata.generation that the rest of the status is about.
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

	// Succeeded is how many members have succeeded.
	// +optional
	Succeeded int32 `json:"succeeded"`

	// Failed is how many members have failed.
	// +optional
	Failed int32 `json:"failed"`

	// WaitingSince is since when the group has had the members it needs and has waited for capacity. It is not set while
	// members are missing, nor once the minimum is bound.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`

	// DegradedSince is since when a group that was started has been below its minimum because it has lost members. It is not
	// set otherwise.
	// +optional
	DegradedSince *metav1.Time `json:"degradedSince,omitempty"`

	// Reservation is the capacity that is reserved for a group that has waited for a long time. It is not set when nothing
	// is reserved.
	// +optional
	Reservation *Reservation `json:"reservation,omitempty"`

	// SmallestChange is the smallest known change that would let a waiting group start, in one line, such as "free 3
	// nvidia.com/gpu on node n7". It is not set when no small change is known, nor when the group does not wait.
	// +optional
	SmallestChange string `json:"smallestChange,omitempty"`

	// Conditions explain the phase; the type Scheduled says whether the gang has been started, and if not, why.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// Reservation is capacity of nodes that is given to no other group or pod of the same or a lower priority. It may be idle
// already, or still in use.
type Reservation struct {
	// Nodes are the nodes with reserved capacity, by name.
	// +required
	// +listType=map
	// +listMapKey=name
	Nodes []ReservedNode `json:"nodes"`

	// Since is when the capacity was chosen.
	// +required
	Since metav1.Time `json:"since"`

	// ExpectedStart is when the last pod that uses the capacity is expected to end. It is not set while that is not known
	// of all of these pods.
	// +optional
	ExpectedStart *metav1.Time `json:"expectedStart,omitempty"`
}

// ReservedNode is the capacity that is reserved on one node.
type ReservedNode struct {
	// Name is the node's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// Members is for how many members of the group it is reserved.
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
