package isolcpu_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/isolcpu"
)

// house is a cluster state with one node of 14 allocatable CPUs, of which 8-15 are isolated, and an API server made of maps.
type house struct {
	t       testing.TB
	state   *cluster.State
	profile *engine.Profile
	cache   engine.Cache
	version int
	now     time.Time
	pods    map[types.UID]*corev1.Pod
	// coming are binds in flight.
	coming map[types.UID]model.Bind
	// memoryOf is how much memory the node has; none when empty.
	memoryOf string
	// lost reports whether decisions are not carried out.
	lost bool
}

func newHouse(t testing.TB) *house {
	t.Helper()
	options := isolcpu.Options{BestFit: 1, Avoid: 1}
	profile := &engine.Profile{Tiers: []engine.Tier{{{Factory: isolcpu.New(options)}, {Factory: anyVictim}}}}
	h := &house{
		t: t, profile: profile, now: time.Unix(1_700_000_000, 0), pods: map[types.UID]*corev1.Pod{}, coming: map[types.UID]model.Bind{},
		state: cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}, Translators: profile.Translators()}),
	}
	h.node("14", "8-11", "12-15", isolated.Included)
	return h
}

// anyVictim leaves the choice of victims to the engine's rules.
func anyVictim() framework.Plugin { return allUsers{} }

type allUsers struct{}

func (allUsers) Name() string { return "allUsers" }

func (allUsers) FilterVictims(_ *model.Job, units []framework.EvictionUnit) ([]framework.EvictionUnit, bool) {
	return units, true
}

// node draws the node again, with two NUMA nodes of isolated CPUs, cores of two threads.
func (h *house) node(allocatable, first, second string, mode isolated.Mode) {
	h.version++
	topology := &isolated.Topology{
		Version: 1, Generation: int64(h.version), Source: "isolcpus", Mode: mode, ThreadsPerCore: 2,
	}
	for id, list := range []string{first, second} {
		numa := isolated.NUMANode{ID: id, CPUs: h.set(list)}
		for cpu := numa.CPUs.Next(0); cpu >= 0; cpu = numa.CPUs.Next(cpu + 1) {
			if cpu%2 == 0 {
				numa.Cores = append(numa.Cores, isolated.NewCPUSet(cpu, cpu+1).Intersect(numa.CPUs))
			} else if !numa.CPUs.Has(cpu - 1) {
				numa.Cores = append(numa.Cores, isolated.NewCPUSet(cpu))
			}
		}
		topology.NUMA, topology.Isolated = append(topology.NUMA, numa), topology.Isolated.Union(numa.CPUs)
	}
	topology.Online = topology.Isolated
	text, err := topology.Text()
	if err != nil {
		h.t.Fatal(err)
	}
	h.state.Apply(&cluster.NodeSeen{Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "a", ResourceVersion: strconv.Itoa(h.version), Annotations: map[string]string{isolated.TopologyAnnotation: text},
		},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(allocatable), corev1.ResourcePods: resource.MustParse("110"),
			corev1.ResourceMemory: resource.MustParse(cmp.Or(h.memoryOf, "0")),
		}},
	}})
}

func (h *house) set(list string) isolated.CPUSet {
	set, err := isolated.ParseSet(list)
	if err != nil {
		h.t.Fatal(err)
	}
	return set
}

// newPod returns a pending pod that is not yet in the house; annotations are name, value, and so on.
func newPod(name, cpu string, annotations ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Generation: 1, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "tutti",
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	return pod
}

// tell writes a pod and sends its event to the state.
func (h *house) tell(pod *corev1.Pod) {
	h.version++
	pod.ResourceVersion = strconv.Itoa(h.version)
	h.pods[pod.UID] = pod
	h.state.Apply(&cluster.PodSeen{Pod: cluster.StripPod(pod)})
}

func (h *house) remove(pod *corev1.Pod) {
	h.version++
	gone := pod.DeepCopy()
	gone.ResourceVersion = strconv.Itoa(h.version)
	delete(h.pods, pod.UID)
	delete(h.coming, pod.UID)
	h.state.Apply(&cluster.PodSeen{Pod: cluster.StripPod(gone), Gone: true})
}

