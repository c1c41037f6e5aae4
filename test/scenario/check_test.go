package scenario

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

const checked = `
node n1 cpu=2
node n2 cpu=9 pods=1
group mpi min=2 roles=r:1
pods mpi-{0..2} group=mpi cpu=1
pod mpi-r group=mpi role=r cpu=1
pod big cpu=3
pod other scheduler=default-scheduler cpu=9
`

func gangKey(name string) model.JobKey { return model.JobKey{Namespace: "default", Name: name} }

func decide(job model.JobKey, binds ...string) model.Decision {
	decision := model.Decision{Job: job}
	for _, bind := range binds {
		name, node, _ := strings.Cut(bind, "@")
		pod := model.PodRef{UID: types.UID(name), Namespace: "default", Name: name}
		if name == "ghost" {
			pod.Name = "big" // as it was before it was created again
		}
		decision.Binds = append(decision.Binds, model.Bind{Pod: pod, Node: node})
	}
	return decision
}

// TestPlayerSeesBrokenInvariants gives the player decisions that no scheduler should make.
func TestPlayerSeesBrokenInvariants(t *testing.T) {
	single := model.JobKey{Namespace: "default", Name: "big", Source: model.SourcePod}
	why := &model.Refusal{Code: model.InsufficientResources}
	for want, c := range map[string]struct {
		decisions []model.Decision
		waits     []model.JobKey
	}{
		"":                                       {[]model.Decision{decide(gangKey("mpi"), "mpi-0@n1", "mpi-r@n1")}, []model.JobKey{single, gangKey("mpi")}},
		"I1: default/mpi needs 2":                {[]model.Decision{decide(gangKey("mpi"), "mpi-r@n1")}, []model.JobKey{single, gangKey("mpi")}},
		"1 of role r, and 0 have":                {[]model.Decision{decide(gangKey("mpi"), "mpi-0@n1", "mpi-1@n1")}, []model.JobKey{single, gangKey("mpi")}},
		"has no group":                           {[]model.Decision{decide(gangKey("none"), "mpi-0@n1")}, []model.JobKey{single, gangKey("mpi")}},
		"I3: node n1 has 1000 too little of cpu": {[]model.Decision{decide(single, "big@n1")}, []model.JobKey{gangKey("mpi")}},
		"I3: node n2 has 1 too little of pods":   {[]model.Decision{decide(gangKey("mpi"), "mpi-0@n2", "mpi-r@n2")}, []model.JobKey{single, gangKey("mpi")}},
		"I5: pod default/big":                    {[]model.Decision{decide(single, "big@n2"), decide(single, "big@n2")}, []model.JobKey{gangKey("mpi")}},
		"which is no node":                       {[]model.Decision{decide(single, "big@n7")}, []model.JobKey{gangKey("mpi")}},
		"and is gone":                            {[]model.Decision{decide(single, "ghost@n2")}, []model.JobKey{gangKey("mpi")}},
		"I7: pod default/big waits":              {nil, []model.JobKey{gangKey("mpi")}},
	} {
		t.Run(want, func(t *testing.T) {
			s := newStage()
			if err := s.world.apply(checked); err != nil {
				t.Fatal(err)
			}
			o := &outcome{decisions: c.decisions, refusals: map[model.JobKey]*model.Refusal{}, snapshot: s.state.Snapshot(start)}
			for _, job := range c.waits {
				o.refusals[job] = why
			}
			got := ""
			if err := s.applyDecisions(o); err != nil {
				got = err.Error()
			}
			if want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestParseLines(t *testing.T) {
	lines, err := parseLines("# nothing\n\nnodes n{1..2} cpu=2 unschedulable\nclass high value=1\npod team-b/p labels=a=b,c=d")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range lines {
		text := one.kind + " " + key(one.namespace, one.name)
		for _, w := range one.words {
			text += " " + w.key + ":" + w.value
		}
		got = append(got, text)
	}
	want := "node n1 cpu:2 unschedulable:\nnode n2 cpu:2 unschedulable:\nclass high value:1\npod team-b/p labels:a=b,c=d"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// TestLinesRefused: a story with a misspelt line is not played as something else.
func TestLinesRefused(t *testing.T) {
	for _, text := range []string{
		"pod", "pod p cpus=1", "node n cpu=", "node n taints=gpu", "group g min=x", "group g size=2", "class c worth=2",
		"queue q color=red", "queue q limit=cpu", "pod p affinity=app=x", "pod p spread=app=x@rack", "pod p prefer=ssd", "pod p age=old",
		"pod p ports=http", "pod p labels=",
	} {
		if err := newStage().world.apply(text); err == nil {
			t.Errorf("%q passes", text)
		}
	}
}
