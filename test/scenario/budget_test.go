package scenario

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// thrifty is a configuration with so little budget for victims that searches are cut short, and jobs have no turn; in some of
// them jobs are not looked at by their priority.
func (f *fight) thrifty() []byte {
	text := fmt.Appendf(nil, "%s\nconfigurations: [{name: preempt, arguments: {budget: %d}}]\n", config.DefaultYAML(), f.n(1, 40))
	if f.n(0, 3) == 0 {
		text = bytes.Replace(text, []byte("  - name: priority\n"), nil, 1)
	}
	return text
}

// goOn plays a cycle, and no other one on the same snapshot: searches that were cut short go on where they stopped.
func (s *environment) goOn(t rapid.TB) *outcome {
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	o := s.session(engine.Options{Verify: true, Cache: &s.cache})
	s.cycles++
	s.refusals = o.refusals
	if err := s.applyDecisions(o); err != nil {
		t.Fatal(err)
	}
	return o
}

// cut reports whether the search for victims for a job of this outcome is to go on, or to begin, in the next cycle.
func (o *outcome) cut() bool {
	for _, refusal := range o.refusals {
		if strings.Contains(refusal.String(), "in the next cycle") {
			return true
		}
	}
	return false
}

// holdPatience: a job for which pods were evicted does not lose the capacity because the budget came to its end. It loses it
// only to an equal for which pods were evicted, too, or to a job above it.
func (s *environment) holdPatience(t rapid.TB, o *outcome) {
	for _, d := range o.decisions {
		refusal := o.refusals[d.Job]
		if len(d.Binds) > 0 || refusal == nil || !strings.Contains(refusal.String(), "in the next cycle") {
			continue
		}
		equals := s.world.podNames(func(pod *corev1.Pod) bool {
			job := s.jobOf(pod)
			return pod.Status.NominatedNodeName != "" && job != d.Job && s.priorityOfJob(job) == s.priorityOfJob(d.Job)
		})
		for _, nomination := range d.Nominations {
			above := takenAbove(o.snapshot, d.Job, s.world.pods[key(nomination.Pod.Namespace, nomination.Pod.Name)].Status.NominatedNodeName)
			if nomination.Node == "" && len(equals) == 0 && !above && !decided(o, d.Job) {
				t.Fatalf("%s gives its capacity back, and is still to be looked for:\n%s", d.Job, o)
			}
		}
	}
}

// takenAbove reports whether a member of a job of higher priority has a place on the node since this cycle.
func takenAbove(snapshot *model.Snapshot, job model.JobKey, node string) bool {
	return slices.ContainsFunc(snapshot.Jobs, func(other *model.Job) bool {
		return other.Priority > snapshot.Job(job).Priority && slices.ContainsFunc(other.Tasks, func(task *model.Task) bool {
			return task.Node == node && (task.Status == model.Pipelined || task.Status == model.Allocated)
		})
	})
}

