package scheduler

import (
	"sync/atomic"
	"time"
)

// progress shows other goroutines whether the loop goes on.
type progress struct {
	// count grows with each event that is taken in, each action of a cycle, each decision and each step.
	count atomic.Uint64
	// began is when the step under way began, ended when the last one did, in nanoseconds since 1970; zero is none.
	began, ended atomic.Int64
	// version is that of the snapshot of the last cycle, and refused how many jobs it refused.
	version atomic.Uint64
	refused atomic.Int64
}

// begin records that a step begins.
func (p *progress) begin(now time.Time) {
	p.began.Store(now.UnixNano())
	p.count.Add(1)
}

// end records that the step has ended.
func (p *progress) end(now time.Time) {
	p.ended.Store(now.UnixNano())
	p.began.Store(0)
	p.count.Add(1)
}

// Progress returns a number that changes whenever the loop has done something, and whether it is doing something now. Any
// goroutine may call it.
//
// Each event that is taken in counts, so that the first lists of a large cluster, which may come together, are no long step.
func (s *Scheduler) Progress() (count uint64, busy bool) {
	return s.progress.count.Load(), s.progress.began.Load() != 0
}

// Steps returns when the step under way began, zero when none is, and when the last one ended, zero before the first. Any
// goroutine may call it.
func (s *Scheduler) Steps() (began, ended time.Time) {
	return instant(s.progress.began.Load()), instant(s.progress.ended.Load())
}

func instant(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// MailboxLength returns how many events and replies the loop has not taken in yet. Any goroutine may call it.
func (s *Scheduler) MailboxLength() int {
	m := s.mailbox
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.content.events) + len(m.content.groups) + len(m.content.replies)
}
