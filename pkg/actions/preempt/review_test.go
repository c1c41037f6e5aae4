package preempt_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// judge is a reviewer that objects to evictions on some nodes.
type judge struct {
	forbidden map[string]bool
	// asked are the jobs it was asked about, wrong what should not have been asked.
	asked []string
	wrong string
}

func (*judge) Name() string { return "judge" }

func (j *judge) ProcessPreemption(preemptor *model.Job, proposals []framework.NodeVictims) (objections []framework.VictimRejection, _ *model.Refusal) {
	j.asked = append(j.asked, preemptor.Key.Name)
	for _, p := range proposals {
		there := func(task *model.Task) bool { return task.Node == p.Node.Name }
		if len(p.Victims) == 0 || len(p.Members) == 0 || slices.ContainsFunc(p.Victims, func(task *model.Task) bool {
			return !there(task) || task.Status != model.Releasing
		}) || slices.ContainsFunc(p.Members, func(task *model.Task) bool {
			return !there(task) || task.Status != model.Pipelined || task.Job != preemptor.Key
		}) {
			j.wrong = fmt.Sprintf("%+v", p)
		}
		if j.forbidden[p.Node.Name] {
			objections = append(objections, framework.VictimRejection{Node: p.Node, By: "the judge"})
		}
	}
	return objections, nil
}

// drawForbidden draws nodes that no pod may be evicted from.
func drawForbidden(t *rapid.T, p *problem) map[string]bool {
	forbidden := map[string]bool{}
	for _, node := range p.snapshot.Nodes {
		forbidden[node.Name] = rapid.IntRange(0, 4).Draw(t, "rule") == 0
	}
	return forbidden
}

// reviewed is what a cycle did for the gang.
type reviewed struct {
	outcome
	// nodes are where its members were promised capacity.
	nodes map[string]bool
}

func playReviewed(p *problem, action engine.Action, j *judge) reviewed {
	profile := profileOf(action)
	profile.Tiers = append(profile.Tiers, engine.Tier{{Factory: func() framework.Plugin { return j }}})
	o := reviewed{outcome: outcome{victims: map[types.UID]bool{}}, nodes: map[string]bool{}}
	result := engine.Run(p.snapshot, profile, engine.Options{Verify: true, Decide: func(d model.Decision) {
		o.binds += len(d.Binds)
		for _, nomination := range d.Nominations {
			o.nominations++
			o.nodes[nomination.Node] = true
		}
		for _, eviction := range d.Evictions {
			o.victims[eviction.Pod.UID] = true
		}
	}})
	o.why = result.Refusals[p.gang.Key]
	return o
}

// hold sees that what was decided is a plan like any other, and one that the judge agrees to. It returns whether none was found
// although there is one that leaves the forbidden nodes alone.
func (o *reviewed) hold(t *rapid.T, p *problem, j *judge) (missed bool) {
	if j.wrong != "" {
		t.Fatalf("it was asked about %s", j.wrong)
	}
	if o.binds > 0 {
		return false
	}
	if len(o.victims) == 0 {
		if len(j.asked) > 0 && o.nominations == 0 && o.why.Until.IsZero() {
			t.Fatalf("the judge is not asked again: %s", o.why)
		}
		return len(j.asked) > 0 && p.plannable(j)
	}
	costs, allowed := p.billOf(o.victims)
	if !allowed || costs.violations > 0 || !p.starts(o.victims) || o.nominations < int(p.gang.MinMember) {
		t.Fatalf("%v is no plan: %+v, allowed %t, %d nominations", o.victims, costs, allowed, o.nominations)
	}
	for _, node := range p.snapshot.Nodes {
		for _, task := range node.Tasks {
			if o.victims[task.UID] && o.nodes[node.Name] && j.forbidden[node.Name] {
				t.Fatalf("%s leaves %s, where the judge forbids it", task.Name, node.Name)
			}
		}
	}
	return false
}

// plannable reports whether there is a plan that evicts no pod from a forbidden node.
func (p *problem) plannable(j *judge) bool {
	found := false
	p.sets(func(set map[types.UID]bool, costs bill) {
		if found || costs.violations > 0 || costs.pods == 0 {
			return
		}
		for _, job := range p.others {
			for _, task := range job.Tasks {
				if j.forbidden[task.Node] && set[task.UID] {
					return
				}
			}
		}
		found = p.starts(set)
	})
	return found
}

