// Package report says what the scheduler does and why: the status of PodGroups and queues, the condition PodScheduled of
// waiting pods, and events. Everything here is a function from live jobs, refusals and outcomes to writes; the commit machine
// sends them, in its own time. The package decides nothing and holds no client.
package report
