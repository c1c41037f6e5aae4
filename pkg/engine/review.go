package engine

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// HasPreemptionExtender reports whether any plugin decides in plans of victims.
func (s *Session) HasPreemptionExtender() bool { return len(s.slots.review) > 0 }

// ProcessPreemption asks the reviewers about a plan: objections or a refusal of the first that does not agree, neither when
// all do.
func (s *Session) ProcessPreemption(preemptor *model.Job, proposals []framework.NodeVictims) ([]framework.VictimRejection, *model.Refusal) {
	if s.HasPreemptionExtender() {
		s.narrow(grounds{reach: ForNow})
	}
	return firstRejection(s.slots.review, preemptor, proposals)
}
