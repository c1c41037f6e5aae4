// Package framework is what actions and plugins meet in: the session over one snapshot, the statement that changes it, and
// the extension points with one rule each for combining answers.
//
// It holds no policy of its own except what no configuration may switch off: a task needs room on its node, and no
// statement commits part of a gang. It does no I/O and reads no clock. Everything in it runs on the goroutine that opened
// the session.
package framework
