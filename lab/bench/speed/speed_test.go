package speed

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/cluster"
)

func sizes() Options {
	return Options{
		Contenders: stage.Contenders(), Nodes: 10, Pods: 100, GangSize: 50, Rounds: 1, Workers: 1, SlowestStart: 5 * time.Second,
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"":                          func(*Options) {},
		"do not make whole gangs":   func(o *Options) { o.GangSize = 30 },
		"have capacity for":         func(o *Options) { o.Nodes = 2 },
		"must be 1 or more":         func(o *Options) { o.Rounds = 0 },
		"workers must be 1 or more": func(o *Options) { o.Workers = 0 },
		"must be a contender":       func(o *Options) { o.Contenders = nil },
	} {
		o := sizes()
		change(&o)
		err := o.Validate()
		if (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("want %q: %v", name, err)
		}
	}
}

func TestJudge(t *testing.T) {
	o := sizes()
	partial := &audit.Report{Found: map[audit.Check][]string{audit.Partial: {"gang-1"}}}
	for name, c := range map[string]struct {
		run  Run
		want bool
	}{
		"good":                 {Run{Contender: stage.Tutti, Audit: &audit.Report{}, SlowestStart: time.Second}, true},
		"slow":                 {Run{Contender: stage.Tutti, Audit: &audit.Report{}, SlowestStart: 6 * time.Second, Others: 0.05}, false},
		"slow, beside others":  {Run{Contender: stage.Tutti, Audit: &audit.Report{}, SlowestStart: 6 * time.Second, Others: 0.3}, true},
		"partial":              {Run{Contender: stage.Tutti, Audit: partial}, false},
		"partial, beside them": {Run{Contender: stage.Tutti, Audit: partial, Others: 0.3}, false},
		"partial, by another":  {Run{Contender: stage.Kube, Audit: partial}, true},
		"alone":                {Run{Contender: stage.Alone}, true},
	} {
		if err := o.judge(c.run); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// measured is two rounds in which the scheduler took 3 s and 5 s, and the binds 2 s.
func measured() []Round {
	run := func(who stage.SchedulerUnderTest, seconds int) Run {
		r := Run{Contender: who, Writes: map[string]int{"pods/binding": 100, "events": 7}}
		if who.Schedules() {
			r.Audit = &audit.Report{}
		}
		start := time.Unix(100, 0)
		r.times([]time.Time{start.Add(time.Duration(seconds) * time.Second), start.Add(time.Second)}, start)
		return r
	}
	return []Round{
		{run(stage.Alone, 2), run(stage.Floor, 2), run(stage.Tutti, 3), run(stage.Kube, 8), run(stage.KubeGangs, 20)},
		{run(stage.Alone, 2), run(stage.Floor, 2), run(stage.Tutti, 5), run(stage.Kube, 8), run(stage.KubeGangs, 20)},
	}
}

func TestMarkdownShowsEveryRound(t *testing.T) {
	o := sizes()
	text := o.Markdown("1.2.3", measured())
	for _, want := range []string{
		"100 pods in gangs of 50 on 10 nodes",
		"| Tutti | 4.00 s | 25 | 2.00 | 1.50 to 2.50 | ≤ 1.50 | **no** | ≤ 1.25 | **no** | 2.00 | ≤ 1.15 | **no** |",
		"| floor | 2.00 s | 50 | 1.00 | 1.00 to 1.00 | | | | | 1.00 |",
		"| kube-scheduler, gangs | 20.00 s | 5 | 10.00 | 10.00 to 10.00 |",
		"| 1 | binding alone | 2.00 s | 1.00 | 1.00 s | | | | | | | 0 % |",
		"| 1 | Tutti | 3.00 s | 1.50 | 1.00 s | 0.00 s | 0.00 s | 0 MB | 7 | 0 | 0 | 0 % |",
		"| 2 | Tutti | 5.00 s | 2.50 |",
		"speed-10-nodes-100-pods-bars.svg", "speed-10-nodes-100-pods-curves.svg",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestPhasesAreReadFromTheLog(t *testing.T) {
	start := time.Date(2026, 3, 4, 10, 0, 0, 0, time.Local)
	log := `I0304 10:00:00.200000   17 run.go:45] "Starting" version="x"
I0304 10:00:00.300000   17 server.go:1] "Starting metrics server" logger="m"
W0304 10:00:00.350000   17 x.go:1] "Cycle" is not an information
I0304 10:00:00.700000   17 run.go:9] "Informers are synced"
I0304 10:00:00.900000   17 scheduler.go:5] "Cycle" took="80ms"
I0304 10:00:01.900000   17 scheduler.go:5] "Cycle" took="80ms"
`
	run := Run{Contender: stage.Tutti, FirstBind: time.Second, LastBind: 3 * time.Second, Phases: phases(log, start, time.Second)}
	if early := phases(log, start, 800*time.Millisecond); early[3].Took != 100*time.Millisecond || early[4].Took != 0 {
		t.Errorf("a first bind before the end of the first cycle: %v", early)
	}
	o := sizes()
	text := o.StartMarkdown("1.2.3", []Round{{run, {Contender: stage.Floor, FirstBind: time.Second / 2, LastBind: 2 * time.Second}}})
	for _, want := range []string{
		"initialization of packages | 0.20 s |", "plugins | 0.10 s |", "lists of all kinds | 0.40 s |", "first cycle | 0.20 s |",
		"watch | 0.10 s |", "to the first bind** | 1.00 s |", "its first bind | 0.50 s |", "times the floor's | 1.50 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestPicturesAreThoseThatTheTextShows(t *testing.T) {
	o := sizes()
	text, pictures := o.Markdown("1.2.3", measured()), o.Pictures(measured())
	if len(pictures) != 2 {
		t.Errorf("%d pictures", len(pictures))
	}
	for name, svg := range pictures {
		if !strings.Contains(text, "("+name+")") {
			t.Errorf("%s is not shown", name)
		}
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestCurvesAreThinnedAndKeepTheirEnd(t *testing.T) {
	binds := make([]time.Duration, 5000)
	for i := range binds {
		binds[i] = time.Duration(i+1) * time.Millisecond
	}
	all := points(binds)
	if last := all[len(all)-1]; len(all) > 202 || last.X != 5 || last.Y != 5000 {
		t.Errorf("%d points, the last at %+v", len(all), last)
	}
}

// TestContendersAreMeasured lets all of them bind a few gangs on real API servers.
func TestContendersAreMeasured(t *testing.T) {
	o := sizes()
	o.Pods, o.Workers, o.Timeout, o.Out = 100, 8, cluster.Patience, io.Discard
	o.SlowestStart = o.Timeout // a measurement judges it, on a machine that is free
	rounds, err := Measure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range rounds[0] {
		if len(run.Binds) != o.Pods || run.LastBind <= 0 || run.FirstBind > run.LastBind {
			t.Errorf("%s: %d binds, from %s to %s", run.Contender, len(run.Binds), run.FirstBind, run.LastBind)
		}
		if run.Contender.Schedules() && (run.Writes["pods/binding"] != o.Pods || len(run.Audit.Found[audit.Partial]) > 0) {
			t.Errorf("%s: writes %v, partial gangs %v", run.Contender, run.Writes, run.Audit.Found[audit.Partial])
		}
	}
}
