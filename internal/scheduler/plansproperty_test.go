package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/commit"
)

// TestPlansUnderFaults: gangs of higher priority come to a full cluster whose API server refuses nominations and
// evictions, or takes them and loses the answer, and whose scheduler crashes, while pods come and go. No pod is evicted unless
// another pod is already nominated for its capacity. When the faults are over everything comes to rest, with all capacity used.
func TestPlansUnderFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newOustingWorld(t, rapid.IntRange(1, 4).Draw(t, "nodes"))
		s := &storm{world: w, draw: t}
		w.refusePlan = s.fault
		steps := []func(){s.come, s.come, s.leave, s.leave, s.remove, s.crash, s.pass, s.pass}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")]()
		}
		w.refusePlan = s.watch
		const tick = 200 * time.Millisecond
		for _, span := range []time.Duration{time.Minute, time.Minute, time.Minute, 5 * time.Minute, time.Minute, time.Minute} {
			w.playBy(t.Context(), span, tick)
			s.leaveAll()
		}
		if later := decided(w.playBy(t.Context(), 2*time.Minute, tick)); later != "" {
			t.Errorf("never comes to rest: %s", later)
		}
		s.judge()
	})
}

// storm is what happens to a world, at random.
type storm struct {
	*world
	draw  *rapid.T
	count int
}

func (s *storm) number(most int, label string) int {
	return rapid.IntRange(0, most).Draw(s.draw, label)
}

// come is a gang of high priority, or a pod of low.
func (s *storm) come() {
	s.count++
	if name := fmt.Sprintf("job%d", s.count); s.number(2, "kind") > 0 {
		s.high(name, 1+s.number(2, "members"))
	} else {
		s.low(name, "")
	}
}

// leave ends some of the pods that are being deleted, leaveAll all of them.
func (s *storm) leave() { s.end(func() bool { return s.number(2, "stays") > 0 }) }

func (s *storm) leaveAll() { s.end(func() bool { return true }) }

func (s *storm) end(goes func() bool) {
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		if s.pods[uid].DeletionTimestamp != nil && goes() {
			s.gone(string(uid))
		}
	}
}

// remove ends a pod, whatever it does.
func (s *storm) remove() {
	if uids := slices.Sorted(maps.Keys(s.pods)); len(uids) > 0 {
		s.gone(string(uids[s.number(len(uids)-1, "pod")]))
	}
}

func (s *storm) crash() { s.restart() }

func (s *storm) pass() {
	s.play(s.draw.Context(), time.Duration(1+s.number(400, "time"))*10*time.Millisecond)
}

// fault answers a call of a plan.
func (s *storm) fault(call commit.Call) error {
	if s.pods[call.Pod.UID] == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), call.Pod.Name)
	}
	switch s.number(9, "fault") {
	case 0:
		if call.Node != "" { // who may not take a nomination back leaves it there
			return forbidden(call)
		}
	case 1:
		if call.Kind == commit.CallEvict {
			return overBudget(call)
		}
	case 2:
		return apierrors.NewTooManyRequests("busy", 0)
	case 3:
		if err := s.watch(call); err != nil {
			return err
		}
		s.carryOut(call)
		return errors.New("connection lost")
	}
	return s.watch(call)
}

// watch fails the test if a victim goes before the nomination for its node.
func (s *storm) watch(call commit.Call) error {
	if s.pods[call.Pod.UID] == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), call.Pod.Name)
	}
	if call.Kind != commit.CallEvict {
		return nil
	}
	for _, pod := range s.pods {
		if pod.Status.NominatedNodeName == call.Node {
			return nil
		}
	}
	s.t.Errorf("%s goes from %s, where no pod is nominated", call.Pod, call.Node)
	return nil
}

// judge looks at what is left: no nomination, nothing kept, and no capacity beside pods that would fit.
func (s *storm) judge() {
	free, waiting := map[string]bool{}, map[string]int{}
	for name := range s.nodes {
		free[name] = true
	}
	for _, pod := range s.pods {
		if pod.Status.NominatedNodeName != "" {
			s.t.Errorf("%s is nominated for %s at rest", pod.Name, pod.Status.NominatedNodeName)
		}
		delete(free, pod.Spec.NodeName)
		if pod.Spec.NodeName == "" {
			waiting[pod.Labels["scheduling.tutti.dev/pod-group"]]++
		}
	}
	if len(free) > 0 && waiting[""] > 0 {
		s.t.Errorf("%d nodes are free and %d single pods wait", len(free), waiting[""])
	}
	snapshot := s.loop.state.Snapshot(s.clock.Now())
	if len(snapshot.Held()) > 0 || !s.loop.machine.Idle() {
		s.t.Errorf("kept at rest: %v, machine idle %t", snapshot.Held(), s.loop.machine.Idle())
	}
	s.loop.delays.Evictions.Active(s.clock.Now(), func(uid types.UID) bool {
		if s.pods[uid] == nil {
			s.t.Errorf("%s is gone, and delayed", uid)
		}
		return true
	})
}
