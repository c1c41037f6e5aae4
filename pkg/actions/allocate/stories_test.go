package allocate_test

import (
	"flag"
	"log"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/tutti-sched/tutti/test/scenario"
)

// TestMain tries more cases than usual, since they are small; -rapid.checks says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("5000"); err != nil {
			log.Fatal(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// TestStories plays the files in testdata; see test/scenario for how they are written.
func TestStories(t *testing.T) { datadriven.Walk(t, "testdata", scenario.RunOnly("allocate")) }
