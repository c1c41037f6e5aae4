package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/levels"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestAGangSharesARack: a gang waits while no rack has capacity for all of it, starts in one, and stays there: through a restart
// of the scheduler, and a member that is lost.
func TestAGangSharesARack(t *testing.T) {
	const topologies = "topologies:\n- name: fabric\n  levels: [{name: block, label: example.com/block}, {name: rack, label: example.com/rack}]\n"
	options := harness.SchedulerOptions{Args: []string{"--config=" + configuredWith(t, topologies)}}
	scheduler := env.Scheduler(t, options)
	ns := env.Namespace(t)
	racks := func(block, rack string, nodes int) {
		added := cluster.Nodes(strings.Join([]string{"topology", block, rack}, "-"), nodes, map[string]string{"cpu": "1"})
		for _, node := range added {
			node.Labels["example.com/block"], node.Labels["example.com/rack"] = block, rack
		}
		env.Nodes(t, added...)
	}
	racks("b1", "r1", 2)
	racks("b2", "r1", 2)
	wrong := group(ns, "wrong", 1)
	wrong.Spec.Topology = []v1alpha1.TopologyConstraint{{Level: "rak"}}
	train := group(ns, "train", 3)
	train.Spec.Topology = []v1alpha1.TopologyConstraint{{Level: "rack"}}
	env.Create(t, wrong, train)
	env.Create(t, members(ns, "wrong", "", 1)...)
	env.Create(t, members(ns, "train", "", 3)...)
	env.Eventually(t, func() error {
		return errors.Join(waits(t, train, "NoDomainFits"), waits(t, wrong, "InvalidGroup"),
			saysWhy(t, ns, "train-", corev1.PodReasonUnschedulable, "NoDomainFits"))
	})
	racks("b2", "r10", 3)
	env.Eventually(t, func() error { return inRack(t, ns, "train-", "b2-r10", 3) })

	scheduler.Kill()
	env.Scheduler(t, options)
	if err := env.Client.Delete(t.Context(), env.Pod(ns, "train-0"), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	env.Create(t, members(ns, "train", "again-", 1)...)
	env.Eventually(t, func() error { return inRack(t, ns, "train-", "b2-r10", 3) })

	env.Create(t, members(ns, "train", "late-", 1)...)
	env.Eventually(t, func() error {
		return saysWhy(t, ns, "train-late-", corev1.PodReasonUnschedulable, "")
	})
	racks("b2", "r11", 1)
	env.Create(t, env.Pod(ns, "other", oneCPU))
	env.Create(t, env.Pod(ns, "another", oneCPU))
	env.Create(t, env.Pod(ns, "third", oneCPU))
	env.Eventually(t, func() error { return boundOf(t, ns, "third", 1) })
	if err := errors.Join(inRack(t, ns, "train-", "b2-r10", 3), boundOf(t, ns, "train-late-", 0)); err != nil {
		t.Error(err)
	}
}

// inRack is nil when exactly that many pods of the namespace whose names begin so have a node, all in one rack of the test.
func inRack(t *testing.T, namespace, prefix, rack string, want int) error {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace)
	if err != nil {
		return err
	}
	bound := 0
	for _, pod := range pods {
		if !strings.HasPrefix(pod.Name, prefix) || pod.Spec.NodeName == "" {
			continue
		}
		if bound++; !strings.HasPrefix(pod.Spec.NodeName, "topology-"+rack+"-") {
			return fmt.Errorf("pod %s is on %s, not in %s", pod.Name, pod.Spec.NodeName, rack)
		}
	}
	if bound != want {
		return fmt.Errorf("%d pods %s* are bound, want %d", bound, prefix, want)
	}
	return nil
}

