package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// world is an API server in small: it changes objects at random and remembers every event. Versions only grow, and no
// UID is given twice.
type world struct {
	t       *rapid.T
	version int
	pods    map[string]*corev1.Pod
	nodes   map[string]*corev1.Node
	groups  map[string]*v1alpha1.PodGroup
	classes map[string]*schedulingv1.PriorityClass
	devices map[string]*resourceapi.DeviceClass
	claims  map[string]*resourceapi.ResourceClaim
	slices  map[string]*kube.NodeDevices
	budgets map[string]*policyv1.PodDisruptionBudget
	queues  map[string]*v1alpha1.Queue
	foreign map[string]*sources.Spec
	// namespace is that of all pods and groups; nil while it does not exist.
	namespace *corev1.Namespace
	history   []Event
	// graces lets pods be deleted with a grace: what that means depends on which snapshots have shown them before.
	graces bool
}

func newWorld(t *rapid.T) *world {
	return &world{
		t: t, pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, groups: map[string]*v1alpha1.PodGroup{},
		classes: map[string]*schedulingv1.PriorityClass{}, devices: map[string]*resourceapi.DeviceClass{},
		claims: map[string]*resourceapi.ResourceClaim{}, slices: map[string]*kube.NodeDevices{},
		budgets: map[string]*policyv1.PodDisruptionBudget{}, queues: map[string]*v1alpha1.Queue{},
		foreign: map[string]*sources.Spec{},
	}
}

func (w *world) number(most int, label string) int { return rapid.IntRange(0, most).Draw(w.t, label) }

func (w *world) name(kind string, most int) string {
	return fmt.Sprintf("%s%d", kind, w.number(most, kind))
}

func (w *world) chance(of int, label string) bool { return w.number(of-1, label) == 0 }

// stamp gives an object its next version and tells of it.
func (w *world) stamp(object metav1.Object, event func(any) Event) Event {
	w.version++
	object.SetResourceVersion(fmt.Sprint(w.version))
	e := event(object)
	w.history = append(w.history, e)
	return e
}

// step changes one object.
func (w *world) step() Event {
	switch w.number(16, "step") {
	case 14, 15:
		return w.stepClaim()
	case 16:
		return w.stepDevices()
	case 0:
		return w.stepNode()
	case 1:
		return w.stepGroup()
	case 2:
		return w.stepClass()
	case 3:
		return w.stepDeviceClass()
	case 4:
		return w.stepBudget()
	case 5:
		return w.stepQueue()
	case 6:
		return w.stepNamespace()
	case 7:
		return w.stepForeign()
	default:
		return w.stepPod()
	}
}

func (w *world) stepNode() Event {
	name := w.name("n", 4)
	if old := w.nodes[name]; old != nil && w.chance(3, "node goes") {
		delete(w.nodes, name)
		return w.stamp(old.DeepCopy(), gone)
	}
	n := node(name, "cpu", fmt.Sprint(1+w.number(8, "cpu")), "nvidia.com/gpu", fmt.Sprint(w.number(2, "gpu")))
	n.UID = types.UID(fmt.Sprintf("%s-%d", name, w.version))
	if old := w.nodes[name]; old != nil {
		n.UID = old.UID
	}
	n.Labels = map[string]string{"zone": w.name("z", 1), corev1.LabelHostname: name}
	for i := range 3 {
		if w.chance(2, "image") {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
				Names: []string{fmt.Sprintf("image%d", i)}, SizeBytes: int64(1 + w.number(2, "size")),
			})
		}
	}
	if w.chance(3, "isolated") {
		n.Annotations = map[string]string{isolated.TopologyAnnotation: eightToEleven}
	}
	if w.chance(10, "bare node") {
		n.Status.Allocatable = nil
	}
	w.nodes[name] = n
	return w.stamp(n, seen)
}

