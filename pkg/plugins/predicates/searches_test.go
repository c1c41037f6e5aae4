package predicates_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/predicates"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// slowDevices is kube-scheduler whose search for devices on a node takes as long as the name of the pod says, in virtual time.
type slowDevices struct {
	double
	now      time.Time
	searched int
	factory  framework.Factory
	// cut counts the searches that the metrics count.
	cut int
}

func newSlowDevices(t *testing.T, nodes []*corev1.Node) *slowDevices {
	t.Helper()
	s := &slowDevices{now: time.Unix(1000, 0), double: double{lister: cache.NewSnapshot(nil, nodes)}}
	s.double.devices = func(pod *corev1.Pod) {
		s.searched++
		_, after, _ := strings.Cut(pod.Name, "-")
		takes, err := time.ParseDuration(after)
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(takes)
	}
	factory, err := predicates.NewFactory(s, topology.New(nil), 10*time.Second, func() time.Time { return s.now })
	if err != nil {
		t.Fatal(err)
	}
	s.factory = factory
	return s
}

// slowTask is the task of a job of one with a claim of a device.
func slowTask(namespace, name string) *model.Task {
	claim := "c"
	pod := newPod(name)
	pod.Namespace, pod.Spec.ResourceClaims = namespace, []corev1.PodResourceClaim{{Name: claim, ResourceClaimName: &claim}}
	task := taskOf(pod)
	task.Job = model.JobKey{Namespace: namespace, Name: name}
	return task
}

// cycle asks for each task about all nodes and reserves the devices of the first that passes. It returns the tasks that have
// devices, and the reasons of the others.
func (s *slowDevices) cycle(w *world, nodes []*corev1.Node, tasks []*model.Task) (placed, reasons []string) {
	var p framework.Plugin
	snapshot := w.snapshot(nodes)
	engine.Run(snapshot, &engine.Profile{
		Actions: []engine.Action{asking(func() { placed, reasons = s.ask(p, snapshot, tasks) })},
		Tiers:   []engine.Tier{{{Factory: func() framework.Plugin { p = s.factory(); return p }}}},
	}, engine.Options{OnSearchCut: func(string) { s.cut++ }})
	return placed, reasons
}

// asking is an action.
type asking func()

func (asking) Name() string { return "asking" }

func (a asking) Execute(*engine.Session) { a() }