// configuredWith writes the chart's configuration with topologies, and returns the file.
func configuredWith(t *testing.T, topologies string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	text, err := os.ReadFile(filepath.Join(chartFolder(t), "files", "scheduler.yaml"))
	if err = errors.Join(err, os.WriteFile(config, append(text, "\n"+topologies...), 0o600)); err != nil {
		t.Fatal(err)
	}
	return config
}

// hall is the cluster of lab/levels.yaml for one test: two blocks of two racks of four nodes with eight CPUs each, two nodes a
// clique; and a scheduler that knows these levels.
type hall struct {
	*arena
	nodes     map[string]*corev1.Node
	options   harness.SchedulerOptions
	scheduler *harness.Scheduler
}

func readLevels(t *testing.T) *levels.Cluster {
	t.Helper()
	read, err := levels.Read(filepath.Join(rootFolder(t), "lab", "levels.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func newHall(t *testing.T) *hall {
	t.Helper()
	read := readLevels(t)
	h := &hall{arena: &arena{t: t, ns: env.Namespace(t)}, nodes: map[string]*corev1.Node{}}
	h.options.Args = []string{"--config=" + configuredWith(t, read.Configuration())}
	h.add(read.Nodes()...)
	h.scheduler = env.Scheduler(t, h.options)
	return h
}

// add creates nodes, which go with the test.
func (h *hall) add(nodes ...*corev1.Node) {
	h.t.Helper()
	for _, node := range nodes {
		h.nodes[node.Name] = node.DeepCopy()
	}
	env.Nodes(h.t, nodes...)
}

// restart kills the scheduler and starts it again.
func (h *hall) restart() {
	h.t.Helper()
	h.scheduler.Kill()
	h.options.Name = "restarted"
	h.scheduler = env.Scheduler(h.t, h.options)
}

// train makes a gang with a topology, of which each member fills a node unless an option says otherwise.
func (h *hall) train(name string, count int, topology []v1alpha1.TopologyConstraint, options ...harness.PodOption) *v1alpha1.PodGroup {
	h.t.Helper()
	gang := group(h.ns, name, int32(count))
	gang.Spec.Topology = topology
	env.Create(h.t, gang)
	env.Create(h.t, members(h.ns, name, "", count, append([]harness.PodOption{cpu("8")}, options...)...)...)
	return gang
}

// waitsSaying is nil when the group waits for that reason and its message has the words.
func (h *hall) waitsSaying(gang *v1alpha1.PodGroup, reason, words string) error {
	return errors.Join(waits(h.t, gang, reason), h.says(gang, words))
}

// degraded is nil when the group lacks a member, and its message has the words.
func (h *hall) degraded(gang *v1alpha1.PodGroup, words string) error {
	if err := env.Client.Get(h.t.Context(), client.ObjectKeyFromObject(gang), gang); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(gang.Status.Conditions, v1alpha1.ConditionDegraded)
	if condition == nil || condition.Status != metav1.ConditionTrue || !strings.Contains(condition.Message, words) {
		return fmt.Errorf("condition %+v, want True with %q", condition, words)
	}
	return nil
}

// placed returns the pods whose names begin so, in the natural order of their names, when so many have a node; each then has the
// domains of its node in its annotation.
func (h *hall) placed(prefix string, want int) (pods []corev1.Pod) {
	h.t.Helper()
	env.Eventually(h.t, func() (err error) {
		if pods, err = env.Pods(h.t.Context(), h.ns); err != nil {
			return err
		}
		pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
			return !strings.HasPrefix(pod.Name, prefix) || pod.Spec.NodeName == ""
		})
		if len(pods) != want {
			return errors.Join(fmt.Errorf("%d pods %s* are bound, want %d", len(pods), prefix, want), boundOf(h.t, h.ns, prefix, want))
		}
		return nil
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return model.CompareNatural(a.Name, b.Name) })
	for i := range pods {
		pod := &pods[i]
		want := fmt.Sprintf("fabric=%s,nvlink=%s", h.rackOf(pod), h.domain(pod, "nvidia.com/gpu.clique"))
		if got := pod.Annotations[v1alpha1.AnnotationDomain]; got != want {
			h.t.Errorf("pod %s on %s says that its domain is %q, want %q", pod.Name, pod.Spec.NodeName, got, want)
		}
	}
	return pods
}

