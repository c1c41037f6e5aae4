package preempt

import "github.com/tutti-sched/tutti/pkg/engine"

// DefaultOptions are those without arguments.
func DefaultOptions() Options { return Options{Budget: defaultBudget} }

// NewForLarge returns the action as it is on clusters that are too large to look at every set of victims.
func NewForLarge(options Options) engine.Action { return &action{options: options} }
