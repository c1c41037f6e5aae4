package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubecache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// The view of pods that are all bound is what kube-scheduler would have built from the same pods and nodes.
func TestViewIsKubeSchedulers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, s := newWorld(t), newState()
		for range w.number(40, "steps") {
			s.Apply(w.step())
		}
		s.Snapshot(start)
		var pods []*corev1.Pod
		for _, p := range w.pods {
			if w.nodes[p.Spec.NodeName] != nil && !terminal(p) {
				pods = append(pods, p)
			}
		}
		want := kubecache.NewSnapshot(pods, slices.Collect(maps.Values(w.nodes)))
		for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
			kube, err := want.NodeInfos().Get(name)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := s.View().NodeInfos().Get(name)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "node "+name, describe(kube), describe(ours))
		}
		for name, list := range map[string]func(fwk.NodeInfoLister) ([]fwk.NodeInfo, error){
			"all":       fwk.NodeInfoLister.List,
			"affinity":  fwk.NodeInfoLister.HavePodsWithAffinityList,
			"repelling": fwk.NodeInfoLister.HavePodsWithRequiredAntiAffinityList,
			"widely":    fwk.NodeInfoLister.HavePodsWithRequiredNonHostScopedAntiAffinityList,
		} {
			kube, _ := list(want.NodeInfos())
			ours, _ := list(s.View().NodeInfos())
			names := nodeNames(kube)
			slices.Sort(names)
			same(t, name, fmt.Sprint(names), fmt.Sprint(nodeNames(ours)))
		}
		for _, claim := range []string{"ns/claim0", "ns/claim1"} {
			if s.View().StorageInfos().IsPVCUsedByPods(claim) != want.StorageInfos().IsPVCUsedByPods(claim) {
				t.Fatalf("claim %s is used in one of them", claim)
			}
		}
	})
}

// describe writes down what plugins read of a node, lists in order of UID and without resources of which none are left.
func describe(n fwk.NodeInfo) string {
	uids := func(list []fwk.PodInfo) []string {
		var uids []string
		for _, p := range list {
			uids = append(uids, string(p.GetPod().UID))
		}
		slices.Sort(uids)
		return uids
	}
	scalars := maps.Clone(n.GetRequested().GetScalarResources())
	maps.DeleteFunc(scalars, func(_ corev1.ResourceName, amount int64) bool { return amount == 0 })
	images := map[string]int{}
	for name, state := range n.GetImageStates() {
		images[name] = state.NumNodes
	}
	return fmt.Sprintf("%v\n%v\n%v\n%d %d %v\n%d %d\n%v\n%v\n%v\n%v", uids(n.GetPods()), uids(n.GetPodsWithAffinity()),
		uids(n.GetPodsWithRequiredAntiAffinity()), n.GetRequested().GetMilliCPU(), n.GetRequested().GetMemory(), scalars,
		n.GetNonZeroRequested().GetMilliCPU(), n.GetNonZeroRequested().GetMemory(), n.GetUsedPorts(), n.GetPVCRefCounts(),
		images, n.GetAllocatable())
}

func TestSharedHostPortStaysTaken(t *testing.T) {
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, Protocol: corev1.ProtocolTCP}}
	}
	s := newState(node("n"), pod("a", on("n"), port), pod("b", port))
	snapshot := snap(t, s, start)
	b := taskIn(snapshot, "b")
	snapshot.Move(b, snapshot.Move(b, model.Placement{Status: model.Pipelined, Node: "n"}))
	if !onNode(t, s, "n").GetUsedPorts().CheckConflict("0.0.0.0", "TCP", 80) {
		t.Error("the port of a running pod is free after another pod's nomination was undone")
	}
}

func TestViewAskedLate(t *testing.T) {
	s := New(Options{SchedulerNames: []string{"tutti"}})
	s.Apply(seen(node("n")))
	s.Apply(seen(pod("a", on("n"))))
	s.Snapshot(start)
	if s.view != nil {
		t.Error("a view that unowned asked for is kept")
	}
	if first := s.View(); first != s.View() {
		t.Error("two views of one state")
	}
	if len(onNode(t, s, "n").GetPods()) != 1 {
		t.Error("a view asked for late misses what was there before")
	}
}

func TestViewKnowsNothingElse(t *testing.T) {
	v := newState().View()
	if _, err := v.NodeInfos().Get("x"); err == nil {
		t.Error("an unknown node is found")
	}
	if _, err := v.PodGroups().Get("ns", "x"); err == nil {
		t.Error("a pod group is found")
	}
	if _, err := v.PodGroupStates().Get("ns", "x"); err == nil {
		t.Error("a pod group's state is found")
	}
	if _, err := v.CompositePodGroups().Get("ns", "x"); err == nil {
		t.Error("a composite pod group is found")
	}
	if _, err := v.CompositePodGroupStates().Get("ns", "x"); err == nil {
		t.Error("a composite pod group's state is found")
	}
}

// What a view keeps about a pod is used again when the pod has not changed where it matters.
func TestViewLearnsOfResizesAndLabels(t *testing.T) {
	generation := func(n int64) podOption { return func(p *corev1.Pod) { p.Generation = n } }
	granted := func(cpu string) podOption {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: list("cpu", cpu)}}
		}
	}
	infeasible := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	}
	s := newState(node("n"), pod("p", on("n"), generation(1)))
	for _, step := range []struct {
		pod *corev1.Pod
		cpu int64
	}{
		{pod("p", on("n"), generation(1), label("a", "b")), 1000},
		{pod("p", on("n"), generation(2), asking("cpu", "2")), 2000},
		{pod("p", on("n"), generation(2), asking("cpu", "2"), granted("3")), 3000},
		{pod("p", on("n"), generation(2), asking("cpu", "2"), granted("2")), 2000},
		{pod("p", on("n"), generation(2), asking("cpu", "2")), 2000},
		{pod("p", on("n"), generation(2), asking("cpu", "2"), infeasible), 0},
		{pod("p", on("n"), generation(2), asking("cpu", "2")), 2000},
	} {
		s.Apply(seen(step.pod))
		snapshot := snap(t, s, start)
		n := onNode(t, s, "n")
		if pod, cpu := n.GetPods()[0].GetPod(), n.GetRequested().GetMilliCPU(); pod != step.pod || cpu != step.cpu {
			t.Errorf("view has an old pod: %t, requested %d, want %d", pod != step.pod, cpu, step.cpu)
		}
		if has := snapshot.Node("n").Idle(model.CPU); has != 10000-step.cpu {
			t.Errorf("idle CPU is %d, want %d", has, 10000-step.cpu)
		}
	}
}

// onNode returns what the view shows of a node.
func onNode(t *testing.T, s *State, name string) fwk.NodeInfo {
	t.Helper()
	n, err := s.View().NodeInfos().Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nodeNames(list []fwk.NodeInfo) (names []string) {
	for _, n := range list {
		names = append(names, n.Node().Name)
	}
	return names
}