// domain returns what a label of the pod's node says.
func (h *hall) domain(pod *corev1.Pod, label string) string {
	h.t.Helper()
	node := h.nodes[pod.Spec.NodeName]
	if node == nil {
		h.t.Fatalf("pod %s is on %s, which is no node of the test", pod.Name, pod.Spec.NodeName)
	}
	return node.Labels[label]
}

// rackOf returns the pod's rack with its block, as b1/r2.
func (h *hall) rackOf(pod *corev1.Pod) string {
	h.t.Helper()
	return h.domain(pod, "topology.example.com/block") + "/" + h.domain(pod, "topology.example.com/rack")
}

// racks returns the racks of pods, each once, in order.
func (h *hall) racks(pods []corev1.Pod) (racks []string) {
	h.t.Helper()
	for i := range pods {
		racks = append(racks, h.rackOf(&pods[i]))
	}
	slices.Sort(racks)
	return slices.Compact(racks)
}

func inOneRack() []v1alpha1.TopologyConstraint {
	return []v1alpha1.TopologyConstraint{{Level: "rack"}}
}

func preferringARack(seconds int32) []v1alpha1.TopologyConstraint {
	return []v1alpha1.TopologyConstraint{{Level: "rack", Mode: v1alpha1.TopologyPreferred, WaitSeconds: seconds}}
}

// TestTopologySaysWhyAGangWaits has a gang for each way of waiting, in an empty cluster.
func TestTopologySaysWhyAGangWaits(t *testing.T) {
	h := newHall(t)
	index := func(number string) harness.PodOption {
		return harness.PodLabels(map[string]string{v1alpha1.LabelIndex: number})
	}
	five := h.train("five", 5, inOneRack())
	preferring := h.train("preferring", 5, preferringARack(600))
	unknown := h.train("unknown", 1, []v1alpha1.TopologyConstraint{{Level: "rak"}})
	twice := h.train("twice", 2, []v1alpha1.TopologyConstraint{{Level: "clique", SliceSize: 2}}, index("1"))
	sizes := h.train("sizes", 12, []v1alpha1.TopologyConstraint{{Level: "rack", SliceSize: 4}, {Level: "block", SliceSize: 6}})
	env.Eventually(t, func() error {
		return errors.Join(
			h.waitsSaying(five, "NoDomainFits", "needs 5 in one rack: rack b1/r1 has capacity for 4"),
			h.waitsSaying(preferring, "WaitingForDomain", "it prefers one rack, and waits for that until "),
			h.waitsSaying(unknown, "InvalidGroup", `did you mean "rack"?`),
			h.waitsSaying(twice, "InvalidGroup", "both have the index 1; give them the label scheduling.tutti.dev/index"),
			h.waitsSaying(sizes, "InvalidGroup", "one size must be a multiple of the other"),
		)
	})
	if err := boundOf(t, h.ns, "", 0); err != nil {
		t.Error(err)
	}
}

