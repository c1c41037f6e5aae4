// Package framework is the contract of a plugin: the questions that it may answer, what it is asked about, and what it may ask
// itself. Who writes a plugin needs this package and pkg/model; pkg/engine asks the questions. It has no state of a session.
//
// The files, in reading order:
//
//	points.go            the questions, and how the answers of several plugins become one
//	review.go            about plans of victims, and answers that do not last
//	reclaim.go           about what a job may take from other queues
//	profilequeries.go    once for a configuration, outside of sessions
//	view.go              what a plugin may ask
//	plugin.go            how a plugin is made
//	budget.go            the time of a cycle for what may be slow
package framework