func (w *world) stepGroup() Event {
	name := w.name("g", 2)
	if old := w.groups[name]; old != nil && w.chance(3, "group goes") {
		delete(w.groups, name)
		return w.stamp(old.DeepCopy(), gone)
	}
	g := group(name, int32(w.number(3, "min")), className(w.name("c", 2)))
	if w.chance(2, "reserved") {
		g.Status.Reservation = reservationOf(w.name("n", 3), w.number(3, "members")+1)
	}
	if w.chance(2, "group names a queue") {
		g.Spec.Queue = w.queueName()
	}
	g.Spec.SchedulerName = rapid.SampledFrom([]string{"", "", "tutti", "other"}).Draw(w.t, "scheduler")
	g.Status.SchedulerName = rapid.SampledFrom([]string{"", "tutti", "other"}).Draw(w.t, "written by")
	g.UID = types.UID(fmt.Sprintf("%s-%d", name, w.version))
	w.groups[name] = g
	return w.stamp(g, seen)
}

func (w *world) stepClass() Event {
	name := w.name("c", 2)
	if old := w.classes[name]; old != nil && w.chance(3, "class goes") {
		delete(w.classes, name)
		return w.stamp(old.DeepCopy(), gone)
	}
	c := class(name, int32(w.number(9, "value")))
	c.UID = types.UID(fmt.Sprintf("%s-%d", name, w.version))
	w.classes[name] = c
	return w.stamp(c, seen)
}

// stepDeviceClass changes one of two classes, which may both provide one resource.
func (w *world) stepDeviceClass() Event {
	name := w.name("d", 1)
	if old := w.devices[name]; old != nil && w.chance(2, "device class goes") {
		delete(w.devices, name)
		return w.stamp(old.DeepCopy(), gone)
	}
	c := deviceClass(name, rapid.SampledFrom([]string{"", "nvidia.com/gpu", "nvidia.com/gpu", "cpu"}).Draw(w.t, "provides"))
	c.UID = types.UID(fmt.Sprintf("%s-%d", name, w.version))
	if old := w.devices[name]; old != nil {
		c.UID = old.UID
	}
	w.devices[name] = c
	return w.stamp(c, seen)
}

// stepDevices changes the devices that a node has, or what holds for all nodes.
func (w *world) stepDevices() Event {
	seen := &kube.NodeDevices{Node: rapid.SampledFrom([]string{"n0", "n1", "n2", "n3", ""}).Draw(w.t, "node with devices")}
	for i := range w.number(4, "devices") {
		device := kube.Device{ID: deviceID(seen.Node, i), Tainted: w.chance(4, "tainted")}
		for _, class := range []string{"d0", "d1"} {
			if w.chance(2, "selected") {
				device.Classes = append(device.Classes, class)
			}
		}
		if seen.Node != "" {
			seen.Devices = append(seen.Devices, device)
		}
	}
	if w.chance(5, "uncounted") {
		seen.Uncounted = map[string]string{w.name("d", 1): "counters"}
	}
	w.slices[seen.Node] = seen
	event := &DevicesSeen{seen}
	w.history = append(w.history, event)
	return event
}

// stepClaim changes a claim: what it asks for, for whom it is, what it has and for whom that is reserved.
func (w *world) stepClaim() Event {
	name := w.name("c", 3)
	old := w.claims[name]
	if old != nil && w.chance(3, "claim goes") {
		delete(w.claims, name)
		return w.stamp(old.DeepCopy(), gone)
	}
	c := claimOf(name, w.name("d", 1), int64(1+w.number(1, "devices")))
	c.UID = types.UID(fmt.Sprintf("%s-%d", name, w.version))
	if old != nil {
		c.UID = old.UID
	}
	request := &c.Spec.Devices.Requests[0]
	switch w.number(5, "kind of claim") {
	case 0:
		request.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	case 1:
		c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{}}
	}
	pods := slices.Sorted(maps.Keys(w.pods))
	if len(pods) > 0 && w.chance(3, "made for a pod") {
		of := w.pods[rapid.SampledFrom(pods).Draw(w.t, "owner")]
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: of.Name, UID: of.UID, Controller: new(true)}}
		if w.chance(2, "for extended resources") {
			c.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
		}
	}
	if w.chance(2, "allocated") {
		node := w.name("n", 3)
		for i := range 1 + w.number(2, "allocated devices") {
			give(c, deviceID(node, i))
		}
		for range w.number(2, "reserved for") {
			if uid := types.UID("another"); len(pods) > 0 {
				if !w.chance(4, "another pod") {
					uid = w.pods[rapid.SampledFrom(pods).Draw(w.t, "consumer")].UID
				}
				c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: uid})
			}
		}
	}
	w.claims[name] = c
	return w.stamp(c, seen)
}

