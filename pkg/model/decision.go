package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Bind is the decision to run a pod on a node.
type Bind struct {
	Pod  PodRef
	Node string
	// NeedsPreBind reports whether something was reserved for the pod, such as a volume, that must be written to the API
	// server before any pod of the decision is bound.
	NeedsPreBind bool
	// Binder names the binder of the pod; empty is the API server.
	Binder string
	// Isolated is the assignment of isolated CPUs; nil when the pod gets none.
	Isolated *Isolation
	// Place are annotations that say where in the topology the pod is; nil where its job has none.
	Place map[string]string
}

// Isolation is written with a bind that assigns isolated CPUs.
type Isolation struct {
	Assignment *isolated.Assignment
	// Annotations are written to the pod in one transaction with its node.
	Annotations map[string]string
	// ResourceVersion is the version of the pod that was read; no other may be bound.
	ResourceVersion string
}

// String returns the CPUs, and the version of the pod.
func (i *Isolation) String() string {
	return fmt.Sprintf("%v of version %s with %v", *i.Assignment, i.ResourceVersion, i.Annotations)
}

// EvictionMethod is how a pod is ended: what its disruption budgets mean.
type EvictionMethod int8

// The methods.
const (
	// ByEviction: the API server evicts the pod, or refuses to where a budget forbids it.
	ByEviction EvictionMethod = iota
	// ByEvictionOrDeletion: the API server evicts the pod, and where a budget forbids that, the pod is deleted.
	ByEvictionOrDeletion
	// ByDeletion: the pod is deleted, whatever its budgets.
	ByDeletion
)

// Right is why a job may take what another queue holds.
type Right string

// The rights.
const (
	// ByGuarantee: the job's queue, or one above it, has less than it is guaranteed.
	ByGuarantee Right = "guarantee"
	// ByShare: the job's queue ends no higher above its share than the one that gives.
	ByShare Right = "share"
)

// Eviction is the decision to end a pod for a job.
type Eviction struct {
	Pod PodRef
	// Job is the job that the pod is a member of; zero when it has none.
	Job JobKey
	// Node is the pod's node.
	Node   string
	Method EvictionMethod
	// GraceSeconds is how long the pod may take to end, in seconds, never longer than it asks for; zero is as long as it asks
	// for.
	GraceSeconds int64
	// Right is by which the pod goes for a job of another queue, Queue the name of that queue; both are empty when it goes for a
	// job of its own queue.
	Right Right
	Queue string
	// Message is the reason of an eviction that is for no job: the pod could never run where it is. Then the decision has no
	// job and no nominations. Empty when the eviction is for the decision's job.
	Message string
}

// NominationManager is the field manager of the nominations of this scheduler: by that a later process tells them from what
// others have written. It is also the name of the program, which was the manager before it was stated.
const NominationManager = "tutti-scheduler"

// Nomination is the decision to hold capacity on a node for a pod until those evicted for it are gone. An empty node releases
// an earlier nomination.
type Nomination struct {
	Pod  PodRef
	Node string
}

// Releases reports whether it releases an earlier nomination.
func (p Nomination) Releases() bool { return p.Node == "" }

// Decision is the result of one statement for one job, committed as one unit: its effect is assumed in the cluster state
// before the first call is made. Without a job, it is an eviction for no job. Evictions come with Nominations: pods are
// evicted so that the job can start where it is nominated. Nominations alone move an earlier nomination to other capacity.
type Decision struct {
	Job JobKey
	// Cycle is the number of the cycle that decided it; zero is unknown.
	Cycle uint64
	// MinBinds is how many of Binds must succeed for the job to keep its minimum.
	MinBinds int
	// LastStart is what Queue.LastStart is from now on in the job's queue and in those above, since it has started in its turn;
	// zero when it has not, and while there are no queues.
	LastStart   time.Time
	Binds       []Bind
	Evictions   []Eviction
	Nominations []Nomination
	// Reservation replaces the job's reservation; one without nodes ends it, nil leaves it as it is.
	Reservation *Reservation
}

// Right returns by which right pods of other queues are evicted; empty when none are.
func (d *Decision) Right() Right {
	if len(d.Evictions) == 0 {
		return ""
	}
	return d.Evictions[0].Right
}

// ReleasesCapacity reports whether it releases nominations or ends a reservation: other jobs may start then, and no watch shows
// it.
func (d *Decision) ReleasesCapacity() bool {
	return d.Reservation != nil && len(d.Reservation.Nodes) == 0 || slices.ContainsFunc(d.Nominations, Nomination.Releases)
}
