// Command kubectl-tutti answers users and operators of Tutti: why a job waits, the state of all jobs, what the scheduler sees
// and does. Under this name on the PATH it is a kubectl plugin: kubectl tutti.
//
// This package has the commands, their flags, and their output. Package owners finds the objects that pods come from, and
// package connect connects to the scheduler, which serves what is printed.
//
// The files, in reading order:
//
//	main.go, command.go, access.go   the command, its flags, its clients
//	get.go, status.go                lists that the scheduler serves, and that of the jobs
//	whatif.go                        when jobs start, and what would happen
//	capture.go                       the cluster in a file, and the cycle after it
//	from.go                          lists of what a capture has
//	why.go, owner.go, write.go       why a job waits, the jobs of an object of any kind, and both in words
//	objects.go                       the jobs without the scheduler, from PodGroups and pods
//	unsaid.go                        why a group has no pods
//	pause.go                         all starts paused, or those of a queue
//	version.go                       the versions of this program and of the scheduler
package main
