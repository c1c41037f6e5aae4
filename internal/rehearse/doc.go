// Package rehearse answers what would happen: it plays the real loop, with its state and its commit machine, on a copy of the
// cluster in virtual time. A question is played twice, as the cluster is and with the changes that the question supposes, and the
// answer is in what the plays differ.
//
//	loop ── Moment ──► Desk ── Restore ──► state ◄─── Step ───► Scheduler, Machine
//	                                         ▲                      │ Send
//	                                         └─ events, replies ─ stage: API server, kubelets, controllers
//
// The files, in reading order:
//
//	rehearsal.go           the loop on a copy, and how time goes on
//	stage.go               what is around it: the API server, the kubelets and the controllers, as far as decisions depend on them
//	change.go, submit.go   what a question supposes
//	course.go              what happened in a play
//	answer.go              how two plays differ
//	desk.go                one question at a time, beside the live loop
//	advice.go              what would let waiting jobs start, each change tried by one session
//	replay.go              one cycle, as the one after a moment
//
// It places nothing itself, and writes nothing: neither to the API server nor to the loop.
package rehearse
