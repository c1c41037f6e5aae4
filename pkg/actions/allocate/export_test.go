package allocate

import "github.com/tutti-sched/tutti/pkg/framework"

// NewWithin returns the action with another budget for exact searches.
func NewWithin(budget int) framework.Action { return &action{budget: budget} }