// TestReviewedPlans on small clusters: nearly always a plan is found that leaves the forbidden nodes alone, if there is one.
func TestReviewedPlans(t *testing.T) {
	dropped, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, taste{nodes: 6, pods: 12, members: 4, budgets: true, mixed: true})
		j := &judge{forbidden: drawForbidden(t, p)}
		o := playReviewed(p, preempt.New(preempt.DefaultOptions()), j)
		if o.hold(t, p, j) {
			missed++
		}
		if len(j.asked) > 1 && len(o.victims) > 0 {
			dropped++
		}
	})
	t.Logf("%d plans after objections, %d missed", dropped, missed)
	if dropped == 0 || 20*missed > dropped+20 {
		t.Error("it tests nothing, or more than one plan in twenty is missed")
	}
}

// TestReviewersAreNotAskedForEver: about so many plans for one job, and about so many in a cycle. Who had no turn is first in
// the next one, and the answers of this one are forgotten.
func TestReviewersAreNotAskedForEver(t *testing.T) {
	snapshot := full(60, 1)
	j := &judge{forbidden: map[string]bool{}}
	for _, node := range snapshot.Nodes {
		j.forbidden[node.Name] = true
	}
	for i := range 6 {
		job := &model.Job{Key: model.JobKey{Namespace: "default", Name: fmt.Sprint("z", i)}, Need: model.Need{MinMember: 1}, Priority: 10, Version: 1}
		device(job, job.Key.Name)
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	profile := &engine.Profile{
		Actions: []engine.Action{refusing{}, preempt.New(preempt.DefaultOptions())},
		Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}, {Factory: func() framework.Plugin { return j }}}},
	}
	count := func() map[string]int {
		counts := map[string]int{}
		for _, name := range j.asked {
			counts[name]++
		}
		j.asked = nil
		return counts
	}
	result := engine.Run(snapshot, profile, engine.Options{})
	if got, want := count(), (map[string]int{"z0": 32, "z1": 32, "z2": 32, "z3": 32}); !maps.Equal(got, want) {
		t.Errorf("it was asked %v, want %v", got, want)
	}
	for name, want := range map[string]string{
		"z0": "preemption: none of 32 plans was accepted by the extenders", "z5": "preemption: 128 plans were asked about, continues in the next cycle",
	} {
		refusal := result.Refusals[model.JobKey{Namespace: "default", Name: name}]
		if refusal.Note != want || !refusal.Until.Equal(snapshot.Now) {
			t.Errorf("%s: %s, until %s; want %s", name, refusal.Note, refusal.Until, want)
		}
	}
	if !result.Until.After(snapshot.Now) {
		t.Error("no cycle is due for a job without a turn")
	}
	engine.Run(snapshot, profile, engine.Options{})
	if got, want := count(), (map[string]int{"z4": 32, "z5": 32, "z0": 32, "z1": 32}); !maps.Equal(got, want) {
		t.Errorf("in the next cycle it was asked %v, want %v", got, want)
	}
	clear(j.forbidden)
	evicted := 0
	engine.Run(snapshot, profile, engine.Options{Decide: func(d model.Decision) { evicted += len(d.Evictions) }})
	if evicted != 6 {
		t.Errorf("%d pods are evicted once it agrees, want 6", evicted)
	}
}

// moody is a filter that keeps all pods off some nodes, for the time being.
type moody map[string]bool

func (moody) Name() string { return "moody" }

func (m moody) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(node *model.Node) *model.Refusal {
		if m[node.Name] {
			return &model.Refusal{Code: model.NodesFiltered, Detail: "moody", Until: time.Unix(1005, 0)}
		}
		return nil
	}}, nil
}

// TestWhomOthersOutsideKeepWaitingIsAskedAgain, since nothing in the cluster tells when they change their minds.
func TestWhomOthersOutsideKeepWaitingIsAskedAgain(t *testing.T) {
	for _, moods := range []moody{{}, {"n00000": true}} {
		snapshot := full(1, 1)
		first := snapshot.Nodes[0].Tasks[0]
		snapshot.Job(first.Job).Priority, first.Priority = 20, 20 // of eight seven may go, and eight are needed
		job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "z"}, Need: model.Need{MinMember: 8}, Priority: 10, Version: 1}
		for i := range 8 {
			device(job, fmt.Sprint("z", i))
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
		tier := engine.Tier{{Factory: priority.New}, {Factory: gang.New}}
		if len(moods) > 0 {
			tier = append(tier, engine.TierPlugin{Factory: func() framework.Plugin { return moods }})
		}
		result := engine.Run(snapshot, &engine.Profile{
			Actions: []engine.Action{refusing{}, preempt.New(preempt.DefaultOptions())}, Tiers: []engine.Tier{tier},
		}, engine.Options{})
		if result.Until.IsZero() != (len(moods) == 0) {
			t.Errorf("with %d nodes barred from outside until %s: %s", len(moods), result.Until, result.Refusals[job.Key])
		}
	}
}
