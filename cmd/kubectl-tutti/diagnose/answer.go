package diagnose

import (
	"time"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// State is the state of a job, in one word.
type State string

// The states.
const (
	// Waiting: it has not started.
	Waiting State = "Waiting"
	// Degraded: it has started and lost members.
	Degraded State = "Degraded"
	// Started: its minimum is bound, or the pod is.
	Started State = "Started"
	// Ended: all members have ended.
	Ended State = "Ended"
	// Unprocessed: the scheduler has not reported anything yet.
	Unprocessed State = "Unheard"
	// OtherScheduler: the pods are for another scheduler.
	OtherScheduler State = "Foreign"
)

// The kinds in a Diagnosis and an Overview.
const (
	kindPodGroup = "PodGroup"
	kindImplicit = "ImplicitGroup"
	kindPod      = "Pod"
)

// Diagnosis is the diagnosis of a PodGroup or a pod.
type Diagnosis struct {
	// Kind is PodGroup, ImplicitGroup, Pod, or that of a group of another project: PodGroup.scheduling.x-k8s.io.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Owner is the controller of the pods of an implicit or a foreign group, such as Job/train; empty when they have none, and for
	// other kinds.
	Owner string `json:"owner,omitempty"`
	State State  `json:"state"`
	// Reason is the scheduler's stable code; empty when it has reported nothing.
	Reason string `json:"reason,omitempty"`
	// Details are the scheduler's message, finding by finding.
	Details []string `json:"details,omitempty"`
	// Notes are findings of this program.
	Notes []string `json:"notes,omitempty"`
	// Members are counted from the pods; nil for a pod without a group.
	Members *Members `json:"members,omitempty"`
	// WaitingSince and DegradedSince are nil when they do not apply.
	WaitingSince  *time.Time `json:"waitingSince,omitempty"`
	DegradedSince *time.Time `json:"degradedSince,omitempty"`
	// Queue is the Queue that a PodGroup is in; empty where the scheduler has written none, and for other kinds.
	Queue string `json:"queue,omitempty"`
	// Evicted says by whom and for whom its members were evicted, as the scheduler has written it, and EvictedAt when; empty and nil
	// unless its minimum has not been bound again since.
	Evicted   string     `json:"evicted,omitempty"`
	EvictedAt *time.Time `json:"evictedAt,omitempty"`
	// Turn is where it is in the order of the jobs that wait, as the scheduler says when it is asked; empty when that is not known.
	Turn string `json:"turn,omitempty"`
	// Topology is in which domains its members are; nil where the scheduler has said nothing of it.
	Topology []v1alpha1.TopologyStatus `json:"topology,omitempty"`
	// Reservation is the capacity reserved for it; nil when there is none.
	Reservation *v1alpha1.Reservation `json:"reservation,omitempty"`
	// Group is the diagnosis of a pod's group, nil when it has none.
	Group *Diagnosis `json:"group,omitempty"`
}

// Members are the members of a group.
type Members struct {
	// Needs is the minimum; zero when it is unknown, since there is no PodGroup.
	Needs int `json:"needs"`
	// late is how many of these are made only when others run, and none of them has a node.
	late int
	// Exist is the number of members that count towards it: bound, succeeded, or waiting for a node.
	Exist     int `json:"exist"`
	Bound     int `json:"bound"`
	Running   int `json:"running"`
	Succeeded int `json:"succeeded"`
	// Roles are in the order of the PodGroup.
	Roles []Role `json:"roles,omitempty"`
	// The others are names of pods, sorted: those that wait, that have scheduling gates, that have failed, that are
	// terminating, and those with the group's label for another scheduler.
	Waiting  []string `json:"waiting,omitempty"`
	Gated    []string `json:"gated,omitempty"`
	Failed   []string `json:"failed,omitempty"`
	Deleting []string `json:"deleting,omitempty"`
	Foreign  []string `json:"foreign,omitempty"`
}

// Role is a part of a group with a minimum of its own.
type Role struct {
	Name  string `json:"name"`
	Needs int    `json:"needs"`
	Exist int    `json:"exist"`
	Bound int    `json:"bound"`
}
