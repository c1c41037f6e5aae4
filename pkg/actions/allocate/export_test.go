package allocate

import "github.com/tutti-sched/tutti/pkg/engine"

// NewWithin returns the action with another budget for exact searches.
func NewWithin(budget int) engine.Action { return &action{budget: budget} }
