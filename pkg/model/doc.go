// Package model holds the nouns of the scheduler: tasks, jobs, nodes, resources, the snapshot that gathers them, the
// decisions a session takes about them and the refusals it gives instead.
//
// It is not the place for policy (see pkg/framework and the plugins), nor for clients and informers (see internal/cluster and
// internal/commit). Everything here is plain data that one goroutine owns at a time; nothing here does I/O or reads a clock.
package model
