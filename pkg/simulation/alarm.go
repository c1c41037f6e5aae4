package simulation

import (
	"fmt"

	"github.com/go-logr/logr"
)

// alarm is where a process writes its log: what it says about errors is a violation of I25. It goes on after a panic over a job, which
// holds that job back, and here there is to be none at all.
type alarm struct{ process *process }

var _ logr.LogSink = alarm{}

// Init is for logr.
func (alarm) Init(logr.RuntimeInfo) {}

// Enabled drops everything that is no error.
func (alarm) Enabled(int) bool { return false }

// Info is never called.
func (alarm) Info(int, string, ...any) {}

// Error reports what the process takes for a mistake of its own.
func (a alarm) Error(err error, message string, words ...any) {
	a.process.violated("I25", "%s says %q: %v %s", a.process, message, err, fmt.Sprint(words...))
}

// WithValues returns the same.
func (a alarm) WithValues(...any) logr.LogSink { return a }

// WithName returns the same.
func (a alarm) WithName(string) logr.LogSink { return a }
