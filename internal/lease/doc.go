// Package lease elects the one scheduler that may write: it holds the Lease, renews it, gives it up in good order, and says
// when requests may be sent, so that no request of one leader is under way when the next one begins. It does not know what is
// written.
//
//   - Election (election.go) is a state machine: Next says which request is due, Answer takes what came of it, MayWrite says
//     whether a request may be sent now. It has no goroutine, no timer and no client, and reads no clock but the one it is
//     given.
//   - Run (run.go) drives it against an API server. test/simulation drives the same machine under virtual time, with processes
//     that crash or freeze, requests that are lost, clocks that jump and machines that sleep.
//   - Watchdog (watchdog.go) notes that the work does not go on. Its process then abandons the Lease and ends.
//
// # Two clocks
//
// A process that holds the Lease counts by the clock that says that more time has passed: the monotonic clock stands still
// while the machine sleeps, and the wall clock may be set back. A process that waits for the end of another's Lease counts by
// the monotonic clock alone, which never runs ahead. No time of the API server or of another machine is compared with one of
// this machine.
package lease
