package predicates_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"

	arguments "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/predicates"
	"github.com/tutti-sched/tutti/pkg/topology"
)

func TestPlacedSiblingsCountAtOnce(t *testing.T) {
	w := newWorld(t)
	nodes := []*corev1.Node{newNode("a"), newNode("b")}
	pod := newPod("p2", relabel("p"), apart("p", corev1.LabelHostname))
	w.view.show(nil, nodes)
	if answers := w.ask(pod, nodes); answers[0] != nil || answers[1] != nil {
		t.Fatalf("empty nodes refused: %v", answers)
	}
	w.view.show([]*corev1.Pod{newPod("p1", relabel("p"), on("b"), apart("p", corev1.LabelHostname))}, nodes)
	if answers := w.ask(pod, nodes); answers[0] != nil || answers[1] == nil {
		t.Errorf("got %v, want a refusal of node b alone", answers)
	}
}

func TestPlainPodsAreNotAskedAbout(t *testing.T) {
	w := newWorld(t)
	w.view.show([]*corev1.Pod{newPod("q", on("a"))}, []*corev1.Node{newNode("a")})
	task := &model.Task{Pod: plainPod()}
	plugin := w.newPlugin().(framework.NodeFilter)
	for _, scope := range []framework.FilterScope{framework.NodeWithPods, framework.ClusterWide} {
		if checks, refused := plugin.PreFilter(task, scope); checks != nil || refused != nil {
			t.Errorf("scope %d: %d checks, refusal %v, want none", scope, len(checks), refused)
		}
	}
	if allocated := testing.AllocsPerRun(100, func() { plugin.PreFilter(task, framework.ClusterWide) }); allocated != 0 {
		t.Errorf("asking about a plain pod allocates %v times", allocated)
	}
}

func TestRefusalsAreShared(t *testing.T) {
	w := newWorld(t)
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	nodes := []*corev1.Node{newNode("a", cordoned), newNode("b", cordoned)}
	w.view.show(nil, nodes)
	answers := w.ask(newPod("p"), nodes)
	if answers[0] == nil || answers[0] != answers[1] {
		t.Errorf("got %p and %p, want one refusal", answers[0], answers[1])
	}
	var tally model.NodeDiagnosis
	tally.Add(answers[0])
	tally.Add(answers[1])
	if got, want := tally.Refusal(2, 0, "").String(), "needs 2, 0 would fit; 2 nodes: were unschedulable"; got != want {
		t.Errorf("the user reads %q, want %q", got, want)
	}
}

// tainted makes sure that TaintToleration runs, and that it refuses no pod.
func tainted(node *corev1.Node) {
	node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
}

// TestAClaimThatIsTooLargeRefusesItsPod before any filter is asked about it.
func TestAClaimThatIsTooLargeRefusesItsPod(t *testing.T) {
	factory, err := predicates.New(&double{tooLarge: "PersistentVolumeClaim c: it is too large"}, &topology.Index{})
	if err != nil {
		t.Fatal(err)
	}
	p := factory().(framework.NodeFilter)
	with := newPod("p")
	with.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: volumeClaim("c")}}
	for _, scope := range []framework.FilterScope{framework.NodeOnly, framework.NodeWithPods, framework.ClusterWide} {
		if _, refused := p.PreFilter(taskOf(with), scope); refused == nil || refused.Code != model.InvalidRequest || refused.Detail != "PersistentVolumeClaim c: it is too large" {
			t.Errorf("scope %v: %v", scope, refused)
		}
	}
}

func TestUnknownNodeIsRefused(t *testing.T) {
	w := newWorld(t)
	w.view.show(nil, []*corev1.Node{newNode("a", tainted)})
	if answers := w.ask(newPod("p"), []*corev1.Node{newNode("a", tainted), newNode("gone", tainted)}); answers[0] != nil || answers[1] == nil {
		t.Errorf("got %v, want a refusal of the second node alone", answers)
	}
}

// double replaces all of kube-scheduler: one filter with a preset answer.
type double struct {
	lister    fwk.SharedLister
	preFilter *fwk.Status
	only      *fwk.PreFilterResult
	filter    func(node string) *fwk.Status
	devices   func(*corev1.Pod)
	missing   string
	tooLarge  string
}

func (d *double) Plugin(name string) fwk.Plugin {
	if name == d.missing {
		return nil
	}
	return &doubleFilter{name: name, double: d}
}
func (d *double) Lister() fwk.SharedLister    { return d.lister }
func (d *double) Context() context.Context    { return context.Background() }
func (d *double) NewState() fwk.CycleState    { return kube.NewCycleState() }
func (d *double) TooLarge(*corev1.Pod) string { return d.tooLarge }

func (d *double) NewGroup() fwk.PodGroupCycleState { return kube.NewCycleState() }
func (d *double) Unreserve(types.UID)              {}

func (d *double) SaveFilterState(types.UID, fwk.CycleState, func(*model.Node) bool) {}

func (d *double) ByDeviceClass(corev1.ResourceName) bool { return false }

func (d *double) NewStateIn(fwk.PodGroupCycleState) fwk.CycleState { return kube.NewCycleState() }

