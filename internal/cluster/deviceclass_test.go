package cluster

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

func TestDeviceClassProvides(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	s := newState(node("none"), node("zero", gpu, "0"), node("plugin", gpu, "2"), devicesOn("none", 2, "c"), devicesOn("zero", 1, "c"),
		pod("old", on("none"), asking(gpu, "1")), pod("p", asking(gpu, "1")), pod("q", asking("deviceclass.resource.kubernetes.io/c", "1")),
		pod("plain"))
	check := func(when string, lacking, byClass string) {
		t.Helper()
		snapshot := snap(t, s, start)
		for _, uid := range []string{"p", "q"} {
			task := taskIn(snapshot, uid)
			if task.MayUseDeviceClass != (byClass == "p q" || byClass == uid) {
				t.Errorf("%s: %s is by class: %t", when, uid, task.MayUseDeviceClass)
			}
		}
		lacks := ""
		for _, n := range snapshot.Nodes {
			if !n.Free(model.Idle).Fits(taskIn(snapshot, "p").Request) {
				lacks += " " + n.Name
			}
		}
		if lacks != lacking {
			t.Errorf("%s: there is no capacity on%s, want%s", when, lacks, lacking)
		}
		if taskIn(snapshot, "plain").MayUseDeviceClass {
			t.Errorf("%s: a plain pod is by class", when)
		}
	}
	check("without a class", " none zero", "")
	s.Apply(seen(deviceClass("c", gpu)))
	check("with a class", "", "p q")
	for name, want := range map[string]int64{"none": 1, "zero": 1, "plugin": 2} {
		if left := s.snapshot.Node(name).Idle(s.dimensions.Index(gpu)); left != want {
			t.Errorf("node %s has %d devices left, want %d", name, left, want)
		}
	}
	s.Apply(seen(deviceClass("d", gpu)))
	s.Apply(gone(deviceClass("d", gpu)))
	check("with one of two", "", "p q")
	s.Apply(gone(deviceClass("c", gpu)))
	check("without it again", " none zero", "")
	if left := s.snapshot.Node("none").Idle(s.dimensions.Index(gpu)); left != -1 {
		t.Errorf("%d are left on a node that offers none and runs one", left)
	}
}

// TestOldKubelets: one before 1.36 starts a pod without the devices that stand for its extended resources.
func TestOldKubelets(t *testing.T) {
	for version, want := range map[string]bool{
		"": false, "kwok-v0.7.0": false, "v1.35.4+k3s1": true, "v1.36.0-rc.1": false, "v1.37.1": false, "v2.0.0": false,
	} {
		n := node("n")
		n.Status.NodeInfo.KubeletVersion = version
		if got := snap(t, newState(n), start).Node("n").OldKubelet; got != want {
			t.Errorf("kubelet %q: old %t, want %t", version, got, want)
		}
	}
}
