package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// checked answers for nodes, too.
type checked struct{ everything }

func (c checked) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.NodeOnly {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(*model.Node) *model.Refusal { return nil }}, nil
}

func (c checked) PreScore(_ *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	if scope != framework.NodeOnly {
		return nil
	}
	return []framework.NodeScore{{Name: "one", Weight: 1, Score: func(*model.Node) int64 { return 1 }}}
}

// placer is an action that places the first task, and asks for victims.
type placer struct{ chosen string }

func (*placer) Name() string { return "placer" }

func (p *placer) Execute(s *Session) {
	job := s.Snapshot.Jobs[0]
	s.ValidateJob(job)
	s.Try(func(statement *Statement) *model.Refusal {
		node := s.askFor(job.Tasks[0], model.Idle).Best(job.Tasks[0], nil)
		p.chosen = node.Name
		return statement.allocate(job.Tasks[0], node)
	})
	s.Victims(job, nil)
}

// play runs a session by a watch on which each look takes a millisecond, and returns how often it was looked at, and what it
// said.
func play(plugins bool) (looks int, said map[string]time.Duration, chosen string) {
	said = map[string]time.Duration{}
	now := time.Unix(0, 0)
	watch := &PluginTimer{
		Now: func() time.Time { looks++; now = now.Add(time.Millisecond); return now },
	}
	if plugins {
		watch.Plugin = func(name, point string, took time.Duration) { said[name+" "+point] += took }
	}
	snapshot := house(4, 4, 4)
	join(snapshot, "a", 1, 1, model.Resources{1})
	snapshot.AssignIndexes()
	action := &placer{}
	profile := profileOf(checked{everything{named: "busy", asked: new([]string)}})
	profile.Actions = []Action{action}
	Run(snapshot, profile, Options{Stopwatch: watch})
	return looks, said, action.chosen
}

func TestStopwatch(t *testing.T) {
	looks, said, unmeasured := play(false)
	if looks != 0 || len(said) != 0 {
		t.Errorf("%d looks at the clock where no plugin is measured: %v", looks, said)
	}
	_, said, measured := play(true)
	if measured != unmeasured {
		t.Errorf("chooses %s when it is measured, else %s", measured, unmeasured)
	}
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(said)) {
		if strings.HasPrefix(what, "busy") {
			lines = append(lines, fmt.Sprintf("%s=%d", what, said[what].Milliseconds()))
		}
	}
	// A call takes one look, and three nodes are looked at; filters and scores are asked for at three scopes and more.
	got := strings.Join(lines, " ")
	for _, want := range []string{"busy closeSession=1", "busy jobGate=", "busy jobValid=1", "busy nodeFilter=", "busy nodeScore=", "busy openSession=1", "busy reserve=1", "busy victims=1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s in it", got, want)
		}
	}
	if said["busy nodeFilter"] < 6*time.Millisecond || said["busy nodeScore"] < 6*time.Millisecond {
		t.Errorf("%s: looks at nodes are not in it", got)
	}
}
