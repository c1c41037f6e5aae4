package scheduler

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the log of decisions and refusals. Each line has the number of its cycle, as the documents of the debug endpoint
// and the annotation of events have it.

// maxLogged is how many pods of a decision a line names.
const maxLogged = 20

// logDecision logs, at V(1), what was decided for a job: which pods go where, and which are evicted for them.
func logDecision(ctx context.Context, decision *model.Decision) {
	log := klog.FromContext(ctx).V(1)
	if !log.Enabled() {
		return
	}
	values := []any{"cycle", decision.Cycle}
	if decision.Job != (model.JobKey{}) {
		values = append(values, "job", decision.Job.Describe())
	}
	if len(decision.Binds) > 0 {
		values = append(values, "needs", decision.MinBinds, "binds", firstOf(decision.Binds, func(bind *model.Bind) string {
			return bind.Pod.Name + " on " + bind.Node
		}))
	}
	if len(decision.Evictions) > 0 {
		values = append(values, "victims", firstOf(decision.Evictions, func(victim *model.Eviction) string {
			return victim.Pod.String() + " on " + victim.Node
		}))
	}
	if len(decision.Nominations) > 0 {
		values = append(values, "nominations", firstOf(decision.Nominations, func(nomination *model.Nomination) string {
			if nomination.Releases() {
				return nomination.Pod.Name + " released"
			}
			return nomination.Pod.Name + " on " + nomination.Node
		}))
	}
	if decision.Reservation != nil {
		values = append(values, "reserved", decision.Reservation.NodeNames())
	}
	log.Info("Decision", values...)
}

// firstOf describes the first of a list, and says how many there are beside them.
func firstOf[T any](all []T, describe func(*T) string) []string {
	var described []string
	for i := range all[:min(len(all), maxLogged)] {
		described = append(described, describe(&all[i]))
	}
	if rest := len(all) - maxLogged; rest > 0 {
		described = append(described, fmt.Sprintf("and %d more", rest))
	}
	return described
}

// logRefusals logs, at V(4), how each job that waits came to its reason: what every action said, in order.
func logRefusals(ctx context.Context, cycle uint64, trail []engine.Step) {
	log := klog.FromContext(ctx).V(4)
	if !log.Enabled() {
		return
	}
	for _, step := range trail {
		code, reason := step.Describe()
		log.Info("Job refused", "cycle", cycle, "job", step.Job.Key.String(), "action", step.Action, "code", code, "reason", reason,
			"plugin", step.Plugin())
	}
}
