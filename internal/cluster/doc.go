// Package cluster keeps the live state of the cluster, as the watches tell it, and turns it into the model.Snapshot that a
// session works on.
//
// It is a state machine that one goroutine owns: events, assumptions and a time go in, effects and snapshots come out. The
// informers in Watch are its edge and decide nothing. It is not the place for policy (see pkg/plugins), for writes to the
// API server (see internal/commit) or for a clock: the caller says what time it is.
package cluster
