// Package suggest finds the smallest change that would let a waiting job start: capacity to free and where, nodes to uncordon, a
// wish of its own to drop, a minimum to lower, members to create, a priority or a limit to raise. What it says has been tried,
// with the real engine, on a copy of the snapshot that the job waits on: the change is made, the job is started, and both are
// taken back.
//
// It decides nothing and evicts no pod. Which of several changes it names, and what is the smallest of a kind, is written
// down in docs/decisions/0018. What it says is a function of the snapshot and its options: it counts its work in looks at
// nodes and has no clock.
//
// The files, in reading order:
//
//	find.go, change.go          the search, and what it finds
//	members.go, role.go         members to create, a minimum to lower
//	wish.go, names.go           a constraint of the pods to drop, a label to correct
//	cordon.go                   nodes to uncordon
//	capacity.go, priority.go    capacity to free, a priority to raise
//	domain.go                   capacity in a domain that members share, a wider domain
//	limit.go                    limits of queues to raise
//	words.go                    how it is said
package suggest
