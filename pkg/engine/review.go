package engine

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// HasPreemptionExtender reports whether any plugin decides in plans of victims.
func (s *Session) HasPreemptionExtender() bool { return len(s.slots.review) > 0 }

// ProcessPreemption asks the reviewers about a plan: objections or a refusal of the first that does not agree, neither when
// all do.
func (s *Session) ProcessPreemption(preemptor *model.Job, proposals []framework.NodeVictims) ([]framework.VictimRejection, *model.Refusal) {
	if s.HasPreemptionExtender() {
		s.narrow(ForNow)
	}
	return firstRejection(s.slots.review, preemptor, proposals)
}

// HasTransientRefusal reports whether the answer of a webhook, or that a filter had no more time, keeps the task from a node for
// now.
func (s *Session) HasTransientRefusal(task *model.Task) bool {
	return slices.ContainsFunc(s.slots.nodeFilter, func(filter framework.NodeFilter) bool {
		fleeting, ok := filter.(framework.TransientFilter)
		return ok && fleeting.IsTransient(task)
	})
}
