package place

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is for actions that choose the domain themselves, since they free capacity in it: see engine.Supposed.

// ShapeNeed is waiting members of one shape.
type ShapeNeed struct {
	// Task is one of them.
	Task *model.Task
	// Members is how many of them the minimum needs at least.
	Members int64
}

// Unsettled returns the entry of the job's topology by which all waiting members must share a domain that none has yet, of
// several that with the most domains; nil when there is none.
func (t *Placer) Unsettled() (narrowest *model.TopologyConstraint) {
	most := -1
	for i := range t.job.Topology {
		shared := &t.job.Topology[i]
		level := t.session.Domains(shared.Level)
		if shared.Preferred || shared.SliceSize > 0 || level == nil || level.Len() <= most || t.ask.SharedDomain(shared, 0) >= 0 ||
			slices.ContainsFunc(t.members, func(task *model.Task) bool { return !shared.Covers(task) }) {
			continue
		}
		narrowest, most = shared, level.Len()
	}
	return narrowest
}

// Needs returns how many of the waiting members the minimum needs, by shape.
func (t *Placer) Needs() (needs []ShapeNeed) {
	for _, task := range t.members {
		of := func(other *model.Task) bool { return other.Shape == task.Shape }
		if !slices.ContainsFunc(needs, func(one ShapeNeed) bool { return of(one.Task) }) {
			needs = append(needs, ShapeNeed{Task: task, Members: t.minimumOf(of)})
		}
	}
	return needs
}
