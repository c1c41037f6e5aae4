// Package diagnose says why a job waits: from its PodGroup and its pods alone, as the API server has them, so that whoever may read
// these gets the answer. It repeats what the scheduler has written down and adds what can be counted; it never guesses what the
// scheduler would do.
package diagnose

import (
	"time"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// State is where something stands, in one word.
type State string

// The states.
const (
	// Waiting: it has not started.
	Waiting State = "Waiting"
	// Degraded: it has started and lost members.
	Degraded State = "Degraded"
	// Started: its minimum is bound, or the pod is.
	Started State = "Started"
	// Ended: no member lives any more.
	Ended State = "Ended"
	// Unheard: the scheduler has not said anything yet.
	Unprocessed State = "Unheard"
	// Foreign: another scheduler's affair.
	OtherScheduler State = "Foreign"
)

// What is answered for, and shown.
const (
	kindPodGroup = "PodGroup"
	kindImplicit = "ImplicitGroup"
	kindPod      = "Pod"
)

// Diagnosis is what there is to say about a PodGroup or a pod.
type Diagnosis struct {
	// Kind is PodGroup, ImplicitGroup or Pod.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Owner is the controller of an implicit group's pods, such as Job/train; empty when they have none, and for all else.
	Owner string `json:"owner,omitempty"`
	State State  `json:"state"`
	// Reason is the scheduler's stable code; empty when it has said nothing.
	Reason string `json:"reason,omitempty"`
	// Details are what the scheduler says, finding by finding.
	Details []string `json:"details,omitempty"`
	// SmallestChange is the least that would let it start, empty when nothing small is known.
	SmallestChange string `json:"smallestChange,omitempty"`
	// Notes are what this program has found besides.
	Notes []string `json:"notes,omitempty"`
	// Members are counted from the pods; nil for a pod without a group.
	Members *Members `json:"members,omitempty"`
	// WaitingSince and DegradedSince are nil when they do not apply.
	WaitingSince  *time.Time `json:"waitingSince,omitempty"`
	DegradedSince *time.Time `json:"degradedSince,omitempty"`
	// Reservation is the room that is kept for it; nil when there is none.
	Reservation *v1alpha1.Reservation `json:"reservation,omitempty"`
	// Group is the answer for the PodGroup of a pod, nil when it has none.
	Group *Diagnosis `json:"group,omitempty"`
}

// Members are the members of a group.
type Members struct {
	// Needs is the minimum; zero when it is not known, since there is no PodGroup.
	Needs int `json:"needs"`
	// Exist is how many there are that count towards it: bound, done well, or waiting for a node.
	Exist     int `json:"exist"`
	Bound     int `json:"bound"`
	Running   int `json:"running"`
	Succeeded int `json:"succeeded"`
	// Roles are in the order of the PodGroup.
	Roles []Role `json:"roles,omitempty"`
	// The others are names of pods, sorted: those that wait, that carry scheduling gates, that have failed, that are being
	// deleted, and those with the group's label that another scheduler is asked to place.
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