// stepBudget changes what a budget covers, what it allows, or only how far the disruption controller has come with it.
func (w *world) stepBudget() Event {
	name := w.name("b", 2)
	old := w.budgets[name]
	if old != nil && w.chance(3, "budget goes") {
		delete(w.budgets, name)
		return w.stamp(old.DeepCopy(), gone)
	}
	b := budget(name, w.name("app", 1), int32(w.number(2, "allowed")))
	b.UID = types.UID(fmt.Sprintf("%s-%d", name, w.version))
	if old != nil {
		b.UID, b.Generation = old.UID, old.Generation+int64(w.number(1, "changed"))
		b.Status.ObservedGeneration = b.Generation - int64(w.number(1, "behind"))
	}
	b.Status.CurrentHealthy, b.Status.DesiredHealthy = int32(w.number(2, "healthy")), int32(w.number(2, "desired"))
	if w.chance(3, "policy") {
		b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
	}
	if w.chance(5, "selector that cannot be read") {
		b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Resembles"}}
	}
	w.budgets[name] = b
	return w.stamp(b, seen)
}

func (w *world) queueName() string {
	return rapid.SampledFrom([]string{"q0", "q1", "q2", v1alpha1.DefaultQueue}).Draw(w.t, "queue")
}

// stepForeign changes a group of another project: what it says, or only what others write to it.
func (w *world) stepForeign() Event {
	name := w.name("g", 2)
	source := rapid.SampledFrom([]model.Source{model.SourceCoscheduling, model.SourceVolcano, model.SourceNative, model.SourceMPIJob, model.SourceLeaderWorkerSetObject}).Draw(w.t, "source")
	place := fmt.Sprint(name, source)
	old := w.foreign[place]
	if old != nil && w.chance(3, "foreign group goes") {
		delete(w.foreign, place)
		last := *old
		return w.stamp(&last, gone)
	}
	g := foreignSpec(name, 0, int32(1+w.number(2, "min")))
	switch g.Source = source; {
	case source == model.SourceMPIJob:
		g.Roles = []model.Role{{Name: "launcher", MinMember: 1, MadeLater: w.chance(2, "late")}}
		if w.chance(3, "done") {
			g.Done = []string{"launcher"}
		}
	case source == model.SourceLeaderWorkerSetObject:
		g.NoGang, g.Roles = true, []model.Role{{Name: sources.RoleWorker, MinMember: 1, MadeLater: w.chance(2, "late")}}
	case w.chance(2, "controlled"):
		g.OwnerReferences = []metav1.OwnerReference{{Kind: "MPIJob", Name: w.name("g", 2), Controller: new(true)}}
	}
	if source == model.SourceVolcano {
		g.Queue = w.queueName()
		g.Roles = []model.Role{{Name: "worker", MinMember: int32(w.number(2, "of role"))}}
		g.Shown.Phase = rapid.SampledFrom([]string{"", sources.VolcanoPending, sources.VolcanoInqueue}).Draw(w.t, "phase")
	}
	if source == model.SourceNative {
		g.NoGang, g.NeverPreempts, g.EndsTogether = w.chance(2, "basic"), w.chance(4, "never preempts"), w.chance(4, "ends together")
		g.Topology = []model.TopologyConstraint{{Level: w.name("label:", 1)}}
	}
	if source == model.SourceVolcano || source == model.SourceNative {
		g.PriorityClassName = w.name("c", 2)
	}
	g.UID = types.UID(fmt.Sprintf("foreign-%s-%d", name, w.version))
	if old != nil && w.chance(2, "changed") {
		g.UID = old.UID
	}
	if w.chance(3, "resources") {
		g.MinResources = amountsIn(list("cpu", fmt.Sprint(w.number(4, "cpu")), "nvidia.com/gpu", "1"))
	}
	if w.chance(5, "contradiction") {
		g.Contradiction = "it contradicts itself"
	}
	w.foreign[place] = g
	return w.stamp(g, seen)
}

