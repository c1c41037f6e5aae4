package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reservation is capacity on nodes that is reserved for a gang that has waited too long.
type Reservation struct {
	// Nodes are sorted by name.
	Nodes []ReservedNode
	// Since is when they were chosen, in whole seconds.
	Since time.Time
	// ExpectedStart is when the last of the pods on the capacity is expected to end, in whole seconds; zero when that is not
	// known of all of them.
	ExpectedStart time.Time
	// Until is when the reservation is given up if the job has not started, in whole seconds; zero when that is not known. A
	// reservation without nodes that has it was given up then.
	Until time.Time
	// GaveWay is when it first gave way to a job of another queue, in whole seconds; zero when it has not. It stays when other nodes
	// are chosen.
	GaveWay time.Time
}

// GivesWay reports whether it may give way to jobs of other queues: until it has done so and was planned again after that.
func (r *Reservation) GivesWay() bool { return r.GaveWay.IsZero() || !r.GaveWay.Before(r.Since) }

// ReservedNode is what is reserved on one node.
type ReservedNode struct {
	Node string
	// Members is how many members the capacity is for, Request their total request.
	Members int32
	Request Resources
}

// GivenUp returns what is left of a reservation that is given up at that moment.
func GivenUp(at time.Time) *Reservation { return &Reservation{Since: at, Until: at} }

// Split returns the reservation if it is of any capacity, and when it was given up if it was. The reservation may be nil.
func (r *Reservation) Split() (held *Reservation, gaveUp time.Time) {
	switch {
	case r == nil:
		return nil, gaveUp
	case len(r.Nodes) == 0:
		return nil, r.Until
	}
	return r, gaveUp
}

// Total returns what is reserved on all nodes together. A sum that is too large for its type is as large as can be.
func (r *Reservation) Total() (total Resources) {
	for i := range r.Nodes {
		total.AddCapped(r.Nodes[i].Request)
	}
	return total
}

// LentUntil returns until when the capacity may be used by other jobs; see HeldCapacity.LentUntil.
func (r *Reservation) LentUntil() int64 {
	if r.ExpectedStart.IsZero() {
		return 0
	}
	return r.ExpectedStart.Unix()
}

// Holds returns the held capacity of the reservation.
func (r *Reservation) Holds(job *Job) []HeldCapacity {
	var holds []HeldCapacity
	for _, room := range r.Nodes {
		holds = append(holds, HeldCapacity{
			Job: job.Key, Queue: job.queue, Priority: job.Priority, Continues: job.Continues, Node: room.Node, Request: room.Request, LentUntil: r.LentUntil(),
		})
	}
	return holds
}

// NodeNames names the nodes, up to a few: "n1, n2 and 7 more".
func (r *Reservation) NodeNames() string {
	const few = 4
	var names []string
	for i := range r.Nodes {
		names = append(names, r.Nodes[i].Node)
	}
	if len(names) > few+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// Describe returns the start of the reservation and the expected start of the job: "since 2026-01-05T08:10:00Z, expected
// start 2026-01-05T08:30:00Z".
func (r *Reservation) Describe() string {
	expected := "expected start unknown"
	if !r.ExpectedStart.IsZero() {
		expected = "expected start " + r.ExpectedStart.UTC().Format(time.RFC3339)
	}
	return "since " + r.Since.UTC().Format(time.RFC3339) + ", " + expected
}

// Equal reports whether both reserve the same capacity for the same time; either may be nil.
func (r *Reservation) Equal(other *Reservation) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.Since.Equal(other.Since) && r.ExpectedStart.Equal(other.ExpectedStart) && r.Until.Equal(other.Until) &&
		r.GaveWay.Equal(other.GaveWay) && SameNodes(r.Nodes, other.Nodes)
}

// SameNodes reports whether two lists reserve the same capacity for as many members.
func SameNodes(a, b []ReservedNode) bool {
	return slices.EqualFunc(a, b, func(a, b ReservedNode) bool {
		return a.Node == b.Node && a.Members == b.Members && a.Request.Equal(b.Request)
	})
}
