package cluster

import (
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// explosive makes the code panic that brings the snapshot up to date with a subject, half-way or not.
func explosive(s *State, over updateTarget) *int {
	times := 0
	s.tended = func(one updateTarget) {
		if one == over {
			times++
			_ = s.snapshot.Nodes[len(s.snapshot.Nodes)]
		}
	}
	return &times
}

// spoilt is a cluster with a gang, a node and a pod named bad, and others that are not.
func spoilt(t *testing.T) *State {
	t.Helper()
	s := newState(node("n"), node("bad"), pod("good", on("n")), pod("bad", on("n")), pod("other", of("bad")), pod("mine", of("good")))
	for _, name := range []string{"bad", "good"} {
		group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 1}}
		group.Namespace, group.Name, group.ResourceVersion = "ns", name, "1"
		s.Apply(Event{Kind: KindGroup, Group: group})
	}
	s.View()
	return s
}

// TestPanicWhileASnapshotIsTaken costs only the subject over which it comes, at the first snapshot and at a later one.
func TestPanicWhileASnapshotIsTaken(t *testing.T) {
	for name, over := range map[string]updateTarget{
		"pod": {pod: "bad"}, "node": {node: "bad"}, "job": {job: model.JobKey{Namespace: "ns", Name: "bad"}},
	} {
		for _, later := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := spoilt(t)
				if later {
					snap(t, s, start)
				}
				times := explosive(s, over)
				change := pod("bad", on("n"))
				change.Labels, change.ResourceVersion = map[string]string{"x": "y"}, "7"
				s.Apply(Event{Kind: KindPod, Pod: change})
				again := node("bad")
				again.Labels, again.ResourceVersion = map[string]string{"x": "y"}, "7"
				s.Apply(Event{Kind: KindNode, Node: again})
				s.dirtyJobs[model.JobKey{Namespace: "ns", Name: "bad"}] = struct{}{}
				snapshot := snap(t, s, start)
				if *times == 0 {
					t.Fatal("unowned panicked")
				}
				complaints := s.TakeMalformed()
				if len(complaints) == 0 || !strings.Contains(complaints[0], "bad could not be ") || len(s.TakeMalformed()) > 0 {
					t.Errorf("complaints %q", complaints)
				}
				if good := taskIn(snapshot, "good"); good == nil || good.Status != model.Bound || good.Invalid != nil {
					t.Errorf("another pod is %+v", good)
				}
				if n := snapshot.Node("n"); n == nil || n.Invalid != nil || len(n.Tasks) == 0 {
					t.Errorf("another node is %+v", n)
				}
				if job := snapshot.Job(model.JobKey{Namespace: "ns", Name: "good"}); job == nil || job.Invalid != nil || len(job.Tasks) != 1 {
					t.Errorf("another job is %+v", job)
				}
				bad := snapshot.Job(model.JobKey{Namespace: "ns", Name: "bad"})
				if over.job != (model.JobKey{}) && (bad == nil || bad.Invalid == nil || bad.Invalid.Code != model.Malformed || len(bad.Tasks) != 1) {
					t.Errorf("the job is %+v", bad)
				}
				if over.job == (model.JobKey{}) && bad.Invalid != nil {
					t.Errorf("a job of the same name is refused: %s", bad.Invalid)
				}
				infos, err := s.View().NodeInfos().Get("n")
				if err != nil || len(infos.GetPods()) != len(snapshot.Node("n").Tasks) {
					t.Errorf("the view shows something else: %v", err)
				}
			})
		}
	}
}

// TestAQuarantinedPodRecovers: after the last panic the snapshot is the same as that of a state in which no update has
// panicked.
func TestAQuarantinedPodRecovers(t *testing.T) {
	s := spoilt(t)
	explosive(s, updateTarget{pod: "bad"})
	snap(t, s, start)
	s.tended = nil
	mended := pod("bad", on("n"))
	mended.ResourceVersion = "8"
	s.Apply(Event{Kind: KindPod, Pod: mended})
	got, want := snap(t, s, start), snap(t, spoilt(t), start)
	if a, b := got.Node("n").Idle, want.Node("n").Idle; !a.Equal(b) {
		t.Errorf("idle is %v, want %v", a, b)
	}
	if bad := taskIn(got, "bad"); bad == nil || bad.Invalid != nil {
		t.Errorf("the pod is %+v", bad)
	}
}

// TestAPodThatKubeSchedulerPanicsOver is in the view with no more than its name.
func TestAPodThatKubeSchedulerPanicsOver(t *testing.T) {
	whole := pod("p", on("n"))
	if got := readPod(whole); got.Pod != whole {
		t.Error("a pod that is fine is not what it was")
	}
	if got := buildOrFallback(func() string { return readPod(nil).Pod.Name }, func(string) string { return "panic" }); got != "panic" {
		t.Errorf("got %q", got)
	}
}
