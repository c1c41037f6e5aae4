// Package demo shows Tutti at work in a throw-away cluster, from nothing to a verdict: it installs the chart, runs the
// real scheduler with exactly the chart's account, arguments and configuration, submits jobs as users would, and tells
// what a spectator of the API server sees.
//
// It judges by what is bound, not by what the scheduler says of itself, and its error is the verdict. It is no
// benchmark: the times it shows are those of one small cluster on this machine.
//
// The files, in reading order:
//
//	demo.go, world.go, manifests.go              the cluster and what is in it
//	play.go, quiet.go                            the acts
//	real.go                                      the same on real nodes, with other jobs
//	follow.go, board.go, screen.go, verdict.go   what is seen, and the checks at its end
package demo
