package topology_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// machine is a cluster that random actions change, and an index that follows it.
type machine struct {
	draw
	oracle   *oracle
	index    *topology.Index
	snapshot *model.Snapshot
	tasks    []*model.Task
	// asked are pods that are queried again and again.
	asked []*corev1.Pod
	nodes int
	tally map[string]int
}

// TestSameAsKubeScheduler compares every refusal, with its message, and every score with kube-scheduler's own plugins,
// through random histories.
func TestSameAsKubeScheduler(t *testing.T) {
	o := newOracle(t)
	tally := map[string]int{}
	for round := range 10 { // histories are short, so more of them than usual
		tight := round%2 == 1
		t.Run(fmt.Sprintf("%d tight=%v", round, tight), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := &machine{draw: draw{t: t}, oracle: o, snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}, tally: tally}
				m.index = topology.New(o)
				if tight {
					m.index = topology.NewTight(o)
				}
				o.reset(t)
				for _, name := range []string{"a", "b"} { // c is added later or never
					m.setNamespace(name)
				}
				for range 2 + m.upTo("nodes", 4) {
					m.addNode()
				}
				m.index.Follow(m.snapshot)
				t.Repeat(m.actions())
			})
		})
	}
	for _, seen := range []string{
		"", "didn't match pod topology spread constraints", "didn't match pod topology spread constraints (missing required label)",
		"didn't match pod affinity rules", "didn't match pod anti-affinity rules", "didn't satisfy existing pods anti-affinity rules",
		"affinity scores", "spread scores", "default spread scores",
	} {
		if tally[seen] < 20 {
			t.Errorf("%q was seen %d times, which proves little", seen, tally[seen])
		}
	}
}

func (m *machine) actions() map[string]func(*rapid.T) {
	act := func(do func()) func(*rapid.T) {
		return func(t *rapid.T) {
			m.t = t
			do()
		}
	}
	return map[string]func(*rapid.T){
		"create": act(func() {
			pod := m.pod()
			task := &model.Task{PodRef: model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}, Pod: pod}
			m.tasks = append(m.tasks, task)
			m.toggle(task)
		}),
		"move":    act(func() { m.eachTask(m.toggle) }),
		"change":  act(func() { m.eachTask(m.change) }),
		"relabel": act(m.relabel),
		"addNode": act(func() {
			m.addNode()
			m.index.Follow(m.snapshot)
		}),
		"dropNode":  act(m.dropNode),
		"namespace": act(func() { m.setNamespace(m.namespace()); m.index.Follow(m.snapshot) }),
		"owner":     act(m.setOwner),
		"session":   act(func() { m.index.Follow(m.snapshot) }),
		"ask":       act(m.ask),
		"askTask":   act(func() { m.eachTask(func(task *model.Task) { m.compare(task.Pod) }) }),
		"askAgain":  act(m.askAgain),
		"askAgain2": act(m.askAgain),
		"":          func(*rapid.T) {},
	}
}

func (m *machine) setNamespace(name string) {
	if err := m.oracle.namespaces.Update(m.namespaceObject(name)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) setOwner() {
	core, apps := m.oracle.informers.Core().V1(), m.oracle.informers.Apps().V1()
	err := core.Services().Informer().GetIndexer().Update(m.service())
	if err == nil {
		err = apps.ReplicaSets().Informer().GetIndexer().Update(m.replicas())
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) addNode() {
	name := fmt.Sprint("n", m.nodes)
	m.nodes++
	nodes := append(slices.Clone(m.snapshot.Nodes), &model.Node{Name: name, Object: m.node(name)})
	slices.SortFunc(nodes, func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) })
	m.snapshot.SetNodes(nodes)
}

func (m *machine) dropNode() {
	if len(m.snapshot.Nodes) < 2 {
		return
	}
	i := m.upTo("node", len(m.snapshot.Nodes)-1)
	for _, task := range m.snapshot.Nodes[i].Tasks {
		task.Placement = model.Placement{}
	}
	m.snapshot.SetNodes(slices.Delete(slices.Clone(m.snapshot.Nodes), i, i+1))
	m.index.Follow(m.snapshot)
}

// relabel replaces a node's object; heartbeats, which change nothing, are not in the journal.
func (m *machine) relabel() {
	node := m.anyNode()
	node.Object = m.node(node.Name)
	m.snapshot.NodeChanged(node)
	m.index.Follow(m.snapshot)
}

func (m *machine) anyNode() *model.Node {
	return m.snapshot.Nodes[m.upTo("node", len(m.snapshot.Nodes)-1)]
}

func (m *machine) eachTask(do func(*model.Task)) {
	if len(m.tasks) > 0 {
		do(m.tasks[m.upTo("task", len(m.tasks)-1)])
	}
}

// toggle places a task, or removes it.
func (m *machine) toggle(task *model.Task) {
	to := model.Placement{}
	if !task.Status.HasNode() {
		to = model.Placement{Status: model.Allocated, Node: m.anyNode().Name}
	}
	m.snapshot.Move(task, to)
}

