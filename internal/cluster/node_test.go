package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

func TestNodesThatOfferNothing(t *testing.T) {
	bare := node("n")
	bare.Status.Allocatable = nil
	for name, c := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"fine":      {node("n"), ""},
		"nil":       {bare, "the node reports no allocatable resources"},
		"negative":  {node("n", "memory", "-1Gi"), "the node's allocatable memory cannot be counted"},
		"malformed": {node("n", "nvidia.com/gpu", "9E"), "the node's allocatable nvidia.com/gpu cannot be counted"},
	} {
		t.Run(name, func(t *testing.T) {
			n := snap(t, newState(c.node, pod("p", on("n"))), start).Node("n")
			if n.Invalid.String() != c.want {
				t.Errorf("refused %v, want %q", n.Invalid, c.want)
			}
			if c.want != "" && (n.Allocatable().At(model.CPU) != 0 || n.Idle(model.CPU) != -1000) {
				t.Errorf("offers %v, idle %v", n.Allocatable(), n.Amounts().Idle)
			}
		})
	}
}

func TestAllocatableShrinksBelowUse(t *testing.T) {
	s := newState(node("n"), pod("a", on("n"), asking("cpu", "6")), pod("b", on("n"), asking("cpu", "3")))
	snap(t, s, start)
	s.Apply(seen(node("n", "cpu", "8")))
	if idle := snap(t, s, start).Node("n").Idle(model.CPU); idle != -1000 {
		t.Errorf("idle CPU is %d, want -1000", idle)
	}
	s.Apply(gone(pod("b")))
	if idle := snap(t, s, start).Node("n").Idle(model.CPU); idle != 2000 {
		t.Errorf("idle CPU is %d, want 2000", idle)
	}
}

func TestPodBeforeItsNode(t *testing.T) {
	s := newState(pod("p", on("n")))
	if snapshot := snap(t, s, start); taskIn(snapshot, "p").Node != "n" {
		t.Error("the pod has lost its node")
	}
	s.Apply(seen(node("n")))
	snapshot := snap(t, s, start)
	if n := snapshot.Node("n"); n.Idle(model.CPU) != 9000 || len(n.Tasks) != 1 || n.Tasks[0] != snapshot.Job(alone("p")).Tasks[0] {
		t.Errorf("node has %v idle and tasks %v", n.Amounts().Idle, n.Tasks)
	}
}

// No session may make a vector longer: its undo would not leave every byte as it was.
func TestVectorsAreWideEnough(t *testing.T) {
	s := newState(node("n"))
	snap(t, s, start)
	s.Apply(seen(pod("p", asking("nvidia.com/gpu", "1"))))
	s.Apply(seen(node("m")))
	for _, n := range snap(t, s, start).Nodes {
		for _, vector := range []model.Resources{n.Allocatable(), n.Amounts().Idle, n.Amounts().Releasing, n.Amounts().Pipelined} {
			if len(vector) != s.dimensions.Len() {
				t.Errorf("node %s: a vector of %d dimensions, there are %d", n.Name, len(vector), s.dimensions.Len())
			}
		}
	}
}

func TestSnapshotSharesNothingThatChanges(t *testing.T) {
	s := newState(node("n"))
	n := snap(t, s, start).Node("n")
	n.Allocatable()[model.CPU] = 7
	n.Place(&model.Task{Request: model.Resources{7}, Placement: model.Placement{Status: model.Running, Node: "n"}})
	if got := s.nodes["n"].allocatable.At(model.CPU); got != 10000 {
		t.Errorf("writing on the snapshot made the state's node offer %d", got)
	}
}
