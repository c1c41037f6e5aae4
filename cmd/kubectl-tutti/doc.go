// Command kubectl-tutti answers users and operators of Tutti: why a job waits, the state of all jobs, what the scheduler sees
// and does. Under this name on the PATH it is a kubectl plugin: kubectl tutti.
//
// This package has the commands, their flags, and their output. Package diagnose explains jobs, package owners finds the
// objects that pods come from, and package connect connects to the scheduler.
//
// The files, in reading order:
//
//	main.go, command.go, access.go   the command, its flags, its clients
//	why.go, owner.go                 why a job waits, and the jobs of an object of any kind
//	unsaid.go                        who leads, and why a group has no pods
//	status.go                        the state of all jobs
//	watch.go                         the state of all jobs as it changes
//	get.go                           what the scheduler serves
//	pause.go                         all starts paused, or those of a queue
package main