func (s *slowDevices) ask(p framework.Plugin, snapshot *model.Snapshot, tasks []*model.Task) (placed, reasons []string) {
	for _, task := range tasks {
		checks, refused := p.(framework.NodeFilter).PreFilter(task, framework.ClusterWide)
		var on *model.Node
		var last *model.Refusal
		for _, node := range snapshot.Nodes {
			answer := refused
			for _, check := range checks {
				if answer == nil {
					answer = check(node)
				}
			}
			if answer == nil && on == nil {
				on = node
			}
			last = cmp.Or(answer, last)
		}
		if on != nil {
			if _, last = p.(framework.Reserver).Reserve(task, on); last == nil {
				placed = append(placed, task.Name)
				continue
			}
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s", task.Name, last.Detail))
		if !last.Until.Equal(snapshot.Now) {
			reasons = append(reasons, "which is final")
		}
	}
	return placed, reasons
}

const later = ": devices: not searched in this cycle, since other pods used its 10s for such searches; searched in a later one"

// TestTheSearchesOfACycleHaveABudget: where each of 13 nodes takes a while, the cycle ends all the same, and the pods that were
// not searched for come first in the next one.
func TestTheSearchesOfACycleHaveABudget(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 13 {
		nodes = append(nodes, newNode(fmt.Sprint("n", i)))
	}
	s := newSlowDevices(t, nodes)
	w := &world{view: &view{SharedLister: s.lister}, newPlugin: s.factory}
	plain := taskOf(newPod("plain"))
	tasks := []*model.Task{slowTask("hostile", "a-9s"), slowTask("hostile", "b-9s"), slowTask("quiet", "c-100ms"), plain}
	tooLong := "-9s: devices: the search takes longer than 10s, which is all that a cycle has for such searches"
	for i, want := range []struct{ placed, reasons []string }{
		{[]string{"plain"}, []string{"a" + tooLong, "b-9s" + later, "c-100ms" + later}},
		{[]string{"c-100ms", "plain"}, []string{"a-9s" + later, "b-9s" + later}},
		{[]string{"plain"}, []string{"a-9s" + later, "b" + tooLong, "c-100ms" + later}},
		{[]string{"c-100ms", "plain"}, []string{"a-9s" + later, "b-9s" + later}},
		{[]string{"plain"}, []string{"a" + tooLong, "b-9s" + later, "c-100ms" + later}},
	} {
		before := s.now
		s.cut = 0
		placed, reasons := s.cycle(w, nodes, tasks)
		if !slices.Equal(placed, want.placed) || !slices.Equal(reasons, want.reasons) {
			t.Errorf("cycle %d: placed %q, %q", i+1, placed, reasons)
		}
		if s.cut != len(reasons) {
			t.Errorf("cycle %d: %d searches are counted as cut", i+1, s.cut)
		}
		if took := s.now.Sub(before); took > 19*time.Second {
			t.Errorf("cycle %d took %s", i+1, took)
		}
	}
}

// TestNoNodeIsChosenByTime: a node that passed before the time was used up is not taken, since another one might be better.
func TestNoNodeIsChosenByTime(t *testing.T) {
	nodes := []*corev1.Node{newNode("a"), newNode("b"), newNode("c")}
	s := newSlowDevices(t, nodes)
	w := &world{view: &view{SharedLister: s.lister}}
	if placed, _ := s.cycle(w, nodes, []*model.Task{slowTask("n", "x-6s")}); placed != nil {
		t.Errorf("%q was placed with two of three nodes searched", placed)
	}
	if s.searched != 2 {
		t.Errorf("%d searches, want 2 that take as long as the budget, and none to reserve", s.searched)
	}
	if placed, reasons := s.cycle(w, nodes, []*model.Task{slowTask("n", "x-2s")}); len(placed) != 1 {
		t.Errorf("with time for all nodes: %q", reasons)
	}
}

// TestASearchThatExplodesIsEnded, kube-scheduler's own, on a node and when the devices are reserved.
func TestASearchThatExplodesIsEnded(t *testing.T) {
	name, group := "a", resourceapi.FullyQualifiedName("gpu.example.com/group")
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("slice"), ResourceVersion: "1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range 62 { // two groups, each with a device too few
		half := fmt.Sprint(i % 2)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"group": {StringValue: &half}},
		})
	}
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default", UID: "c", ResourceVersion: "1"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 32,
			}}},
			Constraints: []resourceapi.DeviceConstraint{{MatchAttribute: &group}},
		}},
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	const limit = 200 * time.Millisecond
	w := newWorld(t, class, slice, claim)
	factory, err := predicates.NewFactory(w.kube, topology.New(w.kube), limit, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	nodes := []*corev1.Node{newNode("a")}
	w.view.show(nil, nodes)
	w.newPlugin = factory
	task := slowTask("default", "p")
	for what, ask := range map[string]func(framework.Plugin) *model.Refusal{
		"filter": func(p framework.Plugin) *model.Refusal {
			checks, refused := p.(framework.NodeFilter).PreFilter(task, framework.ClusterWide)
			if refused != nil {
				return refused
			}
			return checks[0](w.snapshot(nodes).Nodes[0])
		},
		"reserve": func(p framework.Plugin) *model.Refusal {
			_, refused := p.(framework.Reserver).Reserve(task, w.snapshot(nodes).Nodes[0])
			return refused
		},
	} {
		p := factory()
		p.(framework.SessionOpener).OpenSession(fixedView{snapshot: w.snapshot(nodes)})
		began := time.Now()
		refused := ask(p)
		if refused == nil || !strings.Contains(refused.Detail, "the search takes longer than 200ms") {
			t.Errorf("%s: %v", what, refused)
		}
		// Without a limit it would have no end. How soon after its limit it ends is judged on a free machine alone.
		took := time.Since(began)
		if t.Logf("%s: the search took %s", what, took); took < limit || took > 5*time.Second && os.Getenv("HOLD_TIMES") == "1" {
			t.Errorf("%s: it took %s", what, took)
		}
	}
}
