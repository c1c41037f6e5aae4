package commit

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file handles a change of the job's minimum between a decision and its first bind, which may be minutes later. A
// minimum that was raised by then is respected as far as the owner knows it; one that is raised later does not affect the
// start in progress, which is completed as any other, or undone.

// Recheck sets how many of a job's bound or assumed members it can now do without. With a negative number, decisions of which
// no bind was sent are ended, since they would start it in part; why is the reason. It returns the outcomes that became
// final.
func (m *Machine) Recheck(now time.Time, job model.JobKey, spare int, why string) []Outcome {
	for _, b := range slices.Clone(m.starts[job]) {
		b.needs = min(len(b.entries), max(0, len(b.entries)-spare))
		unsent := b.stage == stagePreBind || b.deadline.IsZero()
		if spare < 0 && unsent && b.aborted == "" {
			m.abort(now, b, why)
		}
	}
	return m.drainOutcomes()
}

// Starting reports whether binds of the job have no final answer yet.
func (m *Machine) Starting(job model.JobKey) bool { return len(m.starts[job]) > 0 }

// Releasing reports whether what is reserved for a pod is being released, or is to be.
func (m *Machine) Releasing(pod types.UID) bool {
	return slices.ContainsFunc(m.targetQueues[target{uid: pod}], func(e *entry) bool { return e.call.Kind == CallRelease })
}

// StartingOf returns the jobs that satisfy asked and have binds without a final answer, sorted.
func (m *Machine) StartingOf(asked func(model.JobKey) bool) []model.JobKey {
	sorted := slices.SortedFunc(maps.Keys(m.starts), model.JobKey.Compare)
	return slices.DeleteFunc(sorted, func(key model.JobKey) bool { return !asked(key) })
}

func (m *Machine) removeStart(b *callGroup) {
	left := slices.DeleteFunc(m.starts[b.job], func(other *callGroup) bool { return other == b })
	if len(left) == 0 {
		delete(m.starts, b.job)
		return
	}
	m.starts[b.job] = left
}