// stepQueue changes a queue: its parent, so that there are cycles, missing parents and inner queues, and whose jobs it takes.
func (w *world) stepQueue() Event {
	name := w.queueName()
	old := w.queues[name]
	if old != nil && w.chance(2, "queue goes") {
		delete(w.queues, name)
		return w.stamp(old.DeepCopy(), gone)
	}
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("%s-%d", name, w.version))}}
	if old != nil {
		q.UID = old.UID
	}
	if w.chance(2, "parent") {
		q.Spec.Parent = w.queueName()
	}
	if w.chance(2, "limit") {
		q.Spec.Limit = list("cpu", fmt.Sprint(w.number(9, "cpu")-1), "nvidia.com/gpu", "1")
	}
	if w.chance(2, "selector") {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": w.name("t", 1)}}
	}
	q.Spec.Paused = w.chance(4, "paused")
	w.queues[name] = q
	return w.stamp(q, seen)
}

// stepNamespace changes the labels of the namespace.
func (w *world) stepNamespace() Event {
	if old := w.namespace; old != nil && w.chance(3, "namespace goes") {
		w.namespace = nil
		return w.stamp(old.DeepCopy(), gone)
	}
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: types.UID(fmt.Sprintf("ns-%d", w.version))}}
	if w.namespace != nil {
		n.UID = w.namespace.UID
	}
	n.Labels = map[string]string{"team": w.name("t", 1)}
	if w.chance(2, "namespace names a queue") {
		n.Labels[v1alpha1.LabelQueue] = w.queueName()
	}
	w.namespace = n
	return w.stamp(n, seen)
}

func (w *world) stepPod() Event {
	name := w.name("p", 11)
	old := w.pods[name]
	if old == nil || w.chance(8, "recreated immediately") {
		p := w.draw(name)
		w.pods[name] = p
		return w.stamp(p, seen)
	}
	if w.chance(5, "pod goes") {
		delete(w.pods, name)
		return w.stamp(old.DeepCopy(), gone)
	}
	p := old.DeepCopy()
	switch w.number(14, "change") {
	case 13:
		w.mark(p)
	case 14:
		w.shares(p)
	case 12:
		annotation(v1alpha1.AnnotationKubeBatchGroup, w.name("g", 3))(p)
	case 11:
		label(sources.LabelCoscheduling, w.name("g", 3))(p)
	case 10:
		label(v1alpha1.LabelQueue, w.queueName())(p)
	case 9:
		w.minMember(p)
	case 0, 1:
		p.Status.Phase, p.Status.Conditions = corev1.PodRunning, slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		if w.chance(2, "ready") {
			isReady(p)
		}
		if p.Spec.NodeName == "" {
			p.Status.Phase = corev1.PodPending
			p.Spec.NodeName, p.Status.NominatedNodeName = w.name("n", 4), "" // one write does both
			if w.chance(3, "assigned") {
				annotation(isolated.AssignedAnnotation, fmt.Sprintf(
					`{"v":1,"node":%q,"uid":%q,"cpus":"%d","containers":{}}`, p.Spec.NodeName, p.UID, w.number(3, "id")))(p)
			}
		}
	case 7:
		nominated(w.name("n", 5))(p)
	case 8:
		nominated("")(p)
	case 2:
		p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"Succeeded", "Failed"}).Draw(w.t, "end")
	case 3:
		w.deletes(p)
	case 4:
		p.Spec.SchedulingGates = nil
	case 5:
		label(v1alpha1.LabelPodGroup, w.name("g", 3))(p)
	case 6:
		asking("cpu", fmt.Sprint(w.number(3, "cpu")))(p)
	}
	if !equality.Semantic.DeepEqual(old.Spec, p.Spec) && old.Spec.NodeName == p.Spec.NodeName {
		p.Generation++ // as the API server does; a binding is no change of the spec to it
	}
	w.pods[name] = p
	return w.stamp(p, seen)
}