// TestPreemptionOnALittleBudget keeps invariants I9 to I15 where searches are cut short and jobs have no turn, and comes to
// an end all the same.
func TestPreemptionOnALittleBudget(t *testing.T) {
	newStage := openLister(t)
	evicted, cut := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		f := &fight{random: &random{t: t}, stage: newStage(), budgets: rapid.Bool().Draw(t, "budgets")}
		f.stage.configuration = f.thrifty()
		if err := f.stage.world.apply(f.cluster()); err != nil {
			t.Fatal(err)
		}
		for range f.n(3, 9) {
			before := f.stage.sight()
			before.turns = true
			o := f.stage.goOn(t)
			evicted += before.follow(t, o)
			f.stage.holdPatience(t, o)
			if o.cut() {
				cut++
			}
			if err := f.stage.confirm(); err != nil {
				t.Fatal(err)
			}
			if f.n(0, 1) == 0 {
				if err := f.happen(); err != nil {
					t.Fatal(err)
				}
			}
		}
		const long = 400
		for i := 0; ; i++ { // at last all pods go that have to, and every search comes to its end
			o := f.stage.goOn(t)
			if err := f.stage.confirm(); err != nil {
				t.Fatal(err)
			}
			if len(o.decisions) == 0 && !o.cut() {
				break
			}
			if i > long {
				t.Fatalf("still busy after %d cycles:\n%s", long, o)
			}
			if err := f.stage.applyEvents("leave", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("%d pods were evicted, %d cycles were cut short", evicted, cut)
	if evicted == 0 || cut == 0 {
		t.Error("this tests nothing")
	}
}

// TestAJobAboveTakesTheNodeOfAJobWithoutATurn: g003 is above g001 and moves to the node that is nominated to g001, which has no
// turn in this cycle and loses that nomination all the same. Seed 11632690699651477618 of TestEqualsGiveWay draws it.
func TestAJobAboveTakesTheNodeOfAJobWithoutATurn(t *testing.T) {
	s := openLister(t)()
	s.configuration = fmt.Appendf(nil, "%s\nconfigurations: [{name: preempt, arguments: {budget: 1}}]\n", config.DefaultYAML())
	if err := s.world.apply(`
		node n0 cpu=1 labels=rack=a
		node n1 cpu=1 labels=rack=a
		node n2 cpu=1 labels=rack=a
		node n3 cpu=1 labels=rack=a
		node n4 cpu=1 labels=rack=b
		pod low0 cpu=1 node=n0 phase=Running
		pod low1 cpu=1 node=n1 phase=Running
		pod leaving2 cpu=1 node=n2 phase=Running
		pod leaving3 cpu=1 node=n3 phase=Running
		group g001 min=1
		pod g001-0 group=g001 cpu=1 priority=4 selector=rack=a
		pod g001-1 group=g001 cpu=1 priority=4 selector=rack=b nominated=n2
		group g002 min=1
		pod g002-0 group=g002 cpu=1 priority=4 selector=rack=a
		group g003 min=2
		pod g003-0 group=g003 cpu=1 priority=5 selector=rack=a nominated=n3
		pod g003-1 group=g003 cpu=1 priority=5 selector=rack=a nominated=n4
		group g004 min=1
		pod g004-0 group=g004 cpu=1 priority=5 selector=rack=b`); err != nil {
		t.Fatal(err)
	}
	if err := s.applyEvents("terminate", []string{"leaving2", "leaving3"}, map[string]string{"grace": "60s"}); err != nil {
		t.Fatal(err)
	}
	o := s.goOn(t)
	s.holdPatience(t, o)
	cleared := func(d model.Decision) bool {
		return slices.ContainsFunc(d.Nominations, func(n model.Nomination) bool { return n.Pod.Name == "g001-1" && n.Node == "" })
	}
	if !o.cut() || !slices.ContainsFunc(o.decisions, cleared) {
		t.Errorf("g001 keeps a node that is nominated to g003, or has a turn:\n%s", o)
	}
}

// TestManyEqualsGiveWay: jobs of one priority, each of which has nominations for half of what it needs, and one pod that could
// be evicted. It is not: half of the jobs release enough capacity for the other half.
func TestManyEqualsGiveWay(t *testing.T) {
	for _, equals := range []int{2, 16, 18, 20, 40} {
		s := newStage()
		lines := []string{"node low cpu=1", "pod low cpu=1 node=low phase=Running"}
		for i := range equals {
			lines = append(lines, fmt.Sprintf("node n%02d cpu=1\ngroup g%02d min=2\npod g%02d-0 group=g%02d cpu=1 priority=10 nominated=n%02d\n"+
				"pod g%02d-1 group=g%02d cpu=1 priority=10", i, i, i, i, i, i, i))
		}
		if err := s.world.apply(strings.Join(lines, "\n")); err != nil {
			t.Fatal(err)
		}
		started := 0
		for range equals {
			o := s.goOn(t)
			if err := s.confirm(); err != nil {
				t.Fatal(err)
			}
			for _, d := range o.decisions {
				if len(d.Evictions) > 0 {
					t.Fatalf("others are evicted for one of %d:\n%s", equals, o)
				}
				started += len(d.Binds) / 2
			}
		}
		if started != equals/2 {
			t.Errorf("%d of %d have started", started, equals)
		}
		s.end()
	}
}

// TestADraftIsOfNoUseOnceOthersWereEvicted: two searches are cut short, and one of them finds a plan when it goes on. The
// other one begins again, or it would pass over victims that are enough by now.
func TestADraftIsOfNoUseOnceOthersWereEvicted(t *testing.T) {
	for budget := 1; budget <= 20; budget++ {
		s := newStage()
		s.configuration = fmt.Appendf(nil, "%s\nconfigurations: [{name: preempt, arguments: {budget: %d}}]\n", config.DefaultYAML(), budget)
		if err := s.world.apply(`
			node n0 cpu=2 memory=3Gi
			node n1 cpu=1 memory=2Gi
			pod low-0 memory=1Gi node=n0 phase=Running
			pod low-1 memory=0Gi node=n1 phase=Running
			pod low-2 memory=1Gi node=n1 phase=Running
			pod stays memory=2Gi node=n0 phase=Running priority=1
			pod first memory=2Gi priority=1 age=2s
			pod second memory=1Gi cpu=2 priority=1 age=1s`); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			before := s.sight()
			before.follow(t, s.goOn(t))
			if err := s.confirm(); err != nil {
				t.Fatal(err)
			}
		}
		if ending := s.world.podNames(func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }); len(ending) != 2 {
			t.Errorf("with a budget of %d these are evicted: %v", budget, ending)
		}
		s.end()
	}
}
