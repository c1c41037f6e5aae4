package preempt

// DefaultOptions are those without arguments.
func DefaultOptions() Options { return Options{Budget: defaultBudget} }