// session runs a body on a session in verify mode, and assumes its decisions.
func (h *house) session(body func(*engine.Session)) {
	s := engine.Open(h.state.Snapshot(h.now), h.profile, engine.Options{
		Verify: true, Cache: &h.cache,
		Decide: func(decision model.Decision) {
			if h.lost {
				return
			}
			h.state.Assume(decision)
			for _, bind := range decision.Binds {
				h.coming[bind.Pod.UID] = bind
			}
		},
	})
	body(s)
	s.Close()
}

// place places all pending pods that fit.
func (h *house) place() {
	h.session(func(s *engine.Session) {
		for _, job := range s.Snapshot.Jobs {
			for _, task := range job.Pending() {
				s.Try(func(statement *engine.Statement) *model.Refusal {
					if task.Invalid != nil {
						return task.Invalid
					}
					node, tally := s.Ask(s.Snapshot.Job(task.Job), model.Idle).BestOrWhy(task, nil)
					if node == nil {
						return tally.Refusal(1, 0, "")
					}
					return statement.Put(s.Ask(s.Snapshot.Job(task.Job), model.Idle), task, node)
				})
			}
		}
	})
}

// confirm sends the watch event of a bind.
func (h *house) confirm(uid types.UID) {
	bind := h.coming[uid]
	delete(h.coming, uid)
	pod := h.pods[uid].DeepCopy()
	pod.Spec.NodeName, pod.Status.Phase = bind.Node, corev1.PodRunning
	if bind.Isolated != nil {
		maps.Copy(pod.Annotations, bind.Isolated.Annotations)
	}
	h.tell(pod)
}

// idle returns the idle amounts of both pools, and the CPUs that are held.
func (h *house) idle() (ordinary, count int64, held isolated.CPUSet) {
	snapshot := h.state.Snapshot(h.now)
	position, _ := snapshot.Dimensions.Find(isolated.Resource)
	node := snapshot.Node("a")
	return node.Idle(model.CPU), node.Idle(position), node.HeldCPUs(false)
}

func TestTwoPools(t *testing.T) {
	h := newHouse(t)
	for i := range 3 {
		h.tell(newPod(fmt.Sprintf("i-%d", i), "2", isolated.RequestAnnotation, "true"))
	}
	for i := range 2 {
		h.tell(newPod(fmt.Sprintf("o-%d", i), "1500m"))
	}
	h.place()
	for range 2 { // assumed, and confirmed
		ordinary, count, held := h.idle()
		if ordinary != 3000 || count != 2 || held.Len() != 6 {
			t.Errorf("idle %dm and %d isolated, held %s; want 3000m and 2", ordinary, count, held)
		}
		for uid := range h.coming {
			h.confirm(uid)
		}
	}
	for _, pod := range h.pods {
		h.remove(pod)
	}
	if ordinary, count, held := h.idle(); ordinary != 6000 || count != 8 || !held.Empty() {
		t.Errorf("in the end idle %dm and %d isolated, held %s; want 6000m and 8", ordinary, count, held)
	}
}

// TestClaimedBeforeItIsBound: an assignment on a pod without a node is ignored, and counts once it has one, whether or not it
// was seen before.
func TestClaimedBeforeItIsBound(t *testing.T) {
	pod := newPod("p", "2", isolated.AssignedAnnotation, `{"v":1,"node":"a","uid":"p","cpus":"8-9","containers":{"main":"8-9"}}`)
	bound := pod.DeepCopy()
	bound.Spec.NodeName = "a"
	for _, seen := range []bool{false, true} {
		h := newHouse(t)
		if seen {
			h.tell(pod)
			h.idle()
		}
		h.tell(bound.DeepCopy())
		if ordinary, count, held := h.idle(); ordinary != 6000 || count != 6 || held.Len() != 2 {
			t.Errorf("seen before: %v; idle %dm and %d isolated, held %s; want 6000m and 6, held 8-9", seen, ordinary, count, held)
		}
	}
}

