// Package model holds the data types of the scheduler: tasks, jobs, nodes, resources, the snapshot that contains them, and
// the decisions and refusals of a session.
//
// It contains no policy (see pkg/engine and the plugins), and no clients or informers (see internal/cluster and
// internal/commit). Everything here is plain data that one goroutine owns at a time; nothing here does I/O or reads a clock.
//
// The files, in reading order:
//
//	resources.go, words.go                                        amounts by dimension, and how they are written
//	task.go, job.go, need.go, priority.go, begun.go, node.go      the nouns, the minima and priority of a gang, what completes it
//	free.go                                                       what a node has left for one question
//	member.go                                                     what a pod says of its place in its group
//	topology.go, index.go, natural.go                             which members share a domain, and their indexes
//	surplus.go                                                    what a job can spare, and the least that it asks for
//	class.go                                                      which jobs ask the same question
//	queue.go, headroom.go                                         the tree of queues, what each holds, and what limits keep free
//	hold.go, reservation.go, runtime.go, ends.go, isolated.go, budget.go   what is held on nodes, and what may be evicted
//	snapshot.go, journal.go                                       the cluster in one session, and its changes
//	digest.go                                                     the snapshot as a text, and a hash of it
//	decision.go, refusal.go                                       what a session says
//	translate.go, binder.go                                       interfaces to other parts
package model
