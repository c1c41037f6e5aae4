package model

import "math"

// This file is when what runs is expected to end.

// UnknownEnd is the end of a task of which it is not known; it comes after all that are known.
const UnknownEnd = math.MaxInt64

// Ends says of the tasks of one snapshot when they leave their nodes. One goroutine owns it, while the snapshot stays as it is.
type Ends struct {
	snapshot *Snapshot
	now      int64
	// began is when the first member of a job began to run, as far as it was asked for.
	began map[JobKey]int64
}

// NewEnds returns what the snapshot says of ends.
func NewEnds(snapshot *Snapshot) *Ends {
	return &Ends{snapshot: snapshot, now: snapshot.Now.Unix(), began: map[JobKey]int64{}}
}

// Of returns when a task is expected to leave its node, in seconds since 1970: at the earliest of the moments that are known and
// have not passed for long, else UnknownEnd. One that has outlived all that was known of it may stay indefinitely. A guest came
// by the earliest of them: when it has outlived that, nothing is believed of it from then on, or it would open the capacity to
// other guests.
func (e *Ends) Of(task *Task, guest bool) int64 {
	if task.Status == Releasing {
		switch deleted := task.Pod.DeletionTimestamp; {
		case task.TerminationOverdue:
			return UnknownEnd
		case deleted == nil:
			return e.now
		default:
			return deleted.Unix() // with a little patience for one that is late, until it is stuck
		}
	}
	first, second := e.known(task)
	switch {
	case first == UnknownEnd || first+OverrunGrace > e.now:
		return first
	case guest || second == UnknownEnd || second+OverrunGrace <= e.now:
		return UnknownEnd
	}
	return second
}

// known returns when a task ends by its deadline and by what its group says of itself, the earlier first, in seconds since
// 1970, passed or not.
func (e *Ends) known(task *Task) (first, second int64) {
	after := func(began int64, seconds *int64) int64 {
		if seconds == nil || *seconds < 0 || *seconds > UnknownEnd-OverrunGrace-began-1 {
			return UnknownEnd
		}
		return began + *seconds
	}
	first, second = after(task.RunsSince(e.now), task.Pod.Spec.ActiveDeadlineSeconds), UnknownEnd
	if job := e.snapshot.Job(task.Job); job != nil && job.ExpectedRunSeconds != nil {
		second = after(e.begin(job), job.ExpectedRunSeconds)
	}
	return min(first, second), max(first, second)
}

// begin returns when the first of the job's members that are there began to run.
func (e *Ends) begin(job *Job) int64 {
	began, known := e.began[job.Key]
	if !known {
		began = job.RunsSince(e.now)
		e.began[job.Key] = began
	}
	return began
}
