package preempt_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// hourglass is a filter that has time for so many looks at nodes.
type hourglass struct{ left int }

func (*hourglass) Name() string { return "hourglass" }

func (h *hourglass) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(*model.Node) *model.Refusal {
		if h.left--; h.left < 0 {
			return &model.Refusal{Code: model.NodesFiltered, Detail: "no more time", Until: time.Unix(1000, 0)}
		}
		return nil
	}}, nil
}

// TestTimeChoosesNoVictims: a filter whose time is used up in the middle of a search leaves the job waiting, whichever plan was
// found with the time that there was.
func TestTimeChoosesNoVictims(t *testing.T) {
	const enough = 1000
	{
		play := func(looks int) (evicted []string, why *model.Refusal, used int) {
			snapshot := full(2, 1)
			for _, task := range snapshot.Nodes[0].Tasks { // they are worth more than those of the other node
				snapshot.Job(task.Job).Priority, task.Priority = 5, 5
			}
			job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "z"}, Need: model.Need{MinMember: 2}, Priority: 10, Version: 1}
			for i := range 2 {
				device(job, fmt.Sprint("z", i))
			}
			snapshot.Jobs = append(snapshot.Jobs, job)
			h := &hourglass{left: looks}
			tier := engine.Tier{{Factory: priority.New}, {Factory: gang.New}, {Factory: func() framework.Plugin { return h }}}
			why = engine.Run(snapshot, &engine.Profile{
				Actions: []engine.Action{refusing{}, preempt.New(preempt.DefaultOptions())}, Tiers: []engine.Tier{tier},
			}, engine.Options{Decide: func(d model.Decision) {
				for _, eviction := range d.Evictions {
					evicted = append(evicted, eviction.Pod.Name)
				}
			}}).Refusals[job.Key]
			return evicted, why, looks - h.left
		}
		want, _, needs := play(enough)
		if len(want) == 0 || needs < 4 || needs > enough {
			t.Fatalf("with enough time %q in %d looks: this tests nothing", want, needs)
		}
		for looks := range needs {
			if evicted, why, _ := play(looks); len(evicted) > 0 || why.Until.IsZero() {
				t.Errorf("with time for %d of %d looks %q instead of %q: %s, until %s", looks, needs, evicted, want, why, why.Until)
			}
		}
		if evicted, _, _ := play(needs); !slices.Equal(evicted, want) {
			t.Errorf("with just enough time %q instead of %q", evicted, want)
		}
	}
}
