// Package model holds the data types of the scheduler: tasks, jobs, nodes, resources, the snapshot that contains them, and
// the decisions and refusals of a session.
//
// It contains no policy (see pkg/framework and the plugins), and no clients or informers (see internal/cluster and
// internal/commit). Everything here is plain data that one goroutine owns at a time; nothing here does I/O or reads a clock.
package model
