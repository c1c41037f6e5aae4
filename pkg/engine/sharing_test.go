package engine

import (
	"testing"

	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestWhereMembersStandIsWhatARecountGives is invariants T6 and T9: whatever statements do and take back, the domain of the
// members is the one with most of them, the first in order of several, counted again from the tasks.
func TestWhereMembersStandIsWhatARecountGives(t *testing.T) {
	stands := 0
	rapid.Check(t, func(t *rapid.T) {
		snapshot := town(t)
		for _, job := range snapshot.Jobs {
			job.Topology = []model.TopologyConstraint{{Level: config.LevelHost}}
		}
		book := ledger{"ledger", map[string]int{}}
		session := Open(snapshot, profileOf(minimum{"gang"}, book), Options{})
		w := &wanderer{t: t, session: session, ledger: book}
		w.check = func() {
			for _, job := range snapshot.Jobs {
				want, most := "", 0
				for _, node := range snapshot.Nodes { // in the order of their names
					n := job.Count(func(task *model.Task) bool {
						return task.Node == node.Name && task.Status.HasNode() && !task.Deleted()
					})
					if n > most {
						want, most = node.Name, n
					}
				}
				got, at := "", session.Ask(job, model.Idle).SharedDomain(&job.Topology[0], 0)
				if at >= 0 {
					got = session.Domains(config.LevelHost).Path(at)
					stands++
				}
				if got != want {
					t.Fatalf("members of %s stand on %q, want %q:\n%s", job.Key, got, want, dump(snapshot))
				}
			}
		}
		w.check()
		for range rapid.IntRange(1, 4).Draw(t, "statements") {
			w.try(0)
		}
	})
	if stands == 0 {
		t.Error("no member stands anywhere")
	}
}

// TestAMemberHoldsItsDomainUntilItsEvictionIsAccepted, in slices, too: its pod has no time of deletion before.
func TestAMemberHoldsItsDomainUntilItsEvictionIsAccepted(t *testing.T) {
	snapshot := house(4, 4)
	job := join(snapshot, "j", 2, 2, model.Resources{1})
	for i, task := range job.Tasks {
		task.Ranks.Own = model.NumberOf(i)
	}
	snapshot.Move(job.Tasks[0], model.Placement{Status: model.Releasing, Node: "n1"})
	job.Topology = []model.TopologyConstraint{{Level: config.LevelHost}, {Level: config.LevelHost, SliceSize: 2}}
	session := Open(snapshot, profileOf(minimum{"gang"}), Options{})
	for i := range job.Topology {
		if at := session.Ask(job, model.Idle).SharedDomain(&job.Topology[i], 0); at != 1 {
			t.Errorf("slices of %d: the members stand in domain %d, want 1", job.Topology[i].SliceSize, at)
		}
	}
}
