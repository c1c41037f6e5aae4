package memory

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/cluster"
)

func options() Options {
	return Options{
		Contenders: []stage.SchedulerUnderTest{stage.Tutti}, Nodes: 5, Pods: 20, GangSize: 10, Workers: 4, Settle: 2 * time.Second,
		Timeout: cluster.Patience, Out: io.Discard,
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"":                  func(*Options) {},
		"1 or more":         func(o *Options) { o.Workers = 0 },
		"whole gangs":       func(o *Options) { o.GangSize = 7 },
		"have capacity for": func(o *Options) { o.Pods = 1000 },
		"must be scheduler": func(o *Options) { o.Contenders = nil },
	} {
		o := options()
		change(&o)
		if err := o.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestMarkdownHasAGoalForItsSizesOnly(t *testing.T) {
	runs := []Run{{Contender: stage.Tutti, Settled: 500 << 20, Peak: 600 << 20, After: 61 * time.Second}}
	o := options()
	if text := o.Markdown("1.2.3", runs); !strings.Contains(text, "| Tutti | 500 MiB |  |  | 600 MiB | 1m1s |") {
		t.Error(text)
	}
	o.Nodes, o.Pods = 5000, 50_000
	if text := o.Markdown("1.2.3", runs); !strings.Contains(text, "| Tutti | 500 MiB | ≤ 400 MiB | **no** | 600 MiB |") {
		t.Error(text)
	}
}

// TestAProcessIsMeasured measures the scheduler in a small cluster.
func TestAProcessIsMeasured(t *testing.T) {
	runs, err := Measure(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 || runs[0].Settled < 10<<20 || runs[0].Peak < runs[0].Settled {
		t.Errorf("%+v", runs)
	}
}
