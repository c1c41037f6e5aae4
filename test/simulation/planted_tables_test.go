package simulation

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// plantedTableBugs are bugs about what is kept of how many pods fit, each with the invariant that it breaks.
func plantedTableBugs() []planted {
	return []planted{
		{"binds are not recorded for tables", "T6", Config{Sabotage: losesChanges()}},
		{"tables are counted with what nodes held before", "T6", Config{Sabotage: plug(func(p *process) framework.Plugin { return &stale{} })}},
		{"what is undone is not recorded for tables", "T9", Config{Sabotage: plug(func(p *process) framework.Plugin { return &losesUndo{p: p} })}},
	}
}

func TestPlantedBugsAboutTablesAreCaught(t *testing.T) {
	catchPlanted(t, plantedTableBugs, func(c *Config) { c.Topology = true })
}

func plug(plugin func(*process) framework.Plugin) FaultInjection {
	return FaultInjection{Plugin: plugin}
}

// losesChanges takes all changes of a cycle out of the journal when something is decided.
func losesChanges() FaultInjection {
	before := map[*process]model.ChangeLog{}
	return FaultInjection{
		Rogue: func(p *process) { before[p] = p.snapshot.Journal },
		Decided: func(p *process, d model.Decision) {
			if len(d.Binds) > 0 {
				p.snapshot.Journal = before[p]
			}
		},
	}
}

// bystander is a plugin that follows statements and does nothing.
type bystander struct{}

func (bystander) Name() string                              { return "bystander" }
func (bystander) OnAllocate(*model.Task)                    {}
func (bystander) OnEvict(*model.Task)                       {}
func (bystander) OnDeallocate(*model.Task, model.Placement) {}

// stale keeps in the tables of pods that wait how many fit on each node when the session began.
type stale struct {
	bystander
	kept, began [][]int32
}

func (s *stale) OpenSession(view framework.View) {
	session := engine.SessionOf(view)
	for _, job := range session.Snapshot.Jobs {
		for _, task := range job.Tasks {
			if task.Status == model.Pending && task.Invalid == nil {
				each := session.Ask(session.Snapshot.Job(task.Job), model.Idle).Counts(task).Each()
				s.kept, s.began = append(s.kept, each), append(s.began, append([]int32(nil), each...))
			}
		}
	}
}

func (s *stale) CloseSession(framework.View) {
	for i, each := range s.kept {
		copy(each, s.began[i])
	}
}

// losesUndo takes what is undone out of the journal.
type losesUndo struct {
	bystander
	p     *process
	after model.ChangeLog
}

func (f *losesUndo) OnAllocate(*model.Task) { f.after = f.p.snapshot.Journal }

func (f *losesUndo) OnDeallocate(*model.Task, model.Placement) { f.p.snapshot.Journal = f.after }

// fickle prefers nodes by chance.
type fickle struct {
	bystander
	chance *rand.Rand
}

func (f fickle) PreScore(_ *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	if scope != framework.ClusterWide {
		return nil
	}
	return []framework.NodeScore{{Name: "chance", Weight: 1, Score: func(*model.Node) int64 { return f.chance.Int64N(100) }}}
}

// TestAnOrderThatChangesIsSeen is T3: a choice among nodes that differs from time to time shows in the trace.
func TestAnOrderThatChangesIsSeen(t *testing.T) {
	filters := open(t)
	var traces [2]strings.Builder
	chance := rand.New(rand.NewPCG(1, 1)) // which goes on in the second run
	for i := range traces {
		run(t, filters, Config{
			Seed: 104, Topology: true, Trace: &traces[i],
			Sabotage: plug(func(*process) framework.Plugin { return fickle{chance: chance} }),
		})
	}
	if traces[0].String() == traces[1].String() {
		t.Error("the same seed leads to the same trace, whatever the order of nodes")
	}
}
