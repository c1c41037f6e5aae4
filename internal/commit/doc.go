// Package commit turns decisions into API calls: binds, promises and evictions, each decision as one unit, and behind them the
// writes that tell users about it (group status, pod conditions, events).
//
// The Machine decides everything: what is sent when, what is tried again, what has failed for good. It is a plain state
// machine (decisions, replies and ticks in; calls and outcomes out) that one goroutine owns, with no clock, no
// goroutine and no I/O of its own, so that a seeded simulator drives the same code as production does. The Driver is the
// edge: a fixed pool of workers that carry calls to an API and decide nothing. Client is that API over HTTP.
//
// What was set aside for the pods of a decision, volumes and devices, is prepared before the first of them is bound, all at
// once; when one of them fails, none is bound and everything is given back. That is the Preparer's, on goroutines beside the
// workers, since it may take minutes and must keep nobody else from being bound.
//
// What others are evicted for is written down before they are: a decision's promises of room, in the status of the pods that
// they are made to. Its evictions follow when all of them are confirmed, and end with the first that is refused.
//
// What is bound of a gang is taken back when its owner says so, by deleting the pods: see Machine.Undo. An answer that was lost is
// sought by reading the pod, and the newest minimum of a gang holds until its first bind is sent: see Machine.Recheck.
//
// It is not the place to decide what is bound or written (see the session and the scheduler's loop), nor to keep what is
// assumed (see internal/cluster): an Outcome says what happened, its reader acts on it.
package commit
