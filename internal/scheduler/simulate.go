package scheduler

import "time"

// NextWake returns when the next step is due although the mailbox stays empty; ok is false when none is.
func (s *Scheduler) NextWake() (at time.Time, ok bool) {
	if !s.Leading() {
		return time.Time{}, false
	}
	return s.nextWake()
}