// change replaces a task's pod, as the watch does.
func (m *machine) change(task *model.Task) {
	fresh := m.pod()
	fresh.ObjectMeta.UID, fresh.ObjectMeta.Name = task.UID, task.Name
	fresh.Namespace = task.Namespace
	m.snapshot.Update(task, func(t *model.Task) { t.Pod = fresh })
}

func (m *machine) ask() { m.compare(m.pod()) }

// askAgain repeats a query for a pod, so that cached counts are used.
func (m *machine) askAgain() {
	if len(m.asked) < 2 {
		m.asked = append(m.asked, m.pod())
	}
	m.compare(m.asked[m.upTo("asked", len(m.asked)-1)])
}

// compare compares all results for one pod with kube-scheduler's.
func (m *machine) compare(pod *corev1.Pod) {
	m.oracle.show(m.snapshot)
	nodes := m.snapshot.Nodes
	spread, affinity := m.spreadAnswers(pod), m.affinityAnswers(pod)
	m.equal(pod, "spread", spread, m.oracle.filter(m.t, m.oracle.spread, pod, nodes))
	m.equal(pod, "affinity", affinity, m.oracle.filter(m.t, m.oracle.affinity[1], pod, nodes))

	var candidates []*model.Node
	for _, node := range nodes {
		if m.upTo("candidate", 3) > 0 {
			candidates = append(candidates, node)
		}
	}
	if len(candidates) == 0 {
		return
	}
	m.sameSpread(pod, candidates, m.index.SpreadScore(pod, candidates), m.oracle.spread, "spread scores")
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		byDefault := m.index.DefaultSpreadScore(pod, m.oracle.sameKind(pod), candidates)
		m.sameSpread(pod, candidates, byDefault, m.oracle.spreadAll, "default spread scores")
	}
	for _, weight := range []int64{0, 1, 30} {
		m.compareAffinityScore(pod, candidates, weight)
	}
}

func (m *machine) sameSpread(
	pod *corev1.Pod, candidates []*model.Node, s *topology.SpreadScore, plugin fwk.Plugin, what string,
) {
	var points []int64
	if s != nil {
		for _, node := range candidates {
			points = append(points, s.Of(node))
		}
	}
	want := m.oracle.score(m.t, plugin, pod, candidates)
	if !slices.Equal(points, want) {
		m.t.Fatalf("%s: %s are %v, kube-scheduler's %v", podText(pod), what, points, want)
	}
	m.note(what, want)
}

func (m *machine) compareAffinityScore(pod *corev1.Pod, candidates []*model.Node, weight int64) {
	var points []int64
	if s := m.index.AffinityScore(pod, weight); s != nil {
		for _, node := range candidates {
			points = append(points, s.Of(node))
		}
		points = byRange(points)
	}
	want := m.oracle.score(m.t, m.oracle.affinity[weight], pod, candidates)
	m.note("affinity scores", want)
	if len(points) != len(want) {
		m.t.Fatalf("%s: affinity scores with %d are %v, kube-scheduler's %v", podText(pod), weight, points, want)
	}
	for i := range want {
		// Their floats may be one lower than the exact number.
		if points[i] != want[i] && points[i] != want[i]+1 {
			m.t.Fatalf("%s: affinity scores with %d are %v, kube-scheduler's %v", podText(pod), weight, points, want)
		}
	}
}

// note counts scores that distinguish nodes.
func (m *machine) note(what string, points []int64) {
	if len(points) > 0 && slices.Min(points) < slices.Max(points) {
		m.tally[what]++
	}
}

func (m *machine) equal(pod *corev1.Pod, what string, ours, theirs []answer) {
	for i, node := range m.snapshot.Nodes {
		want := theirs[i]
		want.text = strings.TrimPrefix(want.text, "node(s) ")
		if ours[i] != want {
			m.t.Fatalf("%s on %s: %s says %+v, kube-scheduler %+v", podText(pod), node.Name, what, ours[i], want)
		}
		m.tally[want.text]++
	}
}

func (m *machine) spreadAnswers(pod *corev1.Pod) []answer {
	f, err := m.index.Spread(pod)
	return m.answers(err, func(node *model.Node) topology.Reason {
		if f == nil {
			return topology.Fits
		}
		return f.Check(node)
	})
}

func (m *machine) affinityAnswers(pod *corev1.Pod) []answer {
	f, err := m.index.Affinity(pod)
	return m.answers(err, func(node *model.Node) topology.Reason {
		if f == nil {
			return topology.Fits
		}
		return f.Check(node)
	})
}

func (m *machine) answers(err error, check func(*model.Node) topology.Reason) []answer {
	answers := make([]answer, len(m.snapshot.Nodes))
	for i, node := range m.snapshot.Nodes {
		if err != nil {
			answers[i] = answer{text: err.Error()}
			continue
		}
		reason := check(node)
		answers[i] = answer{text: reason.String(), evictable: reason.Evictable()}
	}
	return answers
}

func podText(pod *corev1.Pod) string {
	return fmt.Sprintf("pod %s labels %v affinity %v spread %v", pod.Namespace, pod.Labels, pod.Spec.Affinity,
		pod.Spec.TopologySpreadConstraints)
}
