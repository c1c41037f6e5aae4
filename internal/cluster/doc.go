// Package cluster keeps the live state of the cluster, as the watches tell it, and turns it into the model.Snapshot that a
// session works on.
//
// It is a state machine that one goroutine owns: events, assumptions and a time go in, effects and snapshots come out. The
// informers in Watch are its edge and decide nothing. It is not the place for policy (see pkg/plugins), for writes to the
// API server (see internal/commit) or for a clock: the caller says what time it is.
//
// The files, in reading order:
//
//	state.go                                         what the state holds, and what may be asked of it
//	informers.go, relist.go, follower.go, decode.go  the edge: watches push events
//	strip.go, nomination.go, size.go, template.go    objects without what is not read, bounded, and what they share
//	event.go, incarnations.go                        events, and how one is admitted
//	pod.go, podchange.go, index.go                   a pod: read, compared with its last version, put in its place
//	request.go, offered.go, shape.go, isolated.go    what a pod asks of a node: amounts, constraints, isolated CPUs
//	node.go, lease.go                                a node: what it offers, whether its agent is there
//	deviceclass.go, devices.go, claims.go            classes of devices, how many a node has, which pod is charged for them
//	group.go, owner.go                               a PodGroup, and which scheduler it belongs to
//	foreign.go, later.go                             groups of other projects; what they said of members made later
//	reservation.go, priorityclass.go                 the capacity that is reserved for a PodGroup, its class
//	budget.go, namespace.go                          disruption budgets; labels of namespaces
//	queue.go                                         queues, and which one a job is in
//	assume.go                                        the effect of decisions before the watches show it
//	snapshot.go, job.go, holds.go                    the snapshot: brought up to date, jobs filled, held capacity
//	contents.go                                      all that the state holds, as a value from which another state is made
//	unreadable.go                                    a panic over one object
//	conflicts.go                                     bound pods with isolated CPUs that they should not have
package cluster
