package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Queue is a part of the cluster that jobs of some namespaces share: a team, or a group of teams. Queues form a tree, and jobs
// belong to its leaves. While there is no Queue object at all, all jobs belong to one queue without a limit, whatever name they
// say.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=tq,categories=tutti
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`
// +kubebuilder:printcolumn:name="Weight",type=integer,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.conditions[?(@.type=="Active")].reason`,description="Whether jobs of the queue start, or why they do not"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`,description="Jobs that hold capacity"
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`,description="Jobs that wait to start"
// +kubebuilder:printcolumn:name="Guarantee-Met",type=string,JSONPath=`.status.conditions[?(@.type=="GuaranteeMet")].status`
// +kubebuilder:printcolumn:name="Counted",type=date,JSONPath=`.status.countedAt`,description="How long ago the numbers were counted that are shown; they are written every 30 seconds at most"
// +kubebuilder:printcolumn:name="Last-Start",type=date,JSONPath=`.status.lastStart`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a Queue has at most 63 characters, because pods and namespaces carry it as a label value"
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'root'",message="root stands for the whole cluster, which is no Queue"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",message="a queue cannot be its own parent",fieldPath=".spec.parent",reason=FieldValueInvalid
type Queue struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the queue may use, and whose jobs may use it.
	// +optional
	Spec QueueSpec `json:"spec,omitempty"`

	// status is the observed state of the queue. The scheduler writes it.
	// +optional
	Status QueueStatus `json:"status,omitempty"`
}

// QueueSpec says what a queue may use, and whose jobs may use it. All of it may be changed at any time. No change of it evicts a
// pod by itself.
//
// +kubebuilder:validation:XValidation:rule="!has(self.guarantee) || !has(self.limit) || self.guarantee.all(r, !(r in self.limit) || quantity(string(self.guarantee[r])).compareTo(quantity(string(self.limit[r]))) <= 0)",message="the guarantee of a resource is more than its limit",fieldPath=".guarantee",reason=FieldValueInvalid
type QueueSpec struct {
	// parent is the name of the queue that this one is a part of. When it is left out, the queue is a part of the whole cluster. A
	// parent need not exist yet: until then no job of this queue starts. Trees have up to 8 levels.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self != 'root'",message="leave parent out for a queue that is a part of the whole cluster"
	Parent string `json:"parent,omitempty"`

	// weight is the part of what the guarantees leave that is meant for the queue, relative to the queues with the same parent: 0
	// to 1,000,000. A queue of weight 0 is meant to have only what the others do not use. It decides which queue has the next turn,
	// and how much another queue may take back, when the action reclaim is configured.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`

	// guarantee is how much of some resources is meant to be the queue's as soon as its jobs ask for it. Others may use what its
	// jobs do not. A resource that is not listed is not guaranteed. A queue that holds less of it than it asks for has its turn
	// before those that hold more than theirs, and the action reclaim, when it is configured, evicts pods of those for it.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(r, size(r) <= 317)",message="the name of a resource has at most 317 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(r, quantity(string(self[r])).compareTo(quantity('0')) >= 0)",message="an amount cannot be negative"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !r.contains('/') || quantity(string(self[r])).isInteger())",message="devices are counted in whole numbers"
	Guarantee corev1.ResourceList `json:"guarantee,omitempty"`

	// limit is how much of some resources the jobs of the queue, and of the queues below it, may hold at most. No start exceeds
	// it: pods that are terminating, and capacity that is nominated to a job, count. Zero allows none of a resource; one that is
	// not listed has no limit. Isolated CPUs are counted apart from cpu, by the resource that nodes show for them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(r, size(r) <= 317)",message="the name of a resource has at most 317 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(r, quantity(string(self[r])).compareTo(quantity('0')) >= 0)",message="an amount cannot be negative"
	// +kubebuilder:validation:XValidation:rule="self.all(r, !r.contains('/') || quantity(string(self[r])).isInteger())",message="devices are counted in whole numbers"
	Limit corev1.ResourceList `json:"limit,omitempty"`

	// namespaceSelector selects, by their labels, the namespaces whose jobs may use the queue. When it is left out, these are the
	// namespaces whose own label scheduling.tutti.dev/queue names the queue. The queue default is open to all namespaces, whatever
	// it says here.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// paused says that no job of the queue, nor of the queues below it, starts. What runs goes on, and starts that have begun are
	// completed.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// QueueStatus is the observed state of a queue. The scheduler writes every field, and only when it changes. Numbers may be some
// time behind.
type QueueStatus struct {
	// observedGeneration is the metadata.generation that the rest of the status is about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// schedulerName is the scheduler that writes the status: of several over one cluster the one that did so first. Each of them
	// holds its own jobs to the limit. For another one to write it, remove the name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SchedulerName string `json:"schedulerName,omitempty"`

	// used is what the jobs of the queue, and of the queues below it, hold: on nodes, terminating pods included, and nominated.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	Used corev1.ResourceList `json:"used,omitempty"`

	// share is what the queue can count on of the resources of which it and the queues beside it ask for more than there is for
	// them: its guarantee, as far as it asks for that, and by its weight a part of what is left. Of two queues the one that holds
	// less of its share has the next turn. Of a resource that is not listed there is enough.
	// +optional
	// +kubebuilder:validation:MaxProperties=512
	Share corev1.ResourceList `json:"share,omitempty"`

	// waiting is how many of its jobs wait to start.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Waiting int32 `json:"waiting"`

	// waitingFor is how many of them wait for which reason, that of their condition Scheduled: the first 64 reasons in order.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=64
	WaitingFor []WaitingReason `json:"waitingFor,omitempty"`

	// running is how many of its jobs hold capacity.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	Running int32 `json:"running"`

	// countedAt is when the numbers of the status were counted that are written. They are written every 30 seconds at most, and not
	// while they stay the same.
	// +optional
	CountedAt *metav1.Time `json:"countedAt,omitempty"`

	// lastStart is when a job of the queue, or of one below it, last started in its turn. Of queues that hold as much of their shares
	// the one that started a job longest ago has the next turn. It may be some microseconds ahead, to order the starts of one moment.
	// +optional
	LastStart *metav1.MicroTime `json:"lastStart,omitempty"`

	// conditions explain the state. Active says whether jobs of the queue start, and if not, why. GuaranteeMet says whether all jobs
	// within the guarantee run.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// WaitingReason is how many jobs wait for one reason.
type WaitingReason struct {
	// reason is why they wait, in one word.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason"`

	// jobs is how many do.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	Jobs int32 `json:"jobs"`
}

// QueueList is a list of Queues.
//
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Queue `json:"items"`
}
