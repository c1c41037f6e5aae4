// Package scheduler is the loop: wake, snapshot, session, actions, commit, status.
//
//	events ──► cluster.State ──Snapshot──► engine.Run ──decisions──► commit.Machine ──calls──► Driver
//	               ▲                                           │               ▲                     │
//	               └────────── Assume / Forget ◄───────────────┘               └────── replies ◄─────┘
//
// One goroutine, the one that calls Run, owns the state, the session, the commit machine and the reporter. Informers, workers
// and the election only put something into the Mailbox. The package has no policy: what to decide is in the actions and
// plugins, how to carry it out in internal/commit, what to delay in internal/backoff, when a start is over in
// internal/lifecycle, and what to write about it in internal/report.
//
// The files, in reading order:
//
//	scheduler.go                the loop: receive, one cycle, report, send
//	mailbox.go, events.go       what comes in
//	timer.go, due.go            when what is due
//	pause.go, trace.go          what is held back while the scheduler is paused; the log of decisions
//	outcomes.go, uncertain.go   what became of calls
//	gangs.go, conflicts.go      starts that are completed or undone; pods with the wrong CPUs
//	standing.go                 in which domains members are
//	panics.go                   a panic in a cycle or a step
//	progress.go, survey.go      whether the loop goes on, and what metrics count of the cluster
//	inspect.go, jobs.go         for the debug endpoint
//	advice.go                   what is found of waiting jobs beside the loop
//	moment.go                   what another loop needs to go on from here
package scheduler