// TestBoundByAnotherMeanwhile: an assignment is charged while the bind is in flight, and no longer.
func TestBoundByAnotherMeanwhile(t *testing.T) {
	h := newHouse(t)
	h.tell(newPod("p", "2", isolated.RequestAnnotation, "true"))
	h.place()
	pod := h.pods["p"].DeepCopy()
	delete(pod.Annotations, isolated.RequestAnnotation)
	h.tell(pod.DeepCopy())
	if ordinary, count, held := h.idle(); ordinary != 6000 || count != 6 || held.Len() != 2 {
		t.Errorf("in flight: idle %dm and %d isolated, held %s; want 6000m and 6", ordinary, count, held)
	}
	pod.Spec.NodeName = "a"
	h.tell(pod)
	if ordinary, count, held := h.idle(); ordinary != 4000 || count != 8 || !held.Empty() {
		t.Errorf("bound by another: idle %dm and %d isolated, held %s; want 4000m and 8", ordinary, count, held)
	}
}

// steps is how many random steps TestNothingLeaks takes.
const steps = 100_000

// TestNothingLeaks adds, places, evicts, undoes, confirms, forgets, edits, finishes and removes at random, with a node that
// changes, and compares after each step the ids that pods hold. When all pods are gone both pools are as at the start.
func TestNothingLeaks(t *testing.T) {
	h := newHouse(t)
	random := rand.New(rand.NewPCG(1, 2))
	for step := range steps {
		h.step(random, step)
		h.check(step)
	}
	for _, pod := range h.pods {
		h.remove(pod)
	}
	h.node("14", "8-11", "12-15", isolated.Included)
	ordinary, count, held := h.idle()
	if ordinary != 6000 || count != 8 || !held.Empty() {
		t.Errorf("in the end idle %dm and %d isolated, held %s; want 6000m and 8", ordinary, count, held)
	}
	if node := h.state.Snapshot(h.now).Node("a"); node.HasReleasing() || len(node.Tasks) > 0 {
		t.Errorf("in the end %v are being released by %v", node.Amounts().Releasing, node.Tasks)
	}
}

