package priority

import (
	"math"
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestHigherFirst includes the ends of the range, whose difference overflows.
func TestHigherFirst(t *testing.T) {
	for _, c := range []struct {
		a, b int32
		want int
	}{
		{1, 0, -1}, {0, 1, 1}, {0, 0, 0}, {-1, -2, -1},
		{math.MaxInt32, math.MinInt32, -1}, {math.MinInt32, math.MaxInt32, 1},
	} {
		if got := (plugin{}).CompareJobs(&model.Job{Priority: c.a}, &model.Job{Priority: c.b}); got != c.want {
			t.Errorf("jobs of %d and %d: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := (plugin{}).CompareTasks(&model.Task{Priority: c.a}, &model.Task{Priority: c.b}); got != c.want {
			t.Errorf("tasks of %d and %d: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
