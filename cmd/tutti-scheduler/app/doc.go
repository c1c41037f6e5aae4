// Package app is the scheduler as a command: its flags, and how its parts are joined. cmd/tutti-scheduler runs it with the
// built-in plugins; another module may build a scheduler with plugins of its own, see docs/writing-a-plugin.md.
//
// It contains no policy and no logic of scheduling.
//
// The files, in reading order:
//
//	options.go              the flags
//	run.go, takeover.go     how the parts are joined, run and stopped, and how a process begins to lead
//	configuration.go        where the configuration comes from, and what is printed about it
//	election.go             the Lease
//	watchdog.go             the end of a process whose loop hangs
//	served.go               what the API server serves, compared with what it served at the start
//	prepare.go              the client that writes volumes and claims
//	ask.go                  what rehearsals of the loop are made of
//	endpoint.go, publish.go metrics and debug documents by HTTPS, and how clients learn its certificate
//	guard.go, limit.go      the check of the rights to them, and how many checks there may be
//	memory.go               the garbage collector, once the first lists are read
package app
