package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// ruthless evicts, for each job that waits, the first unit it may have, and notes who of them was asked about.
type ruthless struct{ asked *[]string }

func (ruthless) Name() string { return "ruthless" }

func (r ruthless) Execute(s *Session) {
	for _, job := range slices.SortedFunc(slices.Values(s.Snapshot.Jobs), s.CompareJobs) {
		if job.Count(func(task *model.Task) bool { return task.Status == model.Pending }) == 0 || s.ValidateJob(job) != nil {
			continue
		}
		var units []framework.EvictionUnit
		for _, other := range s.Snapshot.Jobs {
			if other.Count(func(task *model.Task) bool { return task.Status == model.Running }) > 0 {
				units = append(units, framework.EvictionUnit{Job: other, Tasks: other.Tasks, WholeGang: true})
			}
		}
		for _, unit := range s.Victims(job, units) {
			*r.asked = append(*r.asked, job.Key.Name+" "+unit.Job.Key.Name)
			s.Refuse(job, s.Try(func(statement *Statement) *model.Refusal {
				for _, task := range unit.Tasks {
					if refusal := statement.Evict(task); refusal != nil {
						return refusal
					}
				}
				return no("tried")
			}))
		}
	}
}

// hoarder keeps something beyond sessions.
type hoarder struct {
	named
	forgot *int
}

func (hoarder) OnAllocate(*model.Task) {}

// OnEvict does nothing.
func (hoarder) OnEvict(*model.Task) {}

// OnDeallocate does nothing.
func (hoarder) OnDeallocate(*model.Task, model.Placement) {}

// ResetCache counts.
func (h hoarder) ResetCache() { *h.forgot++ }

// TestAPoisonedVictimCostsNoPreemptor: a plugin that panics over a victim does so over the victim's job, which no plugin is
// asked about any more. The jobs that need capacity have other victims to look at.
func TestAPoisonedVictimCostsNoPreemptor(t *testing.T) {
	for _, at := range []string{"unit", "evicted", "undone"} {
		t.Run(at, func(t *testing.T) {
			snapshot := house(1, 1, 1)
			for i, name := range []string{"v0", "v1", "v2"} {
				job := join(snapshot, name, 1, 1, model.Resources{1})
				snapshot.Move(job.Tasks[0], model.Placement{Status: model.Running, Node: fmt.Sprint("n", i)})
			}
			for _, name := range []string{"w0", "w1"} {
				job := join(snapshot, name, 1, 1, model.Resources{1})
				job.Priority, job.Tasks[0].Priority = 10, 10
			}
			var asked []string
			var caught []RecoveredPanic
			forgot := 0
			b := bomb{named: "bomb", job: "v1", at: at, left: new(int)}
			profile := &Profile{Actions: []Action{ruthless{&asked}}, Tiers: []Tier{{always(b), always(hoarder{"hoarder", &forgot})}}}
			refusals := runAgain(snapshot, profile, Options{Verify: true, OnPanic: func(c RecoveredPanic) { caught = append(caught, c) }})
			if len(caught) != 1 || caught[0].Job == nil || caught[0].Job.Key.Name != "v1" {
				t.Fatalf("caught %+v", caught)
			}
			for _, name := range []string{"w0", "w1"} {
				if refusal := refusals[model.JobKey{Namespace: "default", Name: name}]; refusal == nil || refusal.Code == model.Quarantined {
					t.Errorf("%s is refused: %v", name, refusal)
				}
				if !slices.Contains(asked, name+" v0") || !slices.Contains(asked, name+" v2") {
					t.Errorf("%s has not had its turn: %v", name, asked)
				}
			}
			if last := asked[len(asked)-1]; last != "w1 v2" || slices.Contains(asked[len(asked)-4:], "w1 v1") {
				t.Errorf("the victim is asked about again: %v", asked)
			}
			if forgot != 1 {
				t.Errorf("forgotten %d times", forgot)
			}
		})
	}
}

