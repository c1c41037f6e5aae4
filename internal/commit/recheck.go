package commit

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what may change between a decision and its first bind, which minutes may lie between: how many members the job
// needs. A minimum that was raised by then is never missed as far as the owner knows of it; one that is raised later finds a start
// under way, which is completed as any other, or undone.

// Recheck says how many of a job's members that are bound, or about to be, it could do without by now. With fewer than none,
// decisions of which no bind was sent are ended, for they would start it in part; why says so. It returns what became final.
func (m *Machine) Recheck(now time.Time, job model.JobKey, spare int, why string) []Outcome {
	for _, b := range slices.Clone(m.starts[job]) {
		b.needs = min(len(b.entries), max(0, len(b.entries)-spare))
		if spare < 0 && b.unsent() && b.aborted == "" {
			m.abort(now, b, why)
		}
	}
	return m.drainOutcomes()
}

// Starting tells whether binds of the job have no final answer yet.
func (m *Machine) Starting(job model.JobKey) bool { return len(m.starts[job]) > 0 }

// StartingOf returns the jobs with binds that have no final answer yet, as far as they are asked for, sorted.
func (m *Machine) StartingOf(asked func(model.JobKey) bool) []model.JobKey {
	var keys []model.JobKey
	for key := range m.starts {
		if asked(key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, model.JobKey.Compare)
	return keys
}

// unsent tells whether no bind of the batch was sent.
func (b *callGroup) unsent() bool { return b.stage == stagePreBind || b.deadline.IsZero() }

// addStart takes note of the binds of a decision until all of them have an answer.
func (m *Machine) addStart(b *callGroup) {
	if len(b.entries) > 0 {
		m.starts[b.job] = append(m.starts[b.job], b)
	}
}

func (m *Machine) removeStart(b *callGroup) {
	left := slices.DeleteFunc(m.starts[b.job], func(other *callGroup) bool { return other == b })
	if len(left) == 0 {
		delete(m.starts, b.job)
		return
	}
	m.starts[b.job] = left
}
