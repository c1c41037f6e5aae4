package commit

import (
	"cmp"
	"slices"
	"time"
)

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
