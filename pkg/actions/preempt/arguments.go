package preempt

// Options are what the action's arguments say.
type Options struct {
	// Foreign lets pods of other schedulers be victims, too.
	Foreign bool
	// Delete has victims deleted, not evicted: disruption budgets are then heeded as far as possible, not kept.
	Delete bool
	// Budget is how many looks at nodes one cycle may take.
	Budget int64
}

// defaultBudget keeps a cycle on 5,000 nodes near a second.
const defaultBudget = 400_000

// DefaultOptions are those without arguments.
func DefaultOptions() Options { return Options{Budget: defaultBudget} }

// Reader gives the action's arguments; config.Reader is one.
type Reader interface {
	// Int returns a number, def when it is not given.
	Int(name string, def, least, most int64) int64
	// OneOf returns one of the choices, def when none is given.
	OneOf(name, def string, choices ...string) string
}

// ReadArguments reads the action's arguments. What is no good is said by the reader.
func ReadArguments(r Reader) Options {
	const own, all, evict, outright = "own", "all", "api", "delete"
	return Options{
		Foreign: r.OneOf("victims", own, own, all) == all,
		Delete:  r.OneOf("evict", evict, evict, outright) == outright,
		Budget:  r.Int("budget", defaultBudget, 1, 1<<40),
	}
}
