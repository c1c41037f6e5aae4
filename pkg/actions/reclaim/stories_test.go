package reclaim_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tutti-sched/tutti/test/scenario"
)

// TestStories plays the files in testdata; see test/scenario for how they are written.
func TestStories(t *testing.T) { datadriven.Walk(t, "testdata", scenario.Run) }
