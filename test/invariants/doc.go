// Package invariants judges decisions of the scheduler for stories, for the simulation and for the lab: what a pod asks for, what
// a node has left, where a pod may be, what a gang lacks, what a queue may hold, and what may be evicted for whom. It counts from
// the objects alone, never from the scheduler's accounting, and takes no code from the scheduler, so that a judge does not repeat
// a mistake of the scheduler. Of pkg/model it takes the names of jobs and what a decision says.
//
// A View is the cluster as one party sees it. Its method Judge holds a decision to the invariants for which docs/invariants.md
// names this package.
//
// The files, in reading order:
//
//	amounts.go, eligible.go, members.go, priority.go   what pods ask for, where they may be, what gangs need
//	view.go                                            a cluster as one party sees it; capacity
//	gangs.go, victims.go, queues.go, topology.go       judges of decisions
//	reclaim.go, shares.go                              the rights by which pods of other queues go
package invariants
