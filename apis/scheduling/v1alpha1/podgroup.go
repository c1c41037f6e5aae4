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
// +kubebuilder:resource:scope=Namespaced,shortName=tpg,categories=tutti
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.spec.priorityClassName`
// +kubebuilder:selectablefield:JSONPath=`.spec.schedulerName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.minMember`,description="Members that must start together"
// +kubebuilder:printcolumn:name="Bound",type=integer,JSONPath=`.status.placed`,description="Members bound to a node, those that succeeded included"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Scheduled")].reason`,description="Why the group waits, or that it is scheduled"
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.status.queue`,description="The Queue that the group is in"
// +kubebuilder:printcolumn:name="Waiting-Since",type=date,JSONPath=`.status.waitingSince`,description="For how long it has waited for capacity with all members that it needs",priority=1
// +kubebuilder:printcolumn:name="Expected-Start",type=string,JSONPath=`.status.reservation.expectedStart`,description="When the capacity that is reserved for it is expected to be free",priority=1
// +kubebuilder:printcolumn:name="Scheduler",type=string,JSONPath=`.spec.schedulerName`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a PodGroup has at most 63 characters, because its pods carry it as a label value"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !(has(oldSelf.status.queuedSince) || has(oldSelf.status.waitingSince) || has(oldSelf.status.placed) && oldSelf.status.placed > 0) || (has(self.spec.expectedRunSeconds) ? self.spec.expectedRunSeconds : 0) == (has(oldSelf.spec.expectedRunSeconds) ? oldSelf.spec.expectedRunSeconds : 0)",message="expectedRunSeconds cannot be changed once the group waits for capacity or has started, since other jobs are planned by it",fieldPath=".spec.expectedRunSeconds",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule=`!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == "Pending" || (has(self.spec.queue) ? self.spec.queue : "") == (has(oldSelf.spec.queue) ? oldSelf.spec.queue : "")`,message="queue can be changed while the group is Pending; it holds capacity of its queue now",fieldPath=".spec.queue",reason=FieldValueForbidden
type PodGroup struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the group needs.
	// +required
	Spec PodGroupSpec `json:"spec"`

	// status is the observed state of the group. The scheduler writes it.
	// +optional
	Status PodGroupStatus `json:"status,omitempty"`
}

// PodGroupSpec says what a group needs before any of its pods starts.
//
// The minima (minMember and the roles) may be changed at any time, as an elastic job does. The next cycle uses the new
// numbers for a waiting group. A started group with fewer members than a raised minimum becomes Degraded; it is not
// stopped. The queue may be changed while the group is Pending. The priority class cannot be changed, like that of a pod, and
// neither can the scheduler, once it is named.
//
// A limit that is lower than what a stored object has is no obstacle for that object: the API server checks a field only when
// it changes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || self.roles.map(r, r.minMember).sum() <= self.minMember",message="the roles need more members together than minMember; raise minMember or lower that of a role",fieldPath=".minMember",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.topology) || self.topology.all(t, !has(t.roles) || t.roles.all(r, has(self.roles) && self.roles.exists(role, role.name == r)))",message="a role of an entry of topology is none of the group's roles",fieldPath=".topology",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule=`(has(self.priorityClassName) ? self.priorityClassName : "") == (has(oldSelf.priorityClassName) ? oldSelf.priorityClassName : "")`,message="priorityClassName cannot be changed, like that of a pod; delete the PodGroup and create it again",fieldPath=".priorityClassName",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule=`!has(oldSelf.schedulerName) || oldSelf.schedulerName == "" || has(self.schedulerName) && self.schedulerName == oldSelf.schedulerName`,message="schedulerName cannot be changed once it is set, like that of a pod; delete the PodGroup and create it again",fieldPath=".schedulerName",reason=FieldValueForbidden
type PodGroupSpec struct {
	// minMember is how many members must be able to start before any of them does: 1 or more. Members above it are
	// surplus: they are placed one by one when there is capacity.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinMember int32 `json:"minMember"`

	// roles are the parts of the group that have a minimum of their own, such as a launcher and its workers. The
	// minima of the roles may add up to less than minMember, never to more. The role of a member is its label
	// scheduling.tutti.dev/role.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Roles []Role `json:"roles,omitempty"`

	// topology says which members share a domain of nodes, such as a rack. All entries hold together. Members that are bound stay
	// where they are when it changes; it holds for the members that are placed afterwards.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(t, self.exists_one(other, other == t))",message="two entries of topology are alike"
	Topology []TopologyConstraint `json:"topology,omitempty"`

	// schedulerName is the scheduler of the group, which alone writes its status. A pod with another spec.schedulerName that names
	// the group is no member: if its scheduler is a Tutti, it waits with the reason InvalidGroup. When schedulerName is empty, the
	// group has the scheduler of its oldest member, for as long as it has members of that scheduler, and no scheduler writes its
	// status before a member exists. It can be set while it is empty, and not be changed afterwards.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="the name of a scheduler consists of lower case letters, digits, '-' and '.', and each part between dots starts and ends with a letter or digit"
	SchedulerName string `json:"schedulerName,omitempty"`

	// queue is the name of the Queue of the group. When it is left out, the label scheduling.tutti.dev/queue of the oldest member
	// counts, else that of the namespace, else the queue is default. While there is no Queue object at all, the name has no
	// effect. It can be changed while the phase is Pending.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="the name of a queue consists of lower case letters, digits, '-' and '.', and each part between dots starts and ends with a letter or digit"
	Queue string `json:"queue,omitempty"`

	// priorityClassName is the PriorityClass of the group as a whole, by which waiting groups are ordered. It lowers the group's
	// priority, and never raises it: that is the highest at which the pods of this priority or above, without scheduling gates,
	// are enough for minMember and each role. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// preemptionPolicy says whether pods of lower priority may be evicted so that the group can start:
	// PreemptLowerPriority, the default, or Never. Never also applies if any pod of the group has it.
	// +optional
	// +kubebuilder:default=PreemptLowerPriority
	// +kubebuilder:validation:Enum=PreemptLowerPriority;Never
	PreemptionPolicy *corev1.PreemptionPolicy `json:"preemptionPolicy,omitempty"`

	// expectedRunSeconds is how long the group is expected to run, counted from the start of its first member: up to a year. The
	// group is not stopped after that time. With it, the group may use capacity that is reserved for another group, if it is
	// expected to end in time; and a group that waits for this one gets an expected start. It cannot be changed once the group
	// waits for capacity or has started.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ExpectedRunSeconds *int64 `json:"expectedRunSeconds,omitempty"`

	// memberLoss says what happens to a group that was started, has lost members since and is below its minimum. Replacements
	// are placed before any other group starts, as soon as there are pods and capacity for them. When it is left out, the group
	// waits for that.
	// +optional
	MemberLoss *MemberLoss `json:"memberLoss,omitempty"`

	// ttlSecondsAfterFinished is for how long the group is kept after it has ended, counted from status.finishedAt: up to a year.
	// Then the scheduler deletes it, and Kubernetes what it owns. Zero deletes it immediately. New members before that lead back
	// to Pending, and the group is kept; so name a time longer than a controller takes to make members again that have failed.
	// When it is left out, the group is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// MemberLoss says what happens to a group that has lost members.
//
// +kubebuilder:validation:XValidation:rule="!has(self.timeoutSeconds) || self.timeoutSeconds == 300 || has(self.policy) && self.policy == 'Restart'",message="timeoutSeconds is for policy: Restart; nothing ends the wait of others",fieldPath=".timeoutSeconds",reason=FieldValueInvalid
type MemberLoss struct {
	// policy is Wait or Restart. Wait does not touch the remaining members. Restart waits for timeoutSeconds and then deletes the
	// remaining members: their controller creates the pods again, and the group starts again as a whole.
	// +optional
	// +kubebuilder:default=Wait
	// +kubebuilder:validation:Enum=Wait;Restart
	Policy MemberLossPolicy `json:"policy,omitempty"`

	// timeoutSeconds is how long a group that lost members may be below its minimum before it is restarted: up to a year. It
	// requires policy: Restart.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	TimeoutSeconds *int64 `json:"timeoutSeconds,omitempty"`
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
	// name is the role's name, unique in the group: a DNS label, since it is a label value of pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a role consists of lower case letters, digits and '-', and starts and ends with a letter or digit"
	Name string `json:"name"`

	// minMember is how many members of this role the gang needs to start: 1 or more.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinMember int32 `json:"minMember"`
}

// TopologyConstraint says that members of a group share a domain of one level.
//
// +kubebuilder:validation:XValidation:rule="!has(self.sliceSize) || !has(self.mode) || self.mode == 'Required'",message="sliceSize needs mode: Required",fieldPath=".sliceSize"
// +kubebuilder:validation:XValidation:rule="!has(self.waitSeconds) || has(self.mode) && self.mode == 'Preferred'",message="waitSeconds needs mode: Preferred",fieldPath=".waitSeconds"
type TopologyConstraint struct {
	// level is the name of a level in the scheduler's configuration, such as rack; or host, a single node; or the key of a node
	// label with a prefix, such as topology.kubernetes.io/zone. A group that names a level which the scheduler does not know waits
	// with the reason InvalidGroup.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Level string `json:"level"`

	// mode is Required, the default: the members are in one domain, also those that are placed later. Or it is Preferred: the group
	// starts in one domain if one has capacity for its minimum, else in as few as possible.
	// +optional
	// +kubebuilder:default=Required
	// +kubebuilder:validation:Enum=Required;Preferred
	Mode TopologyMode `json:"mode,omitempty"`

	// roles are the roles of the members that share the domain. When it is left out, all members do.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Roles []string `json:"roles,omitempty"`

	// sliceSize is how many members share a domain: those with the indexes 0 to sliceSize-1 share one, the next sliceSize members
	// share one, and so on; the last slice may be smaller. When it is left out, all of the members share one domain. The index of a
	// member is its label scheduling.tutti.dev/index, else the one that its controller has given it, else its place in the order of
	// names. Of two entries with sliceSize for the same members, one size must be a multiple of the other.
	// +optional
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100000
	SliceSize int32 `json:"sliceSize,omitempty"`

	// waitSeconds is for how long the group waits, since it has all the members it needs, for one domain that has capacity for it,
	// before it starts in several: at most a week. When it is left out, the group does not wait for that.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	WaitSeconds int32 `json:"waitSeconds,omitempty"`
}

// TopologyMode is whether members must share a domain.
type TopologyMode string

const (
	// TopologyRequired keeps members in one domain.
	TopologyRequired TopologyMode = "Required"

	// TopologyPreferred starts members in one domain if one has capacity for them.
	TopologyPreferred TopologyMode = "Preferred"
)

// PodGroupList is a list of PodGroups.
//
// +kubebuilder:object:root=true
type PodGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodGroup `json:"items"`
}
