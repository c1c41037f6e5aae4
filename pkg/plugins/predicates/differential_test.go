package predicates_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/predicates"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// The minimal counts of the test: pairs of a pod and a node, and refusals of each filter.
const (
	enoughPairs    = 20_000
	enoughRefusals = 200
)

// start is the time when every contest starts.
var start = time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)

// The intended differences from kube-scheduler do not change feasibility: the message for a node that reports nothing, and
// amounts above a PiB, which are never drawn.

// unreported is our refusal of a node that reports nothing; kube-scheduler's says that it is short of everything.
const unreported = "the node reports no allocatable resources"

// TestSameAsKubeScheduler compares the engine's results, through the cluster state, its view, the session and all caches
// between queries and cycles, with kube-scheduler's for the same objects.
func TestSameAsKubeScheduler(t *testing.T) {
	score := &score{refusals: map[string]int{}, alone: map[string]int{}}
	for seed := range uint64(32) {
		c := newContest(t, seed, score)
		for range 9 {
			c.change()
			c.compareAll()
			c.compareGang()
		}
	}
	t.Logf("%d pairs, %d refused; by filter %v, alone %v; %d differ by intent", score.pairs, score.refused, score.refusals, score.alone,
		score.tolerated)
	if score.tolerated > score.pairs/100 {
		t.Errorf("%d pairs of %d differ by intent, which is too many", score.tolerated, score.pairs)
	}
	if score.pairs < enoughPairs {
		t.Errorf("%d pairs were compared, want %d", score.pairs, enoughPairs)
	}
	if score.pairs-score.refused < enoughPairs/3 {
		t.Errorf("%d pairs of %d were refused, which is too many to tell filters apart", score.refused, score.pairs)
	}
	for _, filter := range score.filters {
		// A pending pod names no node, so that NodeName never refuses.
		if score.alone[filter] < enoughRefusals && filter != "NodeName" {
			t.Errorf("%s alone refused %d pairs, want %d", filter, score.alone[filter], enoughRefusals)
		}
	}
}

// score counts what was compared.
type score struct {
	pairs, refused int
	filters        []string
	// refusals counts those of each filter, alone those where no other filter refuses.
	refusals, alone map[string]int
	// tolerated counts the answers that differ by intent: see differByIntent.
	tolerated int
}

// add counts a verdict of kube-scheduler's.
func (s *score) add(verdict verdict) {
	s.pairs++
	if len(verdict.by) > 0 {
		s.refused++
	}
	for filter := range verdict.by {
		s.refusals[filter]++
		if len(verdict.by) == 1 {
			s.alone[filter]++
		}
	}
}

// contest is one cluster, in our state and in kube-scheduler's.
type contest struct {
	random
	t     *testing.T
	seed  uint64
	score *score

	client    *fake.Clientset
	factories []informers.SharedInformerFactory
	kube      *kube.Plugins
	reference *reference
	state     *cluster.State
	profile   *engine.Profile
	// cache is what sessions pass on, as in the scheduler.
	cache engine.Cache

	revision int
	nodes    map[string]*corev1.Node
	rules    map[string]*resourceapi.DeviceTaintRule
	// placed are the pods on nodes, waiting those without.
	placed, waiting map[string]*corev1.Pod
	// devicesOf are the devices of nodes, claims the claims, as the cluster state was told.
	devicesOf map[string]*kube.NodeDevices
	claims    map[string]*resourceapi.ResourceClaim
}

func newContest(t *testing.T, seed uint64, score *score) *contest {
	t.Helper()
	c := &contest{
		random: random{rand.New(rand.NewPCG(seed, 7))}, t: t, seed: seed, score: score,
		state: cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}}),
		nodes: map[string]*corev1.Node{}, rules: map[string]*resourceapi.DeviceTaintRule{}, placed: map[string]*corev1.Pod{}, waiting: map[string]*corev1.Pod{},
	}
	pods, claims := c.scratchers()
	client := fake.NewClientset(append(c.objects(), claims...)...)
	c.client, c.reference = client, newReference(t, client)
	score.filters = c.reference.filters

	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(client, 0)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	c.factories = []informers.SharedInformerFactory{factory, c.reference.factory}
	kubePlugins, err := kube.New(ctx, kube.Deps{Lister: c.state.View(), Informers: factory, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	c.kube = kubePlugins
	plugin, err := predicates.New(kubePlugins, topology.New(kubePlugins))
	if err != nil {
		t.Fatal(err)
	}
	c.profile = &engine.Profile{Tiers: []engine.Tier{{{Factory: plugin}}}}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if !clientcache.WaitForCacheSync(ctx.Done(), kubePlugins.HasSynced) {
		t.Fatal("the plugins did not sync")
	}
	c.follow()
	c.tellClaims()
	for _, pod := range pods {
		c.add(c.waiting, pod)
	}
	return c
}

// objects are the other objects in the API server.
func (c *contest) objects() []runtime.Object {
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "b"}}},
	}
	return slices.Concat(objects, c.storage(), c.devices(), probed())
}

