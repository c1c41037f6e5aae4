package preempt

import (
	"time"

	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Options are what the action's arguments say.
type Options struct {
	// Foreign lets pods of other schedulers be victims, too.
	Foreign bool
	// Method is how victims are ended. But by ByEviction, a plan may ask more of disruption budgets than they allow, where no other
	// plan is left.
	Method model.EvictionMethod
	// MaxGrace is how long a pod that the scheduler ends may take at most; zero is model.DefaultMaxGrace.
	MaxGrace time.Duration
	// Budget is how many looks at nodes one cycle may take.
	Budget int64
}

// defaultBudget keeps a cycle on 5,000 nodes near a second.
const defaultBudget = 400_000

const victimsAll, budgetsRespect, budgetsPrefer = "all", "respect", "prefer"

// Arguments are all that a configuration may say to the action.
func Arguments() argument.List {
	shared := PlanArguments()
	own := argument.List{
		argument.OneOf("victims", "own", "own", victimsAll).WithHelp("`own`: pods of Tutti's jobs. `all`: pods of other schedulers, " +
			"too, but those of DaemonSets and static ones, which would be back immediately"),
		argument.Duration("maxGrace", model.DefaultMaxGrace, time.Second).WithHelp("how long a pod that the scheduler evicts or deletes, " +
			"also when it undoes or restarts a gang, may take to end where its own grace period is longer. No job counts on the " +
			"capacity of a pod that is being deleted for 30 s longer than that"),
	}
	return argument.List{own[0], shared[0], own[1], shared[1]}
}

// PlanArguments are those of them that say how plans are made and carried out.
func PlanArguments() argument.List {
	return argument.List{
		argument.OneOf("budgets", budgetsRespect, budgetsRespect, budgetsPrefer).WithHelp("`respect`: a plan that asks more of a " +
			"PodDisruptionBudget than it allows is none. `prefer`: as in kube-scheduler, the plan that asks least more of them comes " +
			"first, and a victim whose eviction they forbid is deleted"),
		argument.Int("budget", defaultBudget, 1, 1<<40).InUnit("looks at nodes").WithHelp("how much work planning may be in one cycle; " +
			"jobs that had no turn are looked at first in the next"),
	}
}

// ReadArguments reads the action's arguments. What is no good is said by the reader.
func ReadArguments(r argument.Reader) Options {
	given := Arguments().Read(r)
	options := ReadPlanArguments(given, r)
	options.Foreign, options.MaxGrace = given.Text("victims") == victimsAll, given.Duration("maxGrace")
	return options
}

// ReadPlanArguments returns the options that PlanArguments say.
func ReadPlanArguments(given argument.Values, r argument.Reader) Options {
	r.Refuse("evict", "be left out, budgets: prefer deletes a pod whose eviction a PodDisruptionBudget forbids")
	method := model.ByEviction
	if given.Text("budgets") == budgetsPrefer {
		method = model.ByEvictionOrDeletion
	}
	return Options{Method: method, Budget: given.Int("budget")}
}
