package framework

import (
	"fmt"
	"strings"
)

// broken is what a broken invariant panics with. It is nobody's fault but ours, and nothing is to go on after it.
type broken string

// letThrough panics again with what is not to be caught. The stack of the first panic is shown with it.
func (s *Session) letThrough(what any) {
	if _, ours := what.(broken); ours || s.sending {
		panic(what)
	}
}

// verify panics when an invariant is broken; it does nothing outside verify mode. fingerprint is what the snapshot must
// look like, empty when that is open.
func (s *Session) verify(fingerprint string) {
	if !s.options.Verify {
		return
	}
	if err := s.Snapshot.Check(); err != nil {
		panic(broken(fmt.Sprintf("invariant broken: %v", err)))
	}
	if fingerprint != "" && fingerprint != s.fingerprint() {
		panic(broken(fmt.Sprintf("invariant I9 broken: undo left\n%s\ninstead of\n%s", s.fingerprint(), fingerprint)))
	}
}

// fingerprint writes down everything a statement can change; empty outside verify mode.
func (s *Session) fingerprint() string {
	if !s.options.Verify {
		return ""
	}
	var b strings.Builder
	for _, node := range s.Snapshot.Nodes {
		fmt.Fprintf(&b, "%s %v %v %v", node.Name, node.Idle, node.Releasing, node.Promised)
		for _, task := range node.Tasks {
			fmt.Fprintf(&b, " %s:%s", task.UID, task.Status)
		}
		b.WriteByte('\n')
	}
	for _, job := range s.Snapshot.Jobs {
		for _, task := range job.Tasks {
			fmt.Fprintf(&b, "%s %s %s", task.UID, task.Status, task.Node)
			if task.Isolated != nil {
				fmt.Fprintf(&b, " %s", task.Isolated.CPUs)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// verifyRest panics when the session, in verify mode, came to anything else than what would have been said without it; nil says
// nothing.
func (s *Session) verifyRest(before *rest) {
	if before == nil || s.options.Afresh {
		return
	}
	if s.decided || len(before.refusals) != len(s.refusals) {
		panic(broken(fmt.Sprintf("a cycle was taken to change nothing: it decided: %v, %d jobs wait, not %d",
			s.decided, len(s.refusals), len(before.refusals))))
	}
	for key, refusal := range before.refusals {
		if now := s.refusals[key]; now == nil || now.String() != refusal.String() {
			panic(broken(fmt.Sprintf("a cycle was taken to change nothing: %s waits because %q, not %q", key.Described(), now, refusal)))
		}
	}
}
