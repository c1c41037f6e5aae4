package speed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/lab/audit"
)

func sizes() Options {
	return Options{Nodes: 10, Pods: 100, GangSize: 50, Rounds: 1, Workers: 1, SlowestStart: 5 * time.Second}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"":                          func(*Options) {},
		"do not make whole gangs":   func(o *Options) { o.GangSize = 30 },
		"have room for":             func(o *Options) { o.Nodes = 2 },
		"must be 1 or more":         func(o *Options) { o.Rounds = 0 },
		"workers must be 1 or more": func(o *Options) { o.Workers = 0 },
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
		round Round
		want  bool
	}{
		"good":    {Round{Audit: &audit.Report{}, SlowestStart: time.Second}, true},
		"slow":    {Round{Audit: &audit.Report{}, SlowestStart: 6 * time.Second}, false},
		"partial": {Round{Audit: partial}, false},
	} {
		if err := o.judge(c.round); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGangsAreWhole(t *testing.T) {
	groups, pods := gangs(3, 50)
	if len(groups) != 3 || len(pods) != 150 || groups[0].Spec.MinMember != 50 {
		t.Errorf("%d groups of %d, %d pods", len(groups), groups[0].Spec.MinMember, len(pods))
	}
}

func TestMarkdownShowsEveryRound(t *testing.T) {
	o := sizes()
	text := o.Markdown("1.2.3", []Round{
		{Alone: 2 * time.Second, LastBind: 3 * time.Second, Audit: &audit.Report{}, Writes: map[string]int{"pods/binding": 100, "events": 7}},
		{Alone: 2 * time.Second, LastBind: 5 * time.Second, Audit: &audit.Report{}},
	})
	for _, want := range []string{"100 pods in gangs of 50 on 10 nodes", "| 1 | 2.00 s | 3.00 s | 1.50 |", "| 7 |", "| 2 | 2.00 s | 5.00 s | 2.50 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestProcessorTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "17", "stat")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	line := "17 (a ) name) S 5 17 17 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 100 1 1\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readProcess(file)
	if want := (process{id: 17, parent: 5, used: 3 * time.Second}); err != nil || p != want {
		t.Errorf("%+v, %v; want %+v", p, err, want)
	}
	from, err := used()
	if err != nil {
		t.Fatal(err)
	}
	to := from
	to.at, to.all, to.ours = from.at.Add(time.Second), from.all+time.Second, from.ours+time.Second
	if share := others(from, to); share != 0 {
		t.Errorf("others used %f while all of it was ours", share)
	}
	to.ours = from.ours
	if share := others(from, to); share <= 0 {
		t.Errorf("others used %f while nothing was ours", share)
	}
}
