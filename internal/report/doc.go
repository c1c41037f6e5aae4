// Package report says what the scheduler does and why: the status of PodGroups and queues, the condition PodScheduled of
// waiting pods, and events. Everything here is a function from live jobs, refusals and outcomes to writes; the commit machine
// sends them, in its own time. The package decides nothing and holds no client.
//
// The files, in reading order:
//
//	reporter.go                    what is reported, and what was
//	status.go, pods.go             the status of PodGroups, and the condition of pods
//	evicted.go                     by whom and for whom a group was evicted, in the status of PodGroups
//	topology.go                    where members are that share a domain, in the status of PodGroups
//	queues.go                      the status of Queues
//	foreign.go                     the status of groups of other projects: when it is written
//	events.go                      events
//	writer.go, budget.go           when what is offered is written, and how many writes at a time
package report
