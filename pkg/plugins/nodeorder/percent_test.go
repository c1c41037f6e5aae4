package nodeorder

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Near whole percents of large amounts a float alone is off by one.
func TestPercentIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.OneOf(rapid.Int64Range(1, model.MaxAmount), rapid.Int64Range(model.MaxAmount-1000, model.MaxAmount)).Draw(t, "whole")
		near := whole/full*rapid.Int64Range(0, full).Draw(t, "percents") + rapid.Int64Range(-100, 100).Draw(t, "beside")
		part := min(max(near, 0), whole)
		if got, want := percent(part, whole), full*part/whole; got != want {
			t.Fatalf("percent(%d, %d) is %d, want %d", part, whole, got, want)
		}
	})
}
