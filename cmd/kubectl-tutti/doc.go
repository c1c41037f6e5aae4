// Command kubectl-tutti answers users and operators of Tutti: why a job waits, the state of all jobs, what the scheduler sees
// and does. Under this name on the PATH it is a kubectl plugin: kubectl tutti.
//
// This package has the commands, their flags, and their output. Package diagnose explains jobs, package owners finds the
// objects that pods come from, package convert reads the files of others, and package connect connects to the scheduler.
//
// The files, in reading order:
//
//	main.go, command.go, access.go          the command, its flags, its clients
//	why.go, status.go, nodes.go, cycle.go   what it shows
//	topology.go                             the domains of nodes
//	owner.go                                the jobs of an object of any kind
//	unsaid.go                               who leads, and why a group has no pods
//	watch.go                                the state of all jobs as it changes
//	queues.go, queuescheck.go               the tree of queues, and the jobs that no queue takes
//	convert.go, queuesconvert.go            files of kube-batch, the queues of other schedulers
//	submit.go, config.go, pause.go          a gang submitted, a configuration checked, all starts paused
package main
