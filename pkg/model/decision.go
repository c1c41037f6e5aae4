package model

import (
	"fmt"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Bind is the decision to run a pod on a node.
type Bind struct {
	Pod  PodRef
	Node string
	// NeedsPreBind tells that something was set aside for the pod that the API server must be told of before any pod of the
	// decision is bound, such as a volume.
	NeedsPreBind bool
	// Binder names who binds the pod; empty is the API server.
	Binder string
	// Isolated is what it means to give the pod isolated CPUs; nil when it is given none.
	Isolated *Isolation
}

// Isolation is what goes out with a bind that gives a pod isolated CPUs.
type Isolation struct {
	Assignment *isolated.Assignment
	// Annotations are written to the pod in one transaction with its node.
	Annotations map[string]string
	// ResourceVersion is the version of the pod that was read, and the only one that may be bound.
	ResourceVersion string
}

// String says which CPUs, and which version of the pod.
func (i *Isolation) String() string {
	return fmt.Sprintf("%v of version %s with %v", *i.Assignment, i.ResourceVersion, i.Annotations)
}

// Eviction is the decision to end a pod for the sake of a job.
type Eviction struct {
	Pod PodRef
	// Job is the job it is a member of; zero when it has none.
	Job JobKey
	// Node is where it runs.
	Node string
	// DeletePod tells that the pod is deleted whatever its budgets say, rather than evicted as far as they allow.
	DeletePod bool
	// Message is the reason of an eviction for nobody's sake, in plain words: the pod could never run where it is. Then the decision is
	// of no job, and makes no promise. Empty when it is for the decision's job.
	Message string
}

// Nomination is the decision to keep room on a node for a pod until those evicted for it are gone. An empty node takes an
// earlier promise back.
type Nomination struct {
	Pod  PodRef
	Node string
}

// Releases reports whether the promise ends an earlier one.
func (p Nomination) Releases() bool { return p.Node == "" }

// Decision is what one statement decided for one job, committed as one unit: its effect is assumed in the live state before
// the first call leaves; or, of no job, that a pod ends for nobody's sake. Evictions come with Promises: others end so that the job can start where it was promised to. Promises
// alone move to other room what others have ended for before.
type Decision struct {
	Job JobKey
	// MinBinds is how many of Binds must succeed for the job to keep its minimum.
	MinBinds    int
	Binds       []Bind
	Evictions   []Eviction
	Nominations []Nomination
	// Reservation takes the place of what is reserved for the job; one without rooms ends it, nil leaves it as it is.
	Reservation *Reservation
}
