// Package inprocess measures what deciding costs, without a cluster: a real live state filled by events, kube-scheduler's
// own plugins over it, the built-in profile, and cycles as the scheduler's loop runs them, but for sending anything out.
// What is measured is a cycle: bring the snapshot up to date, run a session on it, assume what it decides.
//
// It measures no API server and no loop; lab/bench/speed does. It judges no decision; stories and lab/audit do.
//
// The files, in the order in which a row is made:
//
//	cases.go     which rows there are, and their goals
//	workload.go  what a row is about: a cluster, and what waits in it
//	objects.go   the objects of a workload
//	claims.go    devices in ResourceSlices, and claims for them
//	foreign.go   the same in groups of others
//	topology.go  the levels of a cluster, and what gangs say about them
//	world.go     the live state that they fill, and a cycle on it
//	measure.go   rounds, medians, and the same without queues or topologies
//	loop.go      the scheduler's loop, at rest
//	fit.go       the exponent of a curve
//	report.go    the pages
package inprocess
