// Package reclaim evicts pods of other queues for jobs that found no capacity, where their queues have a right to it: by a
// guarantee that they do not have yet, or by a fair share, of which the other queue has more. The whole minimum of a job can then
// start, or no pod goes.
//
// Which right a job has, and what it takes, is for the plugin that says what queues may count on; plans are made by package
// preempt, in the same way as in one queue. This package says how long pods are left alone. While there are no queues it does
// nothing.
package reclaim

import (
	"math"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the action's name in the configuration.
const Name = "reclaim"

// Options are what the action's arguments say.
type Options struct {
	// MinRunSeconds is for how long pods run before they go by a fair share. It is doubled for each time that reclaim has evicted
	// the group, up to maxRunSeconds.
	MinRunSeconds int64
	// Plan has the options of planning.
	Plan preempt.Options
}

// maxRunSeconds is for how long a group runs at least, at most: what no proof bounds, it does.
const maxRunSeconds = 3600

// Arguments are all that a configuration may say to the action.
func Arguments() argument.List {
	return append(argument.List{
		argument.Int("minRunSeconds", 300, 0, math.MaxInt32).InUnit("seconds").WithHelp("for how long pods run before they are evicted " +
			"for the fair share of another queue. It is doubled for each time that this action has evicted the group, up to an hour. " +
			"A guarantee does not wait"),
	}, preempt.PlanArguments()...)
}

// ReadArguments reads the action's arguments. What is no good is said by the reader.
func ReadArguments(r argument.Reader) Options {
	given := Arguments().Read(r)
	return Options{MinRunSeconds: given.Int("minRunSeconds"), Plan: preempt.ReadPlanArguments(given, r)}
}

// New returns the action.
func New(options Options) engine.Action {
	return &action{Planner: preempt.NewPlanner(options.Plan, rules{options.MinRunSeconds})}
}

type action struct{ *preempt.Planner }

var (
	_ engine.Preemptor = (*action)(nil)
	_ engine.Resumer   = (*action)(nil)
	_ engine.ClaimUser = (*action)(nil)
)

// EvictsByClaims returns true.
func (*action) EvictsByClaims() bool { return true }

// Name returns "reclaim".
func (*action) Name() string { return Name }

type rules struct{ minRunSeconds int64 }

// Name returns "reclaim".
func (rules) Name() string { return Name }

// SparedUntil returns when a unit has run for long enough to go by a fair share.
func (r rules) SparedUntil(unit *framework.EvictionUnit, right model.Right, now int64) int64 {
	if right == model.ByGuarantee {
		return now
	}
	began := now
	if unit.WholeGang {
		began = unit.Job.RunsSince(now)
	} else {
		for _, task := range unit.Tasks {
			began = min(began, task.RunsSince(now))
		}
	}
	return began + minRun(r.minRunSeconds, unit)
}

// minRun returns how long a unit runs before it goes: a whole group, twice as long for each time that it was evicted.
func minRun(seconds int64, unit *framework.EvictionUnit) int64 {
	if !unit.WholeGang {
		return seconds
	}
	for range unit.Job.Reclaims {
		if seconds >= maxRunSeconds {
			break
		}
		seconds = min(2*seconds, maxRunSeconds)
	}
	return seconds
}
