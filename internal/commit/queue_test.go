package commit

import (
	"slices"
	"testing"
	"time"
)

func TestScheduleKeepsTimeThenOrder(t *testing.T) {
	var s timerQueue[string]
	s.add(start.Add(time.Second), "c")
	s.add(start, "a")
	s.add(start, "b")
	s.add(start.Add(time.Minute), "e")
	s.add(start.Add(time.Second), "d")
	s.remove(start, "b")
	s.remove(start, "unknown")
	if got := s.due(start.Add(time.Second)); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Errorf("due: got %v", got)
	}
	if at, ok := s.next(); !ok || !at.Equal(start.Add(time.Minute)) {
		t.Errorf("next: got %s, %t", at, ok)
	}
}