// deletes lets a pod be deleted, with a grace, by an eviction, or neither.
func (w *world) deletes(p *corev1.Pod) {
	deleting(start.Add(time.Duration(w.number(60, "deleted")) * time.Second))(p)
	if w.graces && w.chance(2, "grace") {
		p.DeletionGracePeriodSeconds = new(int64(30))
	}
	if w.chance(3, "evicted") {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
	}
}

// draw makes a new pod with something of everything that the view keeps an index of.
func (w *world) draw(name string) *corev1.Pod {
	p := pod(name, func(p *corev1.Pod) { p.Generation = 1 }, uid(fmt.Sprintf("%s-%d", name, w.version)), asking("cpu", fmt.Sprint(w.number(3, "cpu"))),
		created(start.Add(time.Duration(w.number(2, "age"))*time.Second)), label("app", w.name("app", 1)))
	c := &p.Spec.Containers[0]
	c.Image = w.name("image", 2)
	if w.chance(3, "gpu") {
		c.Resources.Requests["nvidia.com/gpu"] = list("gpu", "1")["gpu"]
	}
	if w.chance(12, "huge") {
		c.Resources.Requests["memory"] = list("memory", "9E")["memory"]
	}
	if w.chance(3, "port") {
		c.Ports = []corev1.ContainerPort{{HostPort: int32(80 + w.number(1, "port number")), Protocol: corev1.ProtocolTCP}}
	}
	if w.chance(3, "claim") {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: w.name("claim", 1)},
		}}}
	}
	if w.chance(3, "resource claim") {
		for _, claim := range []string{w.name("c", 3), w.name("c", 3)} {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
		}
	}
	for _, option := range []podOption{by("other"), gated, on(w.name("n", 4)), of(w.name("g", 3)), ofForeign(w.name("g", 3)), ofNative(w.name("g", 3)), w.mark, w.shares, annotation(v1alpha1.AnnotationKubeBatchGroup, w.name("g", 3)), inMPIJob(w.name("g", 3), "worker"), inMPIJob(w.name("g", 3), "launcher"), role("worker"), priority(7), nominated(w.name("n", 4))} {
		if w.chance(3, "option") {
			option(p)
		}
	}
	if w.chance(3, "names a queue") {
		label(v1alpha1.LabelQueue, w.queueName())(p)
	}
	if w.chance(4, "asks") {
		annotation(isolated.RequestAnnotation, "true")(p)
	}
	if w.chance(2, "says how many") {
		w.minMember(p)
	}
	if w.chance(2, "controlled") {
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(w.name("owner", 1)), Controller: new(true)}}
		if w.chance(2, "by a Job") {
			p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "batch/v1", "Job"
		}
	}
	if w.chance(4, "never preempts") {
		p.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	}
	if w.chance(3, "affinity") {
		p.Spec.Affinity = w.drawAffinity()
	}
	return p
}

// mark puts the marks of Kueue, or of a LeaderWorkerSet, on a pod.
func (w *world) mark(p *corev1.Pod) {
	total := rapid.SampledFrom([]string{"1", "2", "3", "0", "all"}).Draw(w.t, "total")
	if w.chance(2, "Kueue") {
		label(sources.KueueGroup, w.name("g", 3))(p)
		annotation(sources.KueueTotal, total)(p)
		return
	}
	label(sources.LWSGroupKey, w.name("g", 3))(p)
	label(sources.LWSRevision, w.name("r", 1))(p)
	label(sources.LWSWorkerIndex, fmt.Sprint(w.number(2, "index")))(p)
	if w.chance(2, "set") {
		label(sources.LWSName, w.name("g", 2))(p)
		label(sources.LWSGroupIndex, fmt.Sprint(w.number(2, "group")))(p)
	}
	annotation(sources.LWSSize, total)(p)
	if w.chance(3, "exclusive") {
		annotation(sources.LWSExclusiveTopology, "zone")(p)
	}
}