func (d *double) Reserve(context.Context, *corev1.Pod, *corev1.Node, fwk.PodGroupCycleState) (bool, *fwk.Status) {
	return false, nil
}

type doubleFilter struct {
	name   string
	double *double
}

func (f *doubleFilter) Name() string                                 { return f.name }
func (f *doubleFilter) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
func (f *doubleFilter) PreFilter(
	context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	switch {
	case f.name == "DynamicResources" && f.double.devices != nil:
		return nil, nil
	case f.name != "TaintToleration":
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return f.double.only, f.double.preFilter
}

func (f *doubleFilter) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if f.name == "DynamicResources" {
		f.double.devices(pod)
		return nil
	}
	return f.double.filter(node.Node().Name)
}

// details returns the plugin's results for nodes a and b.
func (d *double) details(t *testing.T) []string {
	t.Helper()
	nodes := []*corev1.Node{newNode("a", tainted), newNode("b", tainted)}
	d.lister = cache.NewSnapshot(nil, nodes)
	if d.filter == nil {
		d.filter = func(string) *fwk.Status { return nil }
	}
	newPlugin, err := predicates.New(d, topology.New(nil))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{view: &view{SharedLister: d.lister}, newPlugin: newPlugin}
	var details []string
	for _, refusal := range w.ask(plainPod(), nodes) {
		text := ""
		if refusal != nil {
			text = refusal.Detail
			if refusal.Evictable {
				text += " (evictable)"
			}
		}
		details = append(details, text)
	}
	return details
}

func TestStatusesBecomeRefusals(t *testing.T) {
	cases := []struct {
		name   string
		double double
		want   []string
	}{
		{"no words", double{}, []string{"", ""}},
		{"skipped", double{preFilter: fwk.NewStatus(fwk.Skip), filter: failing}, []string{"", ""}},
		{
			"PreFilter fails", double{preFilter: fwk.AsStatus(errors.New("no cache"))},
			[]string{"TaintToleration failed: no cache", "TaintToleration failed: no cache"},
		},
		{
			"PreFilter refuses", double{preFilter: fwk.NewStatus(fwk.Unschedulable, "node(s) are full")},
			[]string{"are full (evictable)", "are full (evictable)"},
		},
		{
			"PreFilter leaves one node", double{only: &fwk.PreFilterResult{NodeNames: sets.New("b")}},
			[]string{"didn't satisfy plugin TaintToleration", ""},
		},
		{
			"Filter fails, with one text for all nodes", double{filter: failing},
			[]string{"TaintToleration failed: reading node a", "TaintToleration failed: reading node a"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.double.details(t); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func failing(node string) *fwk.Status { return fwk.AsStatus(fmt.Errorf("reading node %s", node)) }

func TestNewMissesAFilter(t *testing.T) {
	_, err := predicates.New(&double{missing: "VolumeZone"}, topology.New(nil))
	if err == nil || !strings.Contains(err.Error(), "VolumeZone") {
		t.Errorf("got error %v, want one that names the filter", err)
	}
}

func TestKubeBatchArgumentsAreUnderstoodAndWarnedOf(t *testing.T) {
	for _, name := range []string{"predicate.MemoryPressureEnable", "predicate.DiskPressureEnable", "predicate.PIDPressureEnable"} {
		for value, good := range map[string]bool{"true": true, "false": true, "much": false} {
			reader := arguments.NewArguments("plugin predicates", map[string]string{name: value}).Reader()
			predicates.Arguments().Read(reader)
			if err := reader.Finish(); (err == nil) != good {
				t.Errorf("%s: %s: %v", name, value, err)
			}
			if got := reader.Warnings(); len(got) != 1 || !strings.Contains(got[0].Text, name+" has no effect: ") {
				t.Errorf("%s: %s: warned of %v", name, value, got)
			}
		}
	}
}

// plainPod is a pod as most jobs have it: a token and scratch space, nothing else.
func plainPod() *corev1.Pod {
	return newPod("p", volumes(
		corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}},
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	))
}

func BenchmarkFilterFor(b *testing.B) {
	nodes, pods := make([]*corev1.Node, 1000), make([]*corev1.Pod, 0, 1000)
	for i := range nodes {
		nodes[i] = newNode(fmt.Sprint("n", i))
		pods = append(pods, newPod(fmt.Sprint("q", i), relabel("q"), on(nodes[i].Name)))
	}
	w := newWorld(b)
	for _, c := range []struct {
		name  string
		extra []*corev1.Pod
		pod   *corev1.Pod
	}{
		{"plain", nil, plainPod()},
		{"plain, others keep apart", []*corev1.Pod{newPod("r", on("n1"), apart("r", corev1.LabelHostname))}, plainPod()},
		{"apart", nil, newPod("p", apart("q", corev1.LabelHostname))},
		{"spread", nil, newPod("p", spread("q", corev1.LabelTopologyZone))},
	} {
		w.view.show(append(pods, c.extra...), nodes)
		plugin, task := w.newPlugin().(framework.NodeFilter), &model.Task{Pod: c.pod}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plugin.PreFilter(task, framework.NodeWithPods)
				plugin.PreFilter(task, framework.ClusterWide)
			}
		})
	}
}
