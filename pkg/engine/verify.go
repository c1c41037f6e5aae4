package engine

import (
	"fmt"
	"strconv"

	"github.com/tutti-sched/tutti/pkg/model"
)

// invariantViolation is what a broken invariant panics with. It is a bug of the scheduler itself, not of a plugin, and nothing
// is to go on after it.
type invariantViolation string

// rethrow lets a recovered panic go on.
func rethrow(value any) { panic(value) }

// verify panics when an invariant is broken; it does nothing outside verify mode. fingerprint is what the snapshot must
// look like, empty when that is open.
func (s *Session) verify(fingerprint string) {
	if !s.options.Verify {
		return
	}
	if err := s.Snapshot.Check(); err != nil {
		panic(invariantViolation(fmt.Sprintf("invariant broken: %v", err)))
	}
	if fingerprint != "" && fingerprint != s.fingerprint() {
		panic(invariantViolation(fmt.Sprintf("invariant I9 broken: undo left\n%s\ninstead of\n%s", s.fingerprint(), fingerprint)))
	}
}

// fingerprint writes down everything a statement can change, except the accounting of nodes: Snapshot.Check holds that it is the
// sum of their tasks. It is empty outside verify mode.
func (s *Session) fingerprint() string {
	if !s.options.Verify {
		return ""
	}
	b := make([]byte, 0, 1<<12) // by hand: with package fmt this is half of all that verify mode costs
	for _, node := range s.Snapshot.Nodes {
		b = append(b, node.Name...)
		for _, task := range node.Tasks {
			b = strconv.AppendInt(append(append(append(b, ' '), task.UID...), ':'), int64(task.Status), 10)
		}
		b = append(b, '\n')
	}
	for _, hold := range s.Snapshot.Held() {
		b = append(append(append(append(b, hold.Node...), ' '), hold.Job.String()...), ' ')
		b = append(append(b, hold.Pod.UID...), '\n')
	}
	for _, job := range s.Snapshot.Jobs {
		for _, task := range job.Tasks {
			b = strconv.AppendInt(append(append(b, task.UID...), ' '), int64(task.Status), 10)
			b = append(append(b, ' '), task.Node...)
			if task.Isolated != nil {
				b = append(append(b, ' '), task.Isolated.CPUs.String()...)
			}
			b = append(b, '\n')
		}
	}
	return string(b)
}

// verifyRest panics when the session, in verify mode, came to anything else than what would have been said without it; nil says
// nothing.
func (s *Session) verifyRest(before *Result, refusals map[model.JobKey]*model.Refusal) {
	if before == nil || s.options.Afresh {
		return
	}
	if s.decisions.any || len(before.Refusals) != len(refusals) {
		panic(invariantViolation(fmt.Sprintf("a cycle was taken to change nothing: it decided: %v, %d jobs wait, not %d",
			s.decisions.any, len(refusals), len(before.Refusals))))
	}
	for key, refusal := range before.Refusals {
		if now := refusals[key]; now == nil || now.String() != refusal.String() {
			panic(invariantViolation(fmt.Sprintf("a cycle was taken to change nothing: %s waits because %q, not %q", key.Describe(), now, refusal)))
		}
	}
}
