package backfill

import (
	"math"
	"time"

	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// never is a reserveAfter that no gang outlives.
const never = math.MaxInt64

// defaultBudget is what planning may look at in one cycle, in nodes and pods: enough for a gang on 5,000 nodes with 50,000
// pods.
const defaultBudget = 1_000_000

// Arguments are all that a configuration may say to the action.
func Arguments() argument.List {
	return argument.List{
		argument.Duration("reserveAfter", 10*time.Minute, 0).OrWord("never").WithHelp("how long a gang waits before it gets a reservation, and headroom below the limits of its queue; " +
			"`0` means immediately, `never` ends those there are"),
		argument.Duration("reserveFor", 24*time.Hour, time.Second).WithHelp("how long a gang keeps a reservation without a start; then it " +
			"is given up, and the gang reserves again after those that have waited for `reserveAfter`, too"),
		argument.Int("reserveShare", 80, 1, 100).InUnit("percent").WithHelp("how much of each resource that the nodes offer may be " +
			"reserved at a time, by all reservations together"),
		argument.Int("reservations", 1, 0, 100).InUnit("gangs").WithHelp("how many reservations there are at most at a time, one of each " +
			"queue, and while there are no queues of each namespace. A gang that has one keeps it, unless a gang of higher priority is due"),
		argument.Int("budget", defaultBudget, 1, 1_000_000_000).InUnit("nodes and pods").WithHelp("what planning, and what looking for " +
			"borrowers, may each look at in one cycle. With less, capacity may be chosen that is free later than other capacity"),
	}
}

// New reads the arguments and returns the action; what is no good the reader reports.
func New(r argument.Reader) engine.Action {
	given := Arguments().Read(r)
	a := &action{
		reserveAfter: never, reserveFor: seconds(given.Duration("reserveFor")), reserveShare: given.Int("reserveShare"),
		reservations: int(given.Int("reservations")), budget: int(given.Int("budget")),
	}
	if given.Text("reserveAfter") != "never" {
		a.reserveAfter = seconds(given.Duration("reserveAfter"))
	}
	return a
}

// seconds returns a time span in whole seconds, never shorter.
func seconds(span time.Duration) int64 { return int64((span + time.Second - 1) / time.Second) }
