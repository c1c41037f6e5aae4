package framework

import (
	"fmt"
	"strings"
)

// verify panics when an invariant is broken; it does nothing outside verify mode. fingerprint is what the snapshot must
// look like, empty when that is open.
func (s *Session) verify(fingerprint string) {
	if !s.options.Verify {
		return
	}
	if err := s.Snapshot.Check(); err != nil {
		panic(fmt.Sprintf("invariant broken: %v", err))
	}
	if fingerprint != "" && fingerprint != s.fingerprint() {
		panic(fmt.Sprintf("invariant I9 broken: undo left\n%s\ninstead of\n%s", s.fingerprint(), fingerprint))
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
			fmt.Fprintf(&b, "%s %s %s\n", task.UID, task.Status, task.Node)
		}
	}
	return b.String()
}
