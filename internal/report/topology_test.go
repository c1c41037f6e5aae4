package report

import (
	"slices"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestWhatMembersNeedAtLeastIsCountedWhenTheyArePlaced, and not again while they stay, nor by a scheduler that has taken over;
// another spec, another domain and another number of members are counted again.
func TestWhatMembersNeedAtLeastIsCountedWhenTheyArePlaced(t *testing.T) {
	d := newDesk()
	key := d.gang("a", "g", 3, model.InsufficientResources)
	job := d.jobs[0]
	job.Topology = []model.TopologyConstraint{{Level: "rack", Roles: []string{"worker"}}, {Level: "lost"}}
	at, counted := Standing{Domains: 2, Names: []string{"b1/r1", "b1/r2"}}, 0
	standing := func(_ *model.Job, shared *model.TopologyConstraint) (Standing, func() int) {
		if shared.Level == "lost" {
			return Standing{}, nil
		}
		return at, func() int { counted++; return counted }
	}
	d.source.Standing = standing
	expect := func(what string, written, least int) {
		t.Helper()
		before := counted
		if got := d.after(time.Minute)["a"].groups; got != written || counted-before != written {
			t.Errorf("%s: %d writes, counted %d times, want %d of both", what, got, counted-before, written)
		}
		shown := d.groups[key].Status.Topology
		if len(shown) != 2 || int(shown[0].Least) != least || int(shown[0].Domains) != at.Domains || !slices.Equal(shown[0].Names, at.Names) ||
			shown[0].Level != "rack" || !slices.Equal(shown[0].Roles, []string{"worker"}) || shown[1].Level != "lost" || shown[1].Domains != 0 {
			t.Errorf("%s: %+v, want %d at least in %+v", what, shown, least, at)
		}
	}
	d.after(0)
	if shown := d.groups[key].Status.Topology; shown != nil || counted != 0 {
		t.Errorf("while it waits: %+v, counted %d times", shown, counted)
	}
	d.start(key)
	expect("placed", 1, 1)
	expect("at rest", 0, 1)
	fresh := newDesk()
	fresh.source.Standing, fresh.groups, fresh.jobs, fresh.now, d = standing, d.groups, d.jobs, d.now, fresh
	expect("another process", 0, 1)
	at = Standing{Domains: 2, Names: []string{"b1/r1", "b1/r3"}}
	expect("another domain", 1, 2)
	d.groups[key].Generation++
	expect("another spec", 1, 3)
	job.Tasks[0].Status = model.Failed
	expect("one has failed", 1, 4)
	at = Standing{}
	for _, task := range job.Tasks {
		task.Status = model.Failed
	}
	d.after(time.Minute)
	if shown := d.groups[key].Status.Topology; len(shown) != 2 || shown[0].Domains != 2 {
		t.Errorf("when it has ended: %+v", shown)
	}
	job.Topology = nil
	job.Tasks[0].Status = model.Bound
	d.after(time.Minute)
	if shown := d.groups[key].Status.Topology; shown != nil {
		t.Errorf("without topology: %+v", shown)
	}
}
