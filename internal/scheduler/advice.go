package scheduler

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/advisor"
)

// maxStaleness is for how long a loop that has jobs to start puts questions about the others off.
const maxStaleness = 5 * time.Second

// scheduleAdvice lets questions be asked after a cycle.
func (s *Scheduler) scheduleAdvice(now time.Time) {
	if s.last.decided {
		now = now.Add(maxStaleness)
	}
	s.advice.atMost(now)
}

// askForAdvice asks what would let waiting jobs start, when that is due.
func (s *Scheduler) askForAdvice(ctx context.Context, now time.Time) {
	if !s.advice.due(now) || s.last.changed { // there is a cycle first
		return
	}
	s.advice.stop()
	from := advisor.Source{State: s.state, Profile: s.profile, Refusals: s.refusals, Now: now, Verify: s.options.Verify}
	if answers := s.advisor.Ask(from); answers != nil {
		s.takeAdvice(ctx, answers, now)
	} else if next := s.advisor.Next(); !next.IsZero() {
		s.advice.at(next)
	}
}

// takeAdvice takes in what a round of questions has found out, to be reported with the reasons.
func (s *Scheduler) takeAdvice(ctx context.Context, answers *advisor.Answers, now time.Time) {
	if answers.Panic != "" {
		s.options.Metrics.Panicked(partAdvice)
		klog.FromContext(ctx).Error(nil, "Advice failed", "reason", answers.Panic, "stack", answers.Stack)
	}
	s.advisor.Take(answers, s.state, s.refusals)
	s.reports.debounce(now, reportEvery, reportEvery)
	if next := s.advisor.Next(); !next.IsZero() {
		s.advice.atMost(next)
	}
}
