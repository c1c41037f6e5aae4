package model

// Headroom is a part of a limit that is kept free for the minimum of a job. It is replaced, never changed.
type Headroom struct {
	Job      JobKey
	Queue    string
	Priority int32
	// Least is the least that the minimum asks for beyond what the job has.
	Least Resources
}

// keptFrom reports whether the headroom is not for the job: it is kept from jobs of the same priority or below in the queue of
// its own job, and from all jobs of other queues.
func (h *Headroom) keptFrom(job *Job) bool {
	return h != nil && h.Job != job.Key && (h.Queue != job.Queue || h.Priority >= job.Priority)
}

// KeptFrom returns how much of a resource is kept free below the limit of the queue for a job other than this one; nothing for
// nil.
func (q *Queue) KeptFrom(job *Job, position int) int64 {
	if job == nil || !q.Headroom.keptFrom(job) {
		return 0
	}
	return q.Headroom.Least.At(position)
}

// HasHeadroom reports whether anything is kept free below the limit of the queue, or of one above it.
func (q *Queue) HasHeadroom() bool {
	for ; q != nil; q = q.parent {
		if q.Headroom != nil {
			return true
		}
	}
	return false
}

// SetHeadroom replaces what is kept free in each queue, by its index.
func (s *Snapshot) SetHeadroom(kept []*Headroom) {
	for i, queue := range s.Queues {
		if before, after := queue.Headroom, kept[i]; before != after && (before == nil || after == nil || !before.equal(after)) {
			queue.Headroom = after
			s.Journal.renew(true)
		}
	}
}

func (h *Headroom) equal(o *Headroom) bool {
	return h.Job == o.Job && h.Queue == o.Queue && h.Priority == o.Priority && h.Least.Equal(o.Least)
}

// ReleaseHeadroom ends what is kept free for the job, which has started.
func (s *Snapshot) ReleaseHeadroom(job *Job) {
	for queue := job.queue; queue != nil; queue = queue.parent {
		if queue.Headroom != nil && queue.Headroom.Job == job.Key {
			queue.Headroom = nil
			s.Journal.renew(true)
		}
	}
}
