package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// How long a job is not placed on a node to which the API server refused to bind one of its pods; doubled with each further
// refusal.
const (
	minNodeBackoff = 5 * time.Second
	maxNodeBackoff = 5 * time.Minute
)

// nodeBackoff are the nodes that jobs are kept from, so that what failed is tried elsewhere first. Whether the node is at fault or
// the pod, nobody can tell from one refusal: if it is the pod, it fails elsewhere too, and its job is held back.
type nodeBackoff map[model.JobKey]map[string]jobEntry

// add keeps the job of a bind that failed from its node, longer than the last time.
func (a nodeBackoff) add(outcome commit.Outcome, job types.UID, now time.Time) {
	nodes := a[outcome.Job]
	if nodes == nil {
		nodes = map[string]jobEntry{}
		a[outcome.Job] = nodes
	}
	last := nodes[outcome.Node]
	if last.job == job && last.until.After(now) {
		return // two members, one failure
	}
	if last.job != job {
		last.delay = 0
	}
	delay := min(maxNodeBackoff, max(minNodeBackoff, 2*last.delay))
	nodes[outcome.Node] = jobEntry{
		job: job, until: now.Add(delay), delay: delay,
		refusal: &model.Refusal{Code: model.BindFailed, Detail: "pod " + outcome.Pod.Name + " could not be bound: " + outcome.Message},
	}
}

// now returns the nodes that jobs of the snapshot are kept from at the moment, and when the first of that ends. It drops jobs that
// are gone, and what has been forgiven for long.
func (a nodeBackoff) now(
	snapshot *model.Snapshot, now time.Time,
) (refusals map[model.JobKey]map[string]*model.Refusal, wake time.Time) {
	refusals = map[model.JobKey]map[string]*model.Refusal{}
	for key, nodes := range a {
		job := snapshot.Job(key)
		for name, hold := range nodes {
			switch {
			case job == nil || job.UID != hold.job || now.Sub(hold.until) > maxNodeBackoff:
				delete(nodes, name)
			case hold.until.After(now):
				if refusals[key] == nil {
					refusals[key] = map[string]*model.Refusal{}
				}
				refusals[key][name] = hold.refusal
				wake = sooner(wake, hold.until)
			}
		}
		if len(nodes) == 0 {
			delete(a, key)
		}
	}
	return refusals, wake
}

// sooner returns the earlier of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
