package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Reservation is room on nodes that is kept for a gang which has waited for long.
type Reservation struct {
	// Nodes are by name of the node.
	Nodes []ReservedNode
	// Since is when they were chosen, in whole seconds.
	Since time.Time
	// ExpectedStart is when the last of those who use the room is expected to end, in whole seconds; zero when that is not
	// known of all of them.
	ExpectedStart time.Time
	// Object is the same in the status of the PodGroup, never changed; nil in a decision.
	Object *v1alpha1.Reservation
}

// ReservedNode is what is reserved on one node.
type ReservedNode struct {
	Node string
	// Members is how many members the room is for, Request what they request together.
	Members int32
	Request Resources
}

// Until returns up to when the room is lent; see Hold.Until.
func (r *Reservation) Until() int64 {
	if r.ExpectedStart.IsZero() {
		return 0
	}
	return r.ExpectedStart.Unix()
}

// Holds returns what is kept for the job by the reservation.
func (r *Reservation) Holds(job *Job) []HeldCapacity {
	var holds []HeldCapacity
	for _, room := range r.Nodes {
		holds = append(holds, HeldCapacity{
			Job: job.Key, Priority: job.Priority, Node: room.Node, Request: room.Request, LentUntil: r.Until(),
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

// Describe returns since when the room is reserved and what is expected: "since 2026-01-05T08:10:00Z, expected start
// 2026-01-05T08:30:00Z".
func (r *Reservation) Describe() string {
	expected := "expected start unknown"
	if !r.ExpectedStart.IsZero() {
		expected = "expected start " + r.ExpectedStart.UTC().Format(time.RFC3339)
	}
	return "since " + r.Since.UTC().Format(time.RFC3339) + ", " + expected
}

// Equal tells whether both keep the same room, for as long; either may be nil.
func (r *Reservation) Equal(other *Reservation) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.Since.Equal(other.Since) && r.ExpectedStart.Equal(other.ExpectedStart) && SameNodes(r.Nodes, other.Nodes)
}

// SameNodes tells whether two lists keep the same room for as many members.
func SameNodes(a, b []ReservedNode) bool {
	return slices.EqualFunc(a, b, func(a, b ReservedNode) bool {
		return a.Node == b.Node && a.Members == b.Members && a.Request.Equal(b.Request)
	})
}
