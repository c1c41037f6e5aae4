package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what must change nothing in a cluster of queues at rest.

// atRest draws a closed cluster and plays it until two cycles decide nothing; ok is false when that takes too long.
func atRest(t *rapid.T, environment *environment) (e *economy, o *outcome, ok bool) {
	e = &economy{random: &random{t: t}, environment: environment, t: t}
	e.environment.configuration = fmt.Appendf(nil, reclaimFreely, "reclaim")
	e.lines = e.draw(2)
	if err := e.world.apply(e.lines); err != nil {
		t.Fatal(err)
	}
	quiet := 0
	for range 40 {
		if o = e.next(); len(o.decisions) > 0 {
			quiet = 0
		} else if quiet++; quiet == 2 {
			return e, o, true
		}
		e.back()
	}
	return e, nil, false
}

// next plays a cycle and lets the pods run that it has bound.
func (e *economy) next() *outcome {
	o, err := e.cycle()
	if err != nil {
		e.t.Fatalf("%v\n%s", err, e.lines)
	}
	if err := e.confirm(); err != nil {
		e.t.Fatal(err)
	}
	bound := e.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending })
	if err := e.applyEvents("run", bound, nil); err != nil {
		e.t.Fatal(err)
	}
	e.world.now = e.world.now.Add(10 * time.Second)
	return o
}

// leaves returns the queues without queues below them, sorted.
func (e *economy) leaves(o *outcome) (names []string) {
	for _, queue := range o.snapshot.Queues {
		if !slices.ContainsFunc(o.snapshot.Queues, func(other *model.Queue) bool { return other.Parent == queue.Name }) {
			names = append(names, queue.Name)
		}
	}
	return names
}

// partsOf returns what the session has computed of each queue.
func partsOf(o *outcome) (parts [][]model.QueuePart) {
	for _, queue := range o.snapshot.Queues {
		parts = append(parts, slices.Clone(queue.Parts))
	}
	return parts
}

// TestImpossibleDemandChangesNoShare is invariant Q19: what no cluster of these nodes could run, or what waits for more than
// capacity, neither raises the demand of its queue nor lowers the share of another, and no pod goes for it.
func TestImpossibleDemandChangesNoShare(t *testing.T) {
	newStage, shared := openLister(t), 0
	rapid.Check(t, func(t *rapid.T) {
		e, o, ok := atRest(t, newStage())
		if !ok {
			return
		}
		before, lines := partsOf(o), ""
		for i, leaf := range e.leaves(o) {
			lines += fmt.Sprintf("group x%d min=1 queue=%s\npod x%d-1 group=x%d ", i, leaf, i, i) + e.one("cpu=1000", "cpu=1 selector=disk=none",
				"nvidia.com/gpu=100", "cpu=1 gates=a.b/c") + "\n"
			lines += fmt.Sprintf("group y%d min=%d queue=%s\npods y%d-{1..%d} group=y%d cpu=1\n", i, 60, leaf, i, e.n(1, 60), i)
		}
		if err := e.world.apply(lines); err != nil {
			t.Fatal(err)
		}
		after := e.next()
		if len(after.decisions) > 0 || !reflect.DeepEqual(before, partsOf(after)) {
			t.Fatalf("parts were %+v and are %+v\n%s%s%s", before, partsOf(after), e.lines, lines, after)
		}
		for _, parts := range before {
			for _, part := range parts {
				if part.Contended {
					shared++
				}
			}
		}
	})
	if shared == 0 {
		t.Error("no resource was ever contended")
	}
}

// TestWhatIsLoweredEvictsNoPod is invariant Q20: where no job waits, no pod goes because a guarantee, a limit or a weight is
// lower, or a node is cordoned.
func TestWhatIsLoweredEvictsNoPod(t *testing.T) {
	newStage, above := openLister(t), 0
	rapid.Check(t, func(t *rapid.T) {
		e, o, ok := atRest(t, newStage())
		if !ok {
			return
		}
		if err := e.world.remove("pod", e.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })); err != nil {
			t.Fatal(err)
		}
		lines := ""
		for _, queue := range o.snapshot.Queues {
			parent := ""
			if queue.Parent != "" {
				parent = " parent=" + queue.Parent
			}
			lines += fmt.Sprintf("queue %s selector=* weight=%d%s%s\n", queue.Name, e.n(0, 1), parent, e.one("", " limit=cpu:0", " limit=cpu:1,nvidia.com/gpu:0"))
		}
		if err := e.world.apply(lines); err != nil {
			t.Fatal(err)
		}
		if err := e.applyEvents("cordon", []string{"n0"}, nil); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			after := e.next()
			for _, decision := range after.decisions {
				if len(decision.Evictions) > 0 {
					t.Fatalf("%v\n%s%s%s", decision, e.lines, lines, after)
				}
			}
			for _, queue := range after.snapshot.Queues {
				if slices.ContainsFunc(queue.Limit, func(limit model.ListedAmount) bool { return queue.Used.At(limit.Position) > limit.Amount }) {
					above++
				}
			}
		}
	})
	if above == 0 {
		t.Error("no queue was ever above its limit")
	}
}