// TestSlicesAreInCliques: each four members by index are in one clique, all of them in one block, and each pod says so. A member
// that takes the place of another one gets its index, and its clique.
func TestSlicesAreInCliques(t *testing.T) {
	h := newHall(t)
	h.train("train", 12, []v1alpha1.TopologyConstraint{{Level: "block"}, {Level: "clique", SliceSize: 4}}, cpu("4"))
	pods := h.placed("train-", 12)
	sliced := func(pod *corev1.Pod, index int) {
		t.Helper()
		want := fmt.Sprintf("index %d, slice %d", index, index/4)
		if got := fmt.Sprintf("index %s, slice %s", pod.Annotations[v1alpha1.LabelIndex], pod.Annotations[v1alpha1.AnnotationSlice]); got != want {
			t.Errorf("pod %s has %s, want %s", pod.Name, got, want)
		}
		first := &pods[index/4*4]
		if got, want := h.domain(pod, "nvidia.com/gpu.clique"), h.domain(first, "nvidia.com/gpu.clique"); got != want {
			t.Errorf("pod %s is in clique %s, and %s of its slice in %s", pod.Name, got, first.Name, want)
		}
		if got, want := h.domain(pod, "topology.example.com/block"), h.domain(first, "topology.example.com/block"); got != want {
			t.Errorf("pod %s is in block %s, and %s in %s", pod.Name, got, first.Name, want)
		}
	}
	for i := range pods {
		sliced(&pods[i], i)
	}
	if racks := h.racks(pods); racks[0][:2] != racks[len(racks)-1][:2] {
		t.Errorf("the racks are %v, want those of one block", racks)
	}
	if err := env.Client.Delete(t.Context(), env.Pod(h.ns, "train-5"), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	env.Create(t, members(h.ns, "train", "again-", 1, cpu("4"))...)
	sliced(&h.placed("train-again-", 1)[0], 5)
}

// TestAReplacementWaitsForTheRackOfTheOthers: a node is lost with a member, and no capacity is left in their rack. The member
// that comes instead waits, although other racks are empty, and starts when the node is back.
func TestAReplacementWaitsForTheRackOfTheOthers(t *testing.T) {
	h := newHall(t)
	gang := h.train("train", 4, inOneRack())
	pods := h.placed("train-", 4)
	racks := h.racks(pods)
	if len(racks) != 1 {
		t.Fatalf("the gang is in %v, want one rack", racks)
	}
	lost := h.nodes[pods[1].Spec.NodeName]
	if err := errors.Join(env.Cluster.DeleteNodes(t.Context(), lost), env.Client.Delete(t.Context(), &pods[1], client.GracePeriodSeconds(0))); err != nil {
		t.Fatal(err)
	}
	env.Create(t, members(h.ns, "train", "again-", 1, cpu("8"))...)
	env.Eventually(t, func() error {
		return h.degraded(gang, "12 nodes: not in rack "+racks[0]+", where the other members are")
	})
	h.restart()
	env.AfterCycle(t, env.Pod(h.ns, "later", cpu("8")))
	if err := boundOf(t, h.ns, "train-", 3); err != nil {
		t.Error(err)
	}
	h.add(cluster.Node(lost.Name, map[string]string{"cpu": "8"}, cluster.NodeLabels(lost.Labels)))
	if again := h.placed("train-again-", 1); h.rackOf(&again[0]) != racks[0] {
		t.Errorf("the replacement is in %s, want %s", h.rackOf(&again[0]), racks[0])
	}
	env.Eventually(t, func() error { return inGroupPhase(t, gang, v1alpha1.PodGroupRunning) })
}

// TestAGangThatIsBoundInPartKeepsItsRack: the scheduler is killed when three of four members are bound. The next one binds the
// fourth to the one node that is left in their rack, which is not the best one.
func TestAGangThatIsBoundInPartKeepsItsRack(t *testing.T) {
	h := newHall(t)
	h.add(cluster.Node("b2-r2-n5", map[string]string{"cpu": "64"}, cluster.NodeLabels(h.nodes["b2-r2-n4"].Labels))) // the best node by score
	allow := refuse(t, h.ns, `request.name == "train-3" || request.name == "probe"`, "probe", "nowhere")
	gang := h.train("train", 4, inOneRack())
	first := h.racks(h.placed("train-", 3))
	before := uids(t, h.ns)
	h.scheduler.Kill()
	allow()
	h.restart()
	racks := h.racks(h.placed("train-", 4))
	if len(first) != 1 || !slices.Equal(racks, first) {
		t.Errorf("the gang is in %v, its first three members were in %v; want one rack", racks, first)
	}
	now := uids(t, h.ns)
	for name, uid := range before {
		if now[name] != uid {
			t.Errorf("%s was bound, and is another one now", name)
		}
	}
	env.Eventually(t, func() error { return inGroupPhase(t, gang, v1alpha1.PodGroupRunning) })
}

// TestAPreferredRackIsWaitedFor: two gangs of five wait, and no rack has more than four nodes. A restart of the scheduler does
// not make the wait begin again. The first gang gets its rack in time; the second one starts in several when its time is over.
func TestAPreferredRackIsWaitedFor(t *testing.T) {
	h := newHall(t)
	inTime := h.train("in-time", 5, preferringARack(600))
	env.Eventually(t, func() error { return h.waitsSaying(inTime, "WaitingForDomain", "all together for 16") })
	until := "waits for that until " + inTime.Status.QueuedSince.Add(600*time.Second).UTC().Format(time.RFC3339)
	if err := h.says(inTime, until); err != nil {
		t.Fatal(err)
	}
	h.restart()
	env.Create(t, env.Pod(h.ns, "other", harness.OnNode("b1-r1-n1"), cpu("8")))
	env.Eventually(t, func() error { return h.waitsSaying(inTime, "WaitingForDomain", "all together for 15") })
	if err := h.says(inTime, until); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	h.add(cluster.Node("b2-r1-n5", map[string]string{"cpu": "8"}, cluster.NodeLabels(h.nodes["b2-r1-n4"].Labels)))
	if racks := h.racks(h.placed("in-time-", 5)); !slices.Equal(racks, []string{"b2/r1"}) {
		t.Errorf("the gang is in %v, want the rack that got a fifth node", racks)
	}

	over := h.train("over", 5, preferringARack(600))
	env.Eventually(t, func() error { return h.waitsSaying(over, "WaitingForDomain", "all together for 11") })
	end := time.Now().Truncate(time.Second).Add(3 * time.Second)
	seconds := int32(end.Sub(over.Status.QueuedSince.Time) / time.Second)
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"spec":{"topology":[{"level":"rack","mode":"Preferred","waitSeconds":%d}]}}`, seconds))
	if err := env.Client.Patch(t.Context(), over.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
	pods := h.placed("over-", 5)
	if racks := h.racks(pods); !slices.Equal(racks, []string{"b1/r1", "b1/r2"}) {
		t.Errorf("the gang is in %v, want the two racks of the block that has capacity", racks)
	}
	for i := range pods {
		for _, condition := range pods[i].Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.LastTransitionTime.Time.Before(end) {
				t.Errorf("pod %s was bound at %s, its group was to wait until %s", pods[i].Name, condition.LastTransitionTime, end)
			}
		}
	}
}

// TestVictimsAreInOneRack: every rack but one has a pod that may not be evicted. A gang of high priority evicts the pods of that
// rack, and no other.
func TestVictimsAreInOneRack(t *testing.T) {
	h := newHall(t)
	low, high := h.class("topology-low", 10, nil), h.class("topology-high", 1000, nil)
	var pods []client.Object
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		class := low
		if strings.HasSuffix(name, "n1") && name != "b2-r1-n1" {
			class = high
		}
		pods = append(pods, env.Pod(h.ns, "on-"+name, harness.OnNode(name), cpu("8"), ofClass(class)))
	}
	env.Create(t, pods...)
	w := h.witness()
	h.train("train", 4, inOneRack(), ofClass(high))
	if racks := h.racks(h.placed("train-", 4)); !slices.Equal(racks, []string{"b2/r1"}) {
		t.Errorf("the gang is in %v, want the rack of which all pods may be evicted", racks)
	}
	w.evictions(4)
	if err := errors.Join(h.left("on-b2-r1-", 0), h.left("on-", 12)); err != nil {
		t.Error(err)
	}
}
