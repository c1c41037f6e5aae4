package predicates

// NewFactory is New with another limit and clock.
var NewFactory = newFactory
