package model

import "slices"

// Headroom is a part of a limit that is kept free for the minimum of a job. It is replaced, never changed.
type Headroom struct {
	Job JobKey
	// Queues are the names of the job's queue and of those above it, the job's first.
	Queues   []string
	Priority int32
	// Least is the least that the minimum asks for beyond what the job has.
	Least Resources
}

// keptFrom reports whether the headroom is kept from the job: from those of the same priority or below in the queue of its own
// job, and from all of other queues.
func (h *Headroom) keptFrom(job *Job) bool {
	return h != nil && h.Job != job.Key && (h.Queues[0] != job.Queue || h.Priority >= job.Priority)
}

// KeptFrom returns how much of a resource is kept free below the limit of the queue, other than for this job, which asks for so
// much more of it; nothing for nil. A guarantee comes before headroom: nothing is kept from a job whose queue is within its own
// guarantee of the resource with it, or a queue above that, up to where the two jobs have a queue in common.
func (q *Queue) KeptFrom(job *Job, position int, ask int64) int64 {
	if job == nil || !q.Headroom.keptFrom(job) {
		return 0
	}
	for own := job.queue; own != nil && !slices.Contains(q.Headroom.Queues, own.Name); own = own.parent {
		for _, guarantee := range own.Guarantee {
			if guarantee.Position == position && ask <= guarantee.Amount-own.Used.At(position) {
				return 0
			}
		}
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

// SetHeadroom replaces what is kept free in each queue, by its index. Only a session calls it, as ReleaseHeadroom.
func (s *Snapshot) SetHeadroom(kept []*Headroom) {
	for i, queue := range s.Queues {
		if before, after := queue.Headroom, kept[i]; before != after && (before == nil || after == nil || !before.equal(after)) {
			queue.Headroom = after
			s.Journal.renew(true)
		}
	}
}

func (h *Headroom) equal(o *Headroom) bool {
	return h.Job == o.Job && slices.Equal(h.Queues, o.Queues) && h.Priority == o.Priority && h.Least.Equal(o.Least)
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
