// Package diagnose explains why a job waits, only from its group object and its pods in the API server, so that read permission
// for these is enough. It repeats what the scheduler has written and adds what can be counted; it never guesses what the
// scheduler would do.
//
// The files, in reading order:
//
//	answer.go                                            what is found
//	of.go, nearest.go                                    from a name to an object
//	pod.go, group.go, implicit.go, gang.go, members.go   one job
//	off.go                                               the sources that a configuration turns off
//	owned.go                                             the jobs of one object, such as an MPIJob
//	ahead.go, overview.go                                all jobs
//	write.go, places.go                                  in words
package diagnose