// TestAPoisonedPreemptorCostsNoVictim: a picker that panics over the preemptor does so with each of the victims, too.
func TestAPoisonedPreemptorCostsNoVictim(t *testing.T) {
	snapshot := house(1)
	victim := join(snapshot, "v", 1, 1, model.Resources{1})
	snapshot.Move(victim.Tasks[0], model.Placement{Status: model.Running, Node: "n0"})
	join(snapshot, "w", 1, 1, model.Resources{1}).Priority = 10
	var caught []RecoveredPanic
	b := bomb{named: "bomb", job: "w", at: "victims", left: new(int)}
	profile := &Profile{Actions: []Action{ruthless{new([]string)}}, Tiers: []Tier{{always(b)}}}
	runAgain(snapshot, profile, Options{Verify: true, OnPanic: func(c RecoveredPanic) { caught = append(caught, c) }})
	if len(caught) != 1 || caught[0].Job == nil || caught[0].Job.Key.Name != "w" {
		t.Errorf("caught %+v", caught)
	}
}

// clumsy panics in the turn of a job, also of a job that the session holds back.
type clumsy struct{}

func (clumsy) Name() string { return "clumsy" }

func (clumsy) Execute(s *Session) {
	for job := range s.InOrder(s.Snapshot.Jobs) {
		s.ValidateJob(job)
		_ = s.Snapshot.Nodes[len(s.Snapshot.Nodes)]
	}
}

// TestAPanicOverAJobThatIsHeldBack is about no single job: to hold it back again would change nothing, and cycles would follow
// each other without end.
func TestAPanicOverAJobThatIsHeldBack(t *testing.T) {
	var over []*model.Job
	runAgain(street(1), &Profile{Actions: []Action{clumsy{}}}, Options{OnPanic: func(c RecoveredPanic) {
		if over = append(over, c.Job); len(over) > 9 {
			t.Fatalf("panics over %v", over)
		}
	}})
	if len(over) != 2 || over[0] == nil || over[1] != nil {
		t.Errorf("panics over %v, want one over the job and one over none", over)
	}
}

// guide gives each job a turn, in which it asks about another one.
type guide struct {
	asks func(s *Session, job *model.Job)
}

func (guide) Name() string { return "guide" }

func (g guide) Execute(s *Session) {
	for job := range s.InOrder(s.Snapshot.Jobs) {
		g.asks(s, job)
	}
}

// TestAPanicInATurn costs the job of the turn, unless a plugin was asked about another one.
func TestAPanicInATurn(t *testing.T) {
	evict := func(s *Session, job *model.Job) {
		s.Try(func(statement *Statement) *model.Refusal {
			statement.Evict(s.Snapshot.Jobs[1].Tasks[0])
			return no("tried")
		})
	}
	for _, c := range []struct {
		at   string
		asks func(s *Session, job *model.Job)
		want string
	}{
		{"jobValid", func(s *Session, _ *model.Job) { s.ValidateJob(s.Snapshot.Jobs[1]) }, "j1"},
		{"jobGate", func(s *Session, _ *model.Job) { s.JobReady(s.Snapshot.Jobs[1], framework.Ready) }, "j1"},
		{"filter0", func(s *Session, _ *model.Job) { s.EligibleNodes(s.Snapshot.Jobs[1].Tasks[0]) }, "j1"},
		{"evicted", evict, "j1"},
		{"undone", evict, "j1"},
		{"jobOrder", func(s *Session, job *model.Job) { s.CompareJobs(job, s.Snapshot.Jobs[1]) }, "j1"},
		{"", func(s *Session, job *model.Job) {
			s.JobReady(s.Snapshot.Jobs[1], framework.Ready)
			_ = job.Tasks[len(job.Tasks)]
		}, "j0"},
	} {
		t.Run(c.at, func(t *testing.T) {
			snapshot := street(2)
			snapshot.Move(snapshot.Jobs[1].Tasks[0], model.Placement{Status: model.Running, Node: "n0"})
			var caught []RecoveredPanic
			b := bomb{named: "bomb", job: "j1", at: c.at, left: new(int)}
			Run(snapshot, &Profile{Actions: []Action{guide{c.asks}}, Tiers: []Tier{{always(b)}}}, Options{
				Verify: true, OnPanic: func(p RecoveredPanic) { caught = append(caught, p) },
			})
			if len(caught) != 1 || caught[0].Job == nil || caught[0].Job.Key.Name != c.want {
				t.Errorf("caught %+v, want one over %s", caught, c.want)
			}
		})
	}
}
