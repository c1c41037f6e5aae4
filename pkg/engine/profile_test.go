package engine

import (
	"slices"
	"strings"
	"testing"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// inquire puts every question to a session once.
func inquire(profile *Profile) {
	snapshot := house(4)
	job := join(snapshot, "a", 1, 1, model.Resources{1})
	session := Open(snapshot, profile, Options{Verify: true})
	snapshot.SetQueues([]*model.Queue{{Name: "q0"}, {Name: "q1"}})
	snapshot.Enqueue(job, "q0")
	other := join(snapshot, "b", 1, 1, model.Resources{1})
	snapshot.Enqueue(other, "q1")
	for range session.InOrder([]*model.Job{job, other}) {
	}
	session.CompareJobs(job, &model.Job{})
	session.CompareTasks(job.Tasks[0], &model.Task{})
	session.ValidateJob(job)
	session.Victims(job, nil)
	session.Try(func(statement *Statement) *model.Refusal {
		node := session.askFor(job.Tasks[0], model.Idle).Best(job.Tasks[0], nil)
		return statement.allocate(job.Tasks[0], node)
	})
	session.Close()
}

func heard(asked []string) []string {
	slices.Sort(asked)
	return slices.Compact(asked)
}

// TestDisabledPointIsNotAsked switches off one point after the other for one of two plugins.
func TestDisabledPointIsNotAsked(t *testing.T) {
	// Requests are translated before a session opens.
	points := slices.DeleteFunc(config.ExtensionPoints(), func(p config.ExtensionPoint) bool { return p == config.Requests })
	for _, off := range append(slices.Clone(points), "") {
		var asked []string
		profile := profileOf(everything{"left", &asked}, everything{"right", &asked})
		if off != "" {
			profile.Tiers[0][0].Disabled = []config.ExtensionPoint{off}
		}
		inquire(profile)
		var want []string
		for _, plugin := range []string{"left", "right"} {
			for _, point := range append(slices.Clone(points), "reserve", "bind", "openSession", "closeSession") {
				if plugin != "left" || point != off {
					want = append(want, plugin+" "+string(point))
				}
			}
		}
		if got := heard(asked); !slices.Equal(got, heard(want)) {
			t.Errorf("without %q: asked %q", off, got)
		}
	}
}

// TestSessionEnds: openers in tier order, closers in reverse.
func TestSessionEnds(t *testing.T) {
	var asked []string
	profile := &Profile{Tiers: []Tier{
		{always(everything{"one", &asked}), always(everything{"two", &asked})}, {always(everything{"three", &asked})},
	}}
	Run(house(), profile, Options{})
	want := []string{
		"one openSession", "two openSession", "three openSession",
		"three closeSession", "two closeSession", "one closeSession",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("got %q", asked)
	}
}

// TestPluginsAreMadeAgain: fields of a plugin are state of one session.
func TestPluginsAreMadeAgain(t *testing.T) {
	made := 0
	profile := &Profile{Tiers: []Tier{{{Factory: func() framework.Plugin { made++; return minimum{"gang"} }}}}}
	Run(house(), profile, Options{})
	Run(house(), profile, Options{})
	if made != 2 {
		t.Errorf("made %d times in two sessions", made)
	}
}

func TestIdle(t *testing.T) {
	var asked []string
	profile := profileOf(named("lazy"), everything{"busy", &asked}, minimum{"gang"})
	profile.Tiers = append(profile.Tiers, Tier{{
		Factory: func() framework.Plugin { return minimum{"silenced"} }, Disabled: []config.ExtensionPoint{config.JobGate},
	}})
	if got, want := profile.unusedPlugins(), []string{"lazy", "silenced"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(asked) != 0 {
		t.Errorf("asked %q", asked)
	}
}

type step string

func (s step) Name() string   { return string(s) }
func (step) Execute(*Session) {}

func TestExplain(t *testing.T) {
	var asked []string
	profile := profileOf(minimum{"gang"}, opinion{"priority", nil})
	profile.Actions = []Action{step("allocate"), step("backfill")}
	profile.Tiers = append(profile.Tiers, Tier{{
		Factory:  func() framework.Plugin { return everything{"all", &asked} },
		Disabled: []config.ExtensionPoint{config.JobOrder, config.Victims},
	}})
	const want = `
actions: allocate, backfill

QUESTION      ASKED, IN ORDER  COMBINED
queueOrder    all              first non-zero, then the last start
jobOrder      priority         first non-zero, then creation time, then UID
taskOrder     all              first non-zero, then creation time, then UID
jobValid      all              first refusal
jobGate       gang, all        all must agree
nodeFilter    all              first refusal
nodeScore     all              sum of weight × score
requests      -                in tier order, once per pod and node
reserve       all              first refusal
assign        -                first answer
bind          all              first that is not empty
victims       -                intersection in the first tier that decides
review        all              all must agree on each plan
reclaim       -                first answer
observe       all              all are called
openSession   all              all, in tier order
closeSession  all              all, in reverse order
`
	if got := profile.Explain(); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