// shares lets a pod say with which others it shares a domain, in one of the ways or in words that cannot be read.
func (w *world) shares(p *corev1.Pod) {
	if w.chance(8, "placed by Kueue") {
		label(sources.KueueGivesPlace, "true")(p)
	}
	level := w.name("rack", 1)
	said := rapid.SampledFrom([][2]string{
		{v1alpha1.AnnotationTopology, `[{"level":"` + level + `"}]`}, {v1alpha1.AnnotationTopology, `[{"level":"rack","roles":["worker"]}]`},
		{v1alpha1.AnnotationTopology, level}, {sources.KAIRequired, level}, {sources.KAIPreferred, level}, {sources.KueueRequired, level},
		{sources.KueuePreferred, "a/b/c"}, {sources.KueueSlice, level}, {sources.KueueSliceSize, "2"},
	}).Draw(w.t, "says")
	annotation(said[0], said[1])(p)
}

// minMember lets a pod say how many its group needs, in words that may be none.
func (w *world) minMember(p *corev1.Pod) {
	annotation(v1alpha1.AnnotationMinMember, rapid.SampledFrom([]string{"1", "2", "3", "0", "all"}).Draw(w.t, "min"))(p)
}

func (w *world) drawAffinity() *corev1.Affinity {
	term := corev1.PodAffinityTerm{
		TopologyKey:   rapid.SampledFrom([]string{"zone", corev1.LabelHostname}).Draw(w.t, "topology"),
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name("app", 1)}},
	}
	terms := []corev1.PodAffinityTerm{term}
	if w.chance(2, "anti-affinity") {
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
	return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

// objects returns the newest of everything, in random order.
func (w *world) objects() []any {
	var all []any
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		all = append(all, w.pods[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		all = append(all, w.nodes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		all = append(all, w.groups[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.classes)) {
		all = append(all, w.classes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.devices)) {
		all = append(all, w.devices[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.claims)) {
		all = append(all, w.claims[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.slices)) {
		all = append(all, w.slices[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.budgets)) {
		all = append(all, w.budgets[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.queues)) {
		all = append(all, w.queues[name])
	}
	for _, name := range slices.Sorted(maps.Keys(w.foreign)) {
		all = append(all, w.foreign[name])
	}
	if w.namespace != nil {
		all = append(all, w.namespace)
	}
	return rapid.Permutation(all).Draw(w.t, "order")
}

// move brings a random task of the snapshot where a session might, and returns it with the position it had.
func (w *world) move(snapshot *model.Snapshot) (*model.Task, model.Placement) {
	tasks := tasksIn(snapshot)
	if len(tasks) == 0 || len(snapshot.Nodes) == 0 {
		return nil, model.Placement{}
	}
	task := tasks[w.number(len(tasks)-1, "task")]
	node := snapshot.Nodes[w.number(len(snapshot.Nodes)-1, "node")].Name
	switch {
	case task.Status == model.Pending:
		status := rapid.SampledFrom([]model.Status{model.Allocated, model.Pipelined}).Draw(w.t, "status")
		return task, snapshot.Move(task, model.Placement{Status: status, Node: node})
	case task.Status == model.Allocated || task.Status == model.Pipelined:
		return task, snapshot.Move(task, model.Placement{Status: model.Pending})
	case task.Status.Occupies() && task.Status != model.Releasing:
		return task, snapshot.Move(task, model.Placement{Status: model.Releasing, Node: task.Node})
	}
	return nil, model.Placement{}
}
