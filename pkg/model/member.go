package model

import (
	"math"

	"k8s.io/apimachinery/pkg/types"
)

// Member is what a pod says of its place in its group, beside which group that is and its role in it. It is made once, when the
// pod is read, and never changed. Pods that say the same share one.
type Member struct {
	// Made is the object that the pod was made for, where marks of the pod say so.
	Made Made
	// Renamed reports that the object which controls the pod has another name in each attempt.
	Renamed bool
	// Set is the name of the object that says which members of the pod's group are made later; empty when the pod names none.
	// Exclusive reports that the workers of the group are made once the leader has a node.
	Set       string
	Exclusive bool
	// Queue is the queue that the pod names; empty when it names none.
	Queue string
	// Unfollowed says which mark of the pod is not followed, and UnfollowedAlone which of those that mean something only on a pod in
	// no group; empty when there is none.
	Unfollowed, UnfollowedAlone string
	// WrongIndex is the start of an index that cannot be read.
	WrongIndex string
	// Topology says which members share a domain; nil when the pod says nothing of that.
	Topology *SaidTopology
}

// Made is what a pod was made for.
type Made struct {
	Kind, Name string
	// UID is empty where the marks do not have it: what controls the pod counts then.
	UID     types.UID
	Attempt Number
}

// SaidTopology is what the annotations of a pod say of which members share a domain.
type SaidTopology struct {
	// Key is equal where the annotations are.
	Key [32]byte
	// By is what is said in each dialect; one in which nothing is said has no Written.
	By []SaidBy
}

// SaidBy is what a pod says in one dialect.
type SaidBy struct {
	// Written are the annotations, by key.
	Written map[string]string
	// Constraints are what they say. Problem names the one that cannot be read, empty when all can.
	Constraints []SaidConstraint
	Problem     string
}

// SaidConstraint is that members of a role share a domain. Two roles with the same constraint that name the same set of roles
// share one domain; an empty name is that of no set.
type SaidConstraint struct {
	TopologyConstraint
	Set string
}

// Number is a number from 0 up that may be missing: the zero Number is none.
type Number int32

// Unreadable is a number that is there and cannot be read.
const Unreadable Number = -1

// NumberOf returns the Number of n, from 0 up; the largest that there is for all that are larger.
func NumberOf(n int) Number { return Number(min(n, math.MaxInt32-1) + 1) }

// Get returns the number; ok is false when there is none, or it cannot be read.
func (n Number) Get() (number int, ok bool) { return int(n) - 1, n > 0 }

// Ranks are the numbers that labels give a pod among the members of its role.
type Ranks struct {
	// Own is the index that a user writes. InJob is that among the pods of its Job, and OfJob the number of that Job in its JobSet.
	// Other is the index that another controller writes.
	Own, InJob, OfJob, Other Number
}

// Place is where in the topology a pod is, as annotations say that are written with its bind.
type Place struct {
	// Domains is its domain in each topology, as fabric=b1/r3,nvlink=c7.
	Domains string
	Index   Number
}

var silent = Member{}

// Says returns what the pod says of its place in its group.
func (t *Task) Says() *Member {
	if t.Member == nil {
		return &silent
	}
	return t.Member
}
