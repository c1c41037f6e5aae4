package simulation

import (
	"container/heap"
	"time"
)

// queue is everything that is going to happen, in the one order in which it will: by time, and among what happens at the same
// time by who was there first. Nothing else in a simulation has an order of its own.
type queue struct {
	now   time.Time
	items happenings
	last  uint64
}

// event is something that is going to happen.
type event struct {
	at     time.Time
	number uint64
	what   string
	do     func()
}

// after plans something for a while from now; what names it in the trace.
func (q *queue) after(delay time.Duration, what string, do func()) {
	q.last++
	heap.Push(&q.items, &event{at: q.now.Add(max(0, delay)), number: q.last, what: what, do: do})
}

// next lets time pass until the first event and takes it out; nil when there is none before the end.
func (q *queue) next(end time.Time) *event {
	if len(q.items) == 0 || q.items[0].at.After(end) {
		return nil
	}
	first := heap.Pop(&q.items).(*event)
	q.now = first.at
	return first
}

// happenings is a heap.
type happenings []*event

func (h happenings) Len() int { return len(h) }

func (h happenings) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].number < h[j].number
}

func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *happenings) Push(item any) { *h = append(*h, item.(*event)) }

// Pop is for package heap.
func (h *happenings) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