// any returns one of the pods that satisfy the condition, nil when none does.
func (h *house) any(random *rand.Rand, condition func(*corev1.Pod) bool) *corev1.Pod {
	var names []types.UID
	for uid, pod := range h.pods {
		if condition(pod) {
			names = append(names, uid)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return h.pods[names[random.IntN(len(names))]]
}

// anyComing returns one of the binds in flight.
func (h *house) anyComing(random *rand.Rand) (uid types.UID, on bool) {
	pod := h.any(random, func(pod *corev1.Pod) bool { _, on := h.coming[pod.UID]; return on })
	if pod == nil {
		return "", false
	}
	return pod.UID, true
}

func (h *house) step(random *rand.Rand, step int) {
	another := func(*corev1.Pod) bool { return true }
	switch pod := h.any(random, another); random.IntN(14) {
	case 0, 1, 2:
		if len(h.pods) < 12 {
			h.tell(h.randomPod(random, fmt.Sprintf("p-%d", step)))
		}
	case 3, 4:
		h.lost = random.IntN(4) == 0
		h.place()
		h.lost = false
	case 5:
		h.try(random)
	case 6, 7, 8:
		uid, on := h.anyComing(random)
		switch {
		case !on:
		case random.IntN(3) > 0 && h.pods[uid].DeletionTimestamp == nil:
			h.confirm(uid)
		default: // the API server binds no pod that is being deleted
			delete(h.coming, uid)
			h.state.Forget(uid)
		}
	case 9:
		h.resize(random)
	default:
		if pod != nil {
			h.befall(random, pod.DeepCopy())
		}
	}
}

// randomPod is of any kind, including pods bound by other schedulers, with CPUs of another pod, or with none.
func (h *house) randomPod(random *rand.Rand, name string) *corev1.Pod {
	pod := newPod(name, []string{"1", "2", "3", "4", "500m"}[random.IntN(5)])
	priority := int32(random.IntN(3))
	pod.Spec.Priority = &priority
	if random.IntN(3) > 0 {
		pod.Annotations[isolated.RequestAnnotation] = []string{"true", "main", "main,side"}[random.IntN(3)]
	}
	pod.Annotations[isolated.SMTAnnotation] = string([]isolated.SMT{
		isolated.PreferFullCore, isolated.RequireFullCore, isolated.OnePerCore,
	}[random.IntN(3)])
	pod.Annotations[isolated.NUMAAnnotation] = string([]isolated.NUMA{isolated.NUMAPreferred, isolated.NUMARequired}[random.IntN(2)])
	if random.IntN(3) == 0 {
		side := *pod.Spec.Containers[0].DeepCopy()
		side.Name = "side"
		pod.Spec.Containers = append(pod.Spec.Containers, side)
	}
	if random.IntN(10) == 0 {
		pod.Spec.NodeName, pod.Spec.SchedulerName = "a", "other"
		if random.IntN(2) == 0 {
			pod.Annotations[isolated.AssignedAnnotation] = `{"v":1,"node":"a","uid":"x","cpus":"8","containers":{}}`
		}
	}
	return pod
}

// try makes statements that are discarded, or evict for a nomination.
func (h *house) try(random *rand.Rand) {
	h.session(func(s *engine.Session) {
		node := s.Snapshot.Nodes[0]
		s.Try(func(statement *engine.Statement) *model.Refusal {
			for _, task := range slices.Clone(node.Tasks) {
				if random.IntN(2) == 0 {
					statement.Evict(task)
				}
			}
			s.Try(func(inner *engine.Statement) *model.Refusal {
				for _, job := range s.Snapshot.Jobs {
					for _, task := range job.Pending() {
						inner.Put(s.Ask(s.Snapshot.Job(task.Job), model.Idle), task, node)
					}
				}
				return &model.Refusal{} // only to check that it leaves no trace
			})
			for _, job := range s.Snapshot.Jobs {
				for _, task := range job.Pending() {
					if random.IntN(2) == 0 && task.Invalid == nil && statement.Put(s.Ask(s.Snapshot.Job(task.Job), model.FutureIdle), task, node) == nil {
						return nil
					}
				}
			}
			return &model.Refusal{}
		})
	})
}

// resize changes what the node offers, also to less than is in use.
func (h *house) resize(random *rand.Rand) {
	switch random.IntN(4) {
	case 0:
		h.node("14", "8-10", "12-15", isolated.Included)
	case 1:
		h.node("6", "8-11", "12-15", isolated.Excluded)
	default:
		h.node("14", "8-11", "12-15", isolated.Included)
	}
}

// befall changes one pod.
func (h *house) befall(random *rand.Rand, pod *corev1.Pod) {
	switch random.IntN(9) {
	case 0: // another scheduler has bound it, before us or instead
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			delete(h.coming, pod.UID)
			pod.Spec.NodeName = "a"
			h.tell(pod)
		}
	case 5, 6:
		h.remove(pod)
	case 1, 7: // invalid changes
		if pod.Annotations[isolated.RequestAnnotation] == "" {
			pod.Annotations[isolated.RequestAnnotation] = "true"
		} else {
			delete(pod.Annotations, isolated.RequestAnnotation)
		}
		h.tell(pod)
	case 2, 8:
		ends := metav1.NewTime(h.now)
		pod.DeletionTimestamp = &ends
		h.tell(pod)
	default:
		if pod.Spec.NodeName != "" {
			pod.Status.Phase = corev1.PodSucceeded
		}
		h.tell(pod)
	}
}

// check checks that the accounting adds up, that no two pods hold the same CPU, and that pods are charged for what they hold.
func (h *house) check(step int) {
	snapshot := h.state.Snapshot(h.now)
	if err := snapshot.Check(); err != nil {
		h.t.Fatalf("step %d: %v", step, err)
	}
	node := snapshot.Node("a")
	position, _ := snapshot.Dimensions.Find(isolated.Resource)
	for _, job := range snapshot.Jobs {
		for _, task := range job.Tasks {
			if task.Isolated != nil && !task.Status.HasNode() {
				h.t.Fatalf("step %d: pod %s is %s, and holds %s", step, task, task.Status, task.Isolated.CPUs)
			}
		}
	}
	sum, charged := 0, int64(0)
	for _, task := range node.Tasks {
		charged += task.Request.At(position)
		if task.Isolated != nil {
			sum += task.Isolated.CPUs.Len()
		}
	}
	if held := node.HeldCPUs(false); held.Len() != sum || int64(sum) != charged ||
		node.Idle(position) != node.Allocatable().At(position)-charged {
		for _, task := range node.Tasks {
			h.t.Logf("%s is %s, charged for %d, holds %v: %v", task, task.Status, task.Request.At(position), task.Isolated, task.Pod.Annotations)
		}
		h.t.Fatalf("step %d: pods hold %d CPUs, which are %s, and are charged for %d", step, sum, held, charged)
	}
}