// otherEvent is the event for objects that only the plugins read.
var otherEvent = &cluster.OtherSeen{}

func (c *contest) tell(event cluster.Event) { c.state.Apply(event) }

func (c *contest) version() string {
	c.revision++
	return strconv.Itoa(c.revision)
}

// change advances the time: nodes are added, removed and changed, pods end and others begin.
func (c *contest) change() {
	c.changeObjects()
	c.changeClass()
	c.changeRules()
	for name := range maxNodes {
		c.changeNode(nodeName(name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.placed)) {
		switch c.IntN(4) {
		case 0, 1:
			c.remove(c.placed, name)
		case 2:
			c.add(c.placed, c.again(c.placed[name]))
		}
	}
	names := slices.Sorted(maps.Keys(c.nodes))
	for len(c.placed) < 14 {
		c.add(c.placed, c.withoutDevices(c.pod(fmt.Sprint("p", c.revision), names[c.IntN(len(names))], c.IntN(3))))
	}
	for _, name := range slices.Sorted(maps.Keys(c.waiting)) {
		switch c.IntN(6) {
		case 0:
		case 1:
			c.add(c.waiting, c.again(c.waiting[name]))
		default:
			if !strings.HasPrefix(name, "own-") {
				c.remove(c.waiting, name)
			}
		}
	}
	for len(c.waiting) < 25 {
		c.add(c.waiting, c.newcomer())
	}
}

// changeObjects changes what neither the cluster state nor the snapshot holds: the labels of a namespace and what a node can
// attach.
func (c *contest) changeObjects() {
	ctx, core, storage := context.Background(), c.client.CoreV1().Namespaces(), c.client.StorageV1().CSINodes()
	other, err := core.Get(ctx, "other", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	other = other.DeepCopy()
	other.Labels["team"] = pick(c.random, "a", "b", "c")
	if _, err := core.Update(ctx, other, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	all, err := storage.List(ctx, metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	limit := int32(1 + c.IntN(3))
	node := csiNode(all.Items[c.IntN(len(all.Items))].Name, &limit)
	if node, err = storage.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	seen := func(context.Context) (bool, error) {
		return !slices.ContainsFunc(c.factories, func(f informers.SharedInformerFactory) bool {
			namespace, err := f.Core().V1().Namespaces().Lister().Get("other")
			if err != nil || namespace.Labels["team"] != other.Labels["team"] {
				return true
			}
			known, err := f.Storage().V1().CSINodes().Lister().Get(node.Name)
			return err != nil || !equality.Semantic.DeepEqual(known.Spec, node.Spec)
		}), nil
	}
	if err := wait.PollUntilContextCancel(c.t.Context(), time.Millisecond, true, seen); err != nil {
		c.t.Fatal(err)
	}
	c.tell(otherEvent)
}

// changeNode adds the node, removes it, draws it again, or changes one field.
func (c *contest) changeNode(name string) {
	before := c.nodes[name]
	if before != nil && c.oneIn(12) {
		c.removeNode(name)
		return
	}
	if before != nil && c.oneIn(3) {
		return
	}
	node := c.node(name)
	node.ResourceVersion = c.version()
	if node.UID = types.UID(name + "#" + node.ResourceVersion); before != nil {
		node.UID = before.UID
	}
	if before != nil && !c.oneIn(4) {
		fresh := node
		node = before.DeepCopy()
		node.ResourceVersion = fresh.ResourceVersion
		switch c.IntN(5) {
		case 0:
			node.Labels = fresh.Labels
		case 1:
			node.Spec.Taints = fresh.Spec.Taints
		case 2:
			node.Spec.Unschedulable = fresh.Spec.Unschedulable
		case 3:
			node.Status.Allocatable = fresh.Status.Allocatable
		default:
			node.Status.DeclaredFeatures = fresh.Status.DeclaredFeatures
		}
	}
	c.nodes[name] = node
	c.tell(&cluster.NodeSeen{Node: cluster.StripNode(node)})
}

// again is a later version of a pod: with other labels, another status, or another spec.
func (c *contest) again(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	switch {
	case c.oneIn(2):
		pod.Labels["app"] = c.app()
	case pod.Spec.NodeName != "" && c.oneIn(2):
		c.status(pod)
	case pod.Spec.NodeName != "":
		pod.Generation++
		pod.Spec.Containers[0].Resources.Requests = c.requests()
	default:
		pod.Generation++
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	}
	return pod
}

// newcomer draws a pending pod; some are equal to a pending one, except for the name.
func (c *contest) newcomer() *corev1.Pod {
	name := fmt.Sprint("w", c.revision)
	waiting := sorted(c.waiting)
	if like := waiting[c.IntN(len(waiting))].DeepCopy(); c.oneIn(4) && !scratches(like) {
		like.Name, like.UID, like.Generation = name, types.UID(name), 1
		return like
	}
	return c.pod(name, "", 1+c.IntN(3))
}

func (c *contest) removeNode(name string) {
	for _, pod := range slices.Sorted(maps.Keys(c.placed)) {
		if c.placed[pod].Spec.NodeName == name {
			c.remove(c.placed, pod)
		}
	}
	node := c.nodes[name].DeepCopy()
	node.ResourceVersion = c.version()
	delete(c.nodes, name)
	c.tell(&cluster.NodeSeen{Node: node, Gone: true})
}

func (c *contest) add(to map[string]*corev1.Pod, pod *corev1.Pod) {
	pod.ResourceVersion, pod.Generation = c.version(), max(1, pod.Generation)
	to[pod.Name] = pod
	c.tell(&cluster.PodSeen{Pod: cluster.StripPod(pod.DeepCopy())})
}

func (c *contest) remove(from map[string]*corev1.Pod, name string) {
	pod := from[name].DeepCopy()
	pod.ResourceVersion = c.version()
	delete(from, name)
	c.tell(&cluster.PodSeen{Pod: cluster.StripPod(pod), Gone: true})
}

func sorted[T any](all map[string]T) []T {
	list := make([]T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

func (c *contest) open() *engine.Session {
	return engine.Open(c.state.Snapshot(start), c.profile, engine.Options{Cache: &c.cache, Verify: true})
}

func task(session *engine.Session, pod *corev1.Pod) *model.Task {
	return session.Snapshot.Job(model.JobKey{Namespace: pod.Namespace, Name: pod.Name, Source: model.SourcePod}).Tasks[0]
}

// scratches reports whether a claim is created with the pod and for no other.
func scratches(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
}

// compareAll compares every pending pod, with nothing placed.
func (c *contest) compareAll() {
	session := c.open()
	defer session.Close()
	for _, pod := range sorted(c.waiting) {
		c.compare(session, pod, sorted(c.placed))
	}
}

// compareGang places pods one after another within a statement, like members of a gang, with their volumes and devices; it
// compares the next one each time, and undoes everything.
func (c *contest) compareGang() {
	session := c.open()
	defer session.Close()
	waiting := sorted(c.waiting)
	c.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
	before := &model.Refusal{Code: model.NodesFiltered, Detail: "only asking"}
	session.Try(func(statement *engine.Statement) *model.Refusal {
		placed := sorted(c.placed)
		for _, pod := range waiting[:10] {
			feasible := c.compare(session, pod, placed)
			if len(feasible) == 0 {
				continue
			}
			node := feasible[c.IntN(len(feasible))]
			one := task(session, pod)
			if refusal := statement.Put(session.Ask(session.Snapshot.Job(one.Job), model.Idle), one, node); refusal != nil {
				c.fail(pod, placed, "placing it on %s, which is feasible, is refused: %s", node.Name, refusal)
			}
			there := pod.DeepCopy()
			there.Spec.NodeName = node.Name
			defer c.reference.reserve(c.t, there)()
			placed = append(placed, there)
		}
		return before
	})
	c.compare(session, waiting[0], sorted(c.placed))
}

// compare compares the results for a pod and all nodes, and returns the nodes that are feasible.
func (c *contest) compare(session *engine.Session, pod *corev1.Pod, placed []*corev1.Pod) []*model.Node {
	nodes := sorted(c.nodes)
	if len(session.Snapshot.Nodes) != len(nodes) {
		c.fail(pod, placed, "the snapshot has %d nodes, want %d", len(session.Snapshot.Nodes), len(nodes))
	}
	verdicts := c.reference.judge(c.t, pod, nodes, placed)
	one := task(session, pod)
	feasible := session.Ask(session.Snapshot.Job(one.Job), model.Idle).All(one)
	var both []*model.Node
	for i, verdict := range verdicts {
		if len(nodes[i].Status.Allocatable) == 0 && len(verdict.by) > 0 {
			verdicts[i].by["NodeResourcesFit"] = []string{unreported}
		}
		ours := slices.ContainsFunc(feasible, func(n *model.Node) bool { return n.Name == nodes[i].Name })
		if theirs := len(verdict.by) == 0; ours && theirs {
			both = append(both, feasible[slices.IndexFunc(feasible, func(n *model.Node) bool { return n.Name == nodes[i].Name })])
		}
		c.score.add(verdict)
		c.differByIntent(pod, nodes[i], placed, &verdicts[i], ours)
		if verdict = verdicts[i]; ours != (len(verdict.by) == 0) {
			_, tally := session.Ask(session.Snapshot.Job(one.Job), model.Idle).BestOrWhy(one, nowhere)
			c.fail(pod, placed, "node %s: we say %v, kube-scheduler refuses by %v; we count %v", nodes[i].Name, ours, verdict.by,
				tally.Causes())
		}
	}
	chosen := session.Ask(session.Snapshot.Job(one.Job), model.Idle).Best(one, nil)
	if (chosen != nil) != (len(feasible) > 0) || chosen != nil && !slices.Contains(feasible, chosen) {
		c.fail(pod, placed, "chosen is %v, which is not one of the feasible", chosen)
	}
	_, tally := session.Ask(session.Snapshot.Job(one.Job), model.Idle).BestOrWhy(one, nowhere)
	if wrong := compareReasons(tally.Causes(), verdicts); wrong != "" {
		c.fail(pod, placed, "%s", wrong)
	}
	return both
}

// nowhere rejects all nodes, so that every refusal is counted.
func nowhere(*model.Node) bool { return false }

// compareReasons compares our counted reasons with kube-scheduler's. Where one filter alone refuses a node the reason is its;
// where several do it may be any of theirs. It returns the difference.
func compareReasons(causes []model.NodeReason, verdicts []verdict) string {
	counted, least, most, refused, sum := map[string]int{}, map[string]int{}, map[string]int{}, 0, 0
	for _, cause := range causes {
		reason := cause.Detail
		if cause.Code == model.InsufficientResources {
			reason = "lacks " + reason
		}
		if strings.HasPrefix(reason, "had untolerated taint ") { // kube-scheduler does not report which one
			reason = "had untolerated taint(s)"
		}
		counted[reason] += cause.Nodes
		sum += cause.Nodes
	}
	for _, verdict := range verdicts {
		allowed := verdict.allowed()
		if len(allowed) == 0 {
			continue
		}
		refused++
		for _, reason := range allowed {
			most[reason]++
		}
		if len(allowed) == 1 {
			least[allowed[0]]++
		}
	}
	if sum != refused {
		return fmt.Sprintf("we count %d refusals, kube-scheduler %d: %v", sum, refused, counted)
	}
	for _, reason := range slices.Sorted(maps.Keys(most)) {
		if counted[reason] < least[reason] || counted[reason] > most[reason] {
			return fmt.Sprintf("we count %d times %q, kube-scheduler %d to %d times: %v", counted[reason], reason,
				least[reason], most[reason], counted)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(counted)) {
		if most[reason] == 0 {
			return fmt.Sprintf("we count %q, which kube-scheduler does not say: %v", reason, most)
		}
	}
	return ""
}

// fail ends the test with the objects of the case.
func (c *contest) fail(pod *corev1.Pod, placed []*corev1.Pod, format string, args ...any) {
	c.t.Helper()
	text := func(object any) string {
		b, err := json.Marshal(object)
		return cmp.Or(string(b), fmt.Sprint(err))
	}
	for _, node := range sorted(c.nodes) {
		c.t.Logf("node %s", text(node))
	}
	for _, other := range placed {
		c.t.Logf("placed %s", text(other))
	}
	c.t.Logf("pod %s", text(pod))
	c.t.Fatalf("seed %d: %s", c.seed, fmt.Sprintf(format, args...))
}
