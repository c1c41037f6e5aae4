package cluster

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

func TestDeviceClassProvides(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	s := newState(node("none"), node("zero", gpu, "0"), node("plugin", gpu, "2"),
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
	if left := s.snapshot.Node("none").Idle(s.dimensions.Index(gpu)); left != model.ProvidedByDRA-1 {
		t.Errorf("what runs does not count: %d are left", left)
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

// An old kubelet knows nothing of such devices, and starts the pod without them.
func TestOldKubeletHasNoDevices(t *testing.T) {
	for kubelet, want := range map[string]bool{
		"": true, "kwok-v0.7.0": true, "v1.35.4+k3s1": false, "v1.36.0-rc.1": true, "v1.37.1": true, "v2.0.0": true,
	} {
		n := node("n")
		n.Status.NodeInfo.KubeletVersion = kubelet
		s := newState(n, pod("p", asking("nvidia.com/gpu", "1")), deviceClass("c", "nvidia.com/gpu"))
		snapshot := snap(t, s, start)
		if got := snapshot.Node("n").Free(model.Idle).Fits(taskIn(snapshot, "p").Request); got != want {
			t.Errorf("kubelet %q: there is capacity: %t", kubelet, got)
		}
	}
}
