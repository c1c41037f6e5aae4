package backfill

import (
	"math"
	"time"

	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/framework"
)

// never is a reserveAfter that no gang outlives.
const never = math.MaxInt64

// defaultBudget is what planning may look at in one cycle, in nodes and pods: enough for a gang on 5,000 nodes with 50,000
// pods.
const defaultBudget = 1_000_000

// Arguments are all that a configuration may say to the action.
func Arguments() argument.List {
	return argument.List{
		argument.Duration("reserveAfter", 10*time.Minute, 0).OrWord("never").WithHelp("how long a gang waits before it gets a reservation; " +
			"`0` is at once, `never` ends those there are"),
		argument.Int("reservations", 1, 0, 100).InUnit("gangs").WithHelp("how many reservations there are at most at a time. Who has one " +
			"keeps it, unless a gang of higher priority is due"),
		argument.Int("budget", defaultBudget, 1, 1_000_000_000).InUnit("nodes and pods").WithHelp("what planning, and what looking for " +
			"borrowers, may each look at in one cycle. With less, capacity may be chosen that is free later than other capacity"),
	}
}

// New reads the arguments and returns the action; what is no good the reader reports.
func New(r argument.Reader) framework.Action {
	given := Arguments().Read(r)
	a := &action{
		reserveAfter: never, reservations: int(given.Int("reservations")), budget: int(given.Int("budget")),
	}
	if given.Text("reserveAfter") != "never" {
		a.reserveAfter = int64((given.Duration("reserveAfter") + time.Second - 1) / time.Second)
	}
	return a
}
