package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tutti-sched/tutti/cmd/tutti-scheduler/app"
	"github.com/tutti-sched/tutti/test/scenario"
)

// TestStories plays the files in testdata; see test/scenario for how they are written.
func TestStories(t *testing.T) { datadriven.Walk(t, "testdata", scenario.RunWith(registration())) }

// TestSchedulerKnowsThePlugin asks the scheduler that main runs.
func TestSchedulerKnowsThePlugin(t *testing.T) {
	scheduler, out := app.New(registration()), &bytes.Buffer{}
	scheduler.SetOut(out)
	scheduler.SetArgs([]string{"--explain-config", name})
	if err := scheduler.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{registration().Summary, "jobs", "1 to 1000"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in what the scheduler says of the plugin:\n%s", want, out)
		}
	}
}

// TestPageShowsThisPlugin holds the code on the page to the code that is compiled here.
func TestPageShowsThisPlugin(t *testing.T) {
	page, err := os.ReadFile("../../docs/writing-a-plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"limit.go", "main.go", "view_test.go"} {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```go\n"+string(code)+"```\n") {
			t.Errorf("docs/writing-a-plugin.md does not show %s as it is", file)
		}
	}
}
