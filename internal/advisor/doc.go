// Package advisor finds out, beside the loop, what would let waiting jobs start, and remembers it for as long as nothing that
// matters has changed. The search itself is internal/suggest.
//
//	loop ── Ask: copy of the snapshot, questions ──► round, on a goroutine of its own
//	  ▲                                                │
//	  └────────────── Take ◄────── answers ────────────┘
//
// The loop pays for the copy alone. Rounds are spaced by what they cost, so that a backlog of thousands waits for its advice,
// rather than takes a processor for itself. An answer about a job that has changed since the copy was made is dropped.
package advisor
