// Package commit turns decisions into API calls: binds, nominations and evictions, each decision as one unit, and after them
// the writes that report it to users (group status, pod conditions, events).
//
// The Machine decides everything: what is sent when, what is tried again, what has failed for good. It is a plain state
// machine (decisions, replies and ticks in; calls and outcomes out) that one goroutine owns, with no clock, no
// goroutine and no I/O of its own, so that a seeded simulator drives the same code as production does. The Driver is the
// edge: a fixed pool of workers that carry calls to an API and decide nothing. Client is that API over HTTP.
//
// What was reserved for the pods of a decision, volumes and devices, is prepared concurrently before the first of them is
// bound; when one fails, none is bound and everything is released. The Preparer does this, on goroutines beside the workers,
// since it may take minutes and must not delay other binds.
//
// A decision's nominations are written to the status of its pods before any victim is evicted. The evictions follow when all
// of them are confirmed, and stop at the first that is refused.
//
// The owner can undo the binds of a gang, which deletes the pods: see Machine.Undo. When an answer is lost the pod is read; a
// changed minimum of a gang applies until its first bind is sent: see Machine.Recheck.
//
// The files, in reading order:
//
//	call.go, entry.go, options.go   calls, replies and outcomes; what the machine keeps of each call
//	machine.go, calls.go            decisions in, ticks, and which call leaves next
//	answer.go, classify.go          replies in: done, sent again, or failed for good
//	prepare.go                      volumes and devices before the first bind; what a failed bind does to the others
//	plan.go                         nominations before evictions
//	recheck.go, undo.go, read.go    a changed minimum, starts taken back, answers that were lost
//	queue.go, turns.go, counts.go   timers, fair order between decisions, totals
//	driver.go, client.go, fence.go  the workers, the API over HTTP, and what keeps a process that lost its Lease from writing
//	status.go                       statuses of groups and queues, as patches
//
// It does not decide what is bound or written (see the session and the scheduler's loop), nor keep what is assumed (see
// internal/cluster): an Outcome reports what happened, its reader acts on it.
package commit
