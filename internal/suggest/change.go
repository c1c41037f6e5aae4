package suggest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Kind is what a change is made to.
type Kind int8

// The kinds.
const (
	// Create makes members that are missing.
	Create Kind = iota
	// Ungate takes the scheduling gates off members.
	Ungate
	// Drop takes back a wish that the members' pods have about nodes, or lets them tolerate what keeps them off.
	Drop
	// Free ends what others use on nodes.
	Free
	// Uncordon opens nodes that are cordoned.
	Uncordon
	// Add brings new nodes.
	Add
	// LowerMinimum lowers minMember.
	LowerMinimum
	// LowerRole lowers the minimum of a role, and minMember as far as that takes.
	LowerRole
	// AllowPreemption takes preemptionPolicy: Never back.
	AllowPreemption
	// RaisePriority raises the priority of the members, and of the class of their group if it has one.
	RaisePriority
	// RaiseLimit raises limits of a queue.
	RaiseLimit
	// Provide brings capacity for members into a domain that they share.
	Provide
	// Widen names a wider level that members share.
	Widen
)

// Change is one thing to do.
type Change struct {
	Kind Kind
	// Members are to be created, for Create, or ungated, for Ungate; for Provide, so many lack capacity. PerRole says how many of
	// those to be created must be of a role, and, for LowerRole, what the minimum of one is to be.
	Members int
	PerRole []model.Role
	// Template are the members that the ones to be created are taken to be like, one for each; for Add, the one member that the
	// nodes are made for.
	Template []model.PodRef
	// Verified tells, for Create, that with such members as there are the job would start. Everything else is always proven.
	Verified bool
	// Constraint is what to drop.
	Constraint *PodConstraint
	// Rooms are what to free, by name of the node; for Provide, where capacity was supposed.
	Rooms []NodeAmount
	// Uncordoned are the names of the nodes to uncordon, sorted.
	Uncordoned []string
	// Nodes are to be added, each with so much capacity for the job's members, as Request says; for RaiseLimit it has the limits of
	// the queue that are to be raised, as they should be.
	Nodes   int
	Request corev1.ResourceList
	// Queue is the name of the queue, for RaiseLimit.
	Queue string
	// Entry is the place in the job's topology of what is to be widened, Level the level that it should name, for Widen.
	Entry int
	Level string
	// From and To are the numbers of LowerMinimum and RaisePriority, and of minMember for LowerRole, which may stay as it is.
	From, To int32

	words string
}

// NodeAmount is so much of what a node has.
type NodeAmount struct {
	Node   string
	Amount model.Resources
}

// String says the change in the user's words, in the imperative.
func (c *Change) String() string { return c.words }

// Suggestion is what to do, all of it, for the job to start.
type Suggestion []*Change

// String returns "create 2 more pods of the group and free 1 cpu on node n1".
func (r Suggestion) String() string {
	words := make([]string, len(r))
	for i, change := range r {
		words[i] = change.words
	}
	return strings.Join(words, " and ")
}

// Suggestions is up to two remedies, each of which will do, the better one first; none when nothing is known to help.
type Suggestions []Suggestion

// String returns "free 1 cpu on node n1, or lower minMember from 3 to 2", and nothing when there is no advice.
func (a Suggestions) String() string {
	words := make([]string, len(a))
	for i, suggestion := range a {
		words[i] = suggestion.String()
	}
	return strings.Join(words, ", or ")
}
