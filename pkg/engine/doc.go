// Package engine is one cycle: the session over one snapshot, which asks the plugins of pkg/framework, and the statement by which
// an action changes it.
//
// It holds no policy of its own except what no configuration may switch off: a task needs capacity on its node and within the
// limits of its queue, and no statement commits part of a gang. It does no I/O and reads no clock. Everything in it runs on the
// goroutine that opened the session.
//
// The files, in reading order:
//
//	action.go                                                     what actions implement
//	build.go, profile.go, profilequeries.go                       from a configuration to a profile, and what is asked of one
//	session.go, defer.go                                          one cycle: plugins are asked, actions run
//	ask.go                                                        a question: the job, the capacity, what is supposed
//	search.go, static.go, ranking.go, tournament.go, closest.go   a node for a task: filters, scores, order
//	query.go                                                      what is asked about a task and its candidates
//	domains.go, whole.go, fits.go                                 domains, which of them are whole, and what fits into them
//	sharing.go                                                    the members that share a domain
//	standing.go, trees.go                                         where members are, and all domains, between sessions
//	combine.go                                                    how answers of several plugins become one
//	statement.go, assign.go, decide.go                            changes committed or undone as a whole; decisions
//	queues.go, turns.go                                           limits of queues, and their order
//	reclaim.go                                                    what a job may take from other queues
//	victims.go, review.go                                         eviction
//	nominations.go, reserve.go, overstay.go                       nominated capacity, reserved capacity
//	cache.go, verdicts.go, idle.go                                what sessions hand on to the next one
//	panics.go                                                     a panic ends the session
//	trail.go, stopwatch.go, verify.go                             for readers, metrics and tests
package engine
