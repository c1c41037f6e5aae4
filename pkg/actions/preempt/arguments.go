package preempt

import "github.com/tutti-sched/tutti/pkg/argument"

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

const victimsAll, evictDelete = "all", "delete"

// Arguments are all that a configuration may say to the action.
func Arguments() argument.List {
	return argument.List{
		argument.OneOf("victims", "own", "own", victimsAll).WithHelp("`own`: pods of Tutti's jobs. `all`: pods of other schedulers, " +
			"too, but those of DaemonSets and static ones, which would be back at once"),
		argument.OneOf("evict", "api", "api", evictDelete).WithHelp("`api`: by the Eviction API; a plan that asks more of a " +
			"PodDisruptionBudget than it allows is none. `delete`: pods are deleted, and budgets kept as far as possible"),
		argument.Int("budget", defaultBudget, 1, 1<<40).InUnit("looks at nodes").WithHelp("how much work planning may be in one cycle; " +
			"jobs that had no turn are looked at first in the next"),
	}
}

// ReadArguments reads the action's arguments. What is no good is said by the reader.
func ReadArguments(r argument.Reader) Options {
	given := Arguments().Read(r)
	return Options{
		Foreign: given.Text("victims") == victimsAll,
		Delete:  given.Text("evict") == evictDelete,
		Budget:  given.Int("budget"),
	}
}
