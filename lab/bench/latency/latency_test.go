package latency

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/cluster"
)

func TestQuantile(t *testing.T) {
	var run Run
	if got := run.Quantile(0.5); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	for i := range 100 {
		run.Took = append(run.Took, time.Duration(i+1)*time.Millisecond)
	}
	for part, want := range map[float64]int{0.5: 50, 0.9: 90, 0.99: 99, 1: 100, 0: 1} {
		if got := run.Quantile(part); got != time.Duration(want)*time.Millisecond {
			t.Errorf("%g: %s, want %d ms", part, got, want)
		}
	}
}

func options() Options {
	return Options{
		Contenders: []stage.SchedulerUnderTest{stage.Tutti}, Nodes: 5, Gangs: 4, GangSize: 3, Timeout: cluster.Patience, Out: io.Discard,
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"":                  func(*Options) {},
		"1 or more":         func(o *Options) { o.Gangs = 0 },
		"have capacity for": func(o *Options) { o.Gangs = 100 },
		"must be scheduler": func(o *Options) { o.Contenders = stage.Contenders() },
	} {
		o := options()
		change(&o)
		if err := o.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestMarkdown(t *testing.T) {
	o := options()
	text := o.Markdown("1.2.3", []Run{
		{Contender: stage.Tutti, Took: []time.Duration{50 * time.Millisecond, 300 * time.Millisecond}},
		{Contender: stage.Kube, Took: []time.Duration{70 * time.Millisecond}},
	})
	for _, want := range []string{
		"| Tutti | 50 ms | ≤ 60 ms | yes | 300 ms | 300 ms | ≤ 250 ms | **no** | 300 ms |", "| kube-scheduler | 70 ms |  |  | 70 ms |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestGangsAreMeasured measures a few gangs on a real API server, without questions and with them.
func TestGangsAreMeasured(t *testing.T) {
	o := options()
	o.Questions = 6000
	runs, err := Measure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Questions != 0 || runs[1].Questions == 0 || runs[1].Answered == 0 {
		t.Fatalf("%+v", runs)
	}
	for _, run := range runs {
		if len(run.Took) != 4 || run.Took[0] <= 0 {
			t.Errorf("%s: %v", run.name(), run.Took)
		}
	}
}
