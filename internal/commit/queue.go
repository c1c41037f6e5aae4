package commit

import (
	"cmp"
	"slices"
	"time"
)

// links are the neighbours of an item in its fifo. An item embeds them.
type links[T any] struct{ previous, next *T }

func (l *links[T]) neighbours() *links[T] { return l }

// linked is a pointer to an item that embeds links.
type linked[T any] interface {
	*T
	neighbours() *links[T]
}

// fifo is a queue that supports removal from any position. The zero fifo is empty. An item is in one fifo at a time.
type fifo[T any, P linked[T]] struct {
	first, last *T
	length      int
}

func (q *fifo[T, P]) push(item *T) { q.insert(item, q.last, nil) }

// pushFront puts an item before all others.
func (q *fifo[T, P]) pushFront(item *T) { q.insert(item, nil, q.first) }

// insert puts an item between two neighbours; nil is the end of the queue.
func (q *fifo[T, P]) insert(item, previous, next *T) {
	q.join(previous, item)
	q.join(item, next)
	q.length++
}

// remove removes an item that is in the queue.
func (q *fifo[T, P]) remove(item *T) {
	at := P(item).neighbours()
	q.join(at.previous, at.next)
	*at = links[T]{}
	q.length--
}

// join makes two items neighbours; nil is the end of the queue.
func (q *fifo[T, P]) join(previous, next *T) {
	if previous == nil {
		q.first = next
	} else {
		P(previous).neighbours().next = next
	}
	if next == nil {
		q.last = previous
	} else {
		P(next).neighbours().previous = previous
	}
}

// timerQueue is items sorted by a time that does not change while they are in it; equal times keep the order of entry.
type timerQueue[T comparable] struct {
	items []timerItem[T]
}

type timerItem[T comparable] struct {
	at   time.Time
	item T
}

func (s *timerQueue[T]) add(at time.Time, item T) {
	i, _ := slices.BinarySearchFunc(s.items, at, func(t timerItem[T], at time.Time) int {
		return cmp.Or(t.at.Compare(at), -1)
	})
	s.items = slices.Insert(s.items, i, timerItem[T]{at, item})
}

// remove removes the item; at is the time it was added with.
func (s *timerQueue[T]) remove(at time.Time, item T) {
	i, _ := slices.BinarySearchFunc(s.items, at, func(t timerItem[T], at time.Time) int { return t.at.Compare(at) })
	for ; i < len(s.items); i++ {
		if s.items[i].item == item {
			s.items = slices.Delete(s.items, i, i+1)
			return
		}
	}
}

// due removes and returns, in order, the items that are not later than now.
func (s *timerQueue[T]) due(now time.Time) []T {
	var items []T
	for _, t := range s.items {
		if t.at.After(now) {
			break
		}
		items = append(items, t.item)
	}
	s.items = slices.Delete(s.items, 0, len(items))
	return items
}

// next returns the earliest time; ok is false when there is none.
func (s *timerQueue[T]) next() (at time.Time, ok bool) {
	if len(s.items) == 0 {
		return time.Time{}, false
	}
	return s.items[0].at, true
}
