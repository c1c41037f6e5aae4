package simulation

import (
	"fmt"

	"github.com/go-logr/logr"
)

// errorLogSink is where a process writes its log: what it says about errors is a violation of I25. It goes on after a panic
// over a job, which holds that job back, and here there is to be none at all.
type errorLogSink struct{ process *process }

var _ logr.LogSink = errorLogSink{}

// Init is for logr.
func (errorLogSink) Init(logr.RuntimeInfo) {}

// Enabled drops everything that is no error.
func (errorLogSink) Enabled(int) bool { return false }

// Info is never called.
func (errorLogSink) Info(int, string, ...any) {}

// Error reports what the process takes for a mistake of its own.
func (a errorLogSink) Error(err error, message string, words ...any) {
	a.process.violated("I25", "%s says %q: %v %s", a.process, message, err, fmt.Sprint(words...))
}

// WithValues returns the same.
func (a errorLogSink) WithValues(...any) logr.LogSink { return a }

// WithName returns the same.
func (a errorLogSink) WithName(string) logr.LogSink { return a }
