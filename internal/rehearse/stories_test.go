package rehearse_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/tutti-sched/tutti/test/scenario"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStories plays the files in testdata; see test/scenario for how they are written.
func TestStories(t *testing.T) { datadriven.Walk(t, "testdata", scenario.Run) }
