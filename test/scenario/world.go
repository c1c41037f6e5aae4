package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/model"
)

// start is when every story begins.
var start = time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC)

// world is the objects as an API server would hold them, and what its watches have said.
//
// Invariant: an object that a watch has delivered is never changed afterwards, only replaced.
type world struct {
	now      time.Time
	revision int
	// lives counts the incarnations of each name, so that UIDs follow from names and their order.
	lives map[string]int

	nodes  map[string]*corev1.Node
	pods   map[string]*corev1.Pod
	groups map[string]*v1alpha1.PodGroup
	// foreign are the group objects of other projects, and readings how far those of each source can be read.
	foreign  map[model.JobKey]*unstructured.Unstructured
	readings map[model.Source]cluster.Reading
	classes  map[string]*schedulingv1.PriorityClass
	// namespaces are those that a line names, and those that pods are in, which have no labels.
	namespaces map[string]*corev1.Namespace
	queues     map[string]*v1alpha1.Queue
	// budgets are by namespace/name.
	budgets map[string]*policyv1.PodDisruptionBudget
	devices devices

	// cycle counts changes after which one job may be above another that was above it.
	cycle int
	// events is every event so far; hear gets each as it comes.
	events  []cluster.Event
	onEvent func(cluster.Event)
}

func newWorld(hear func(cluster.Event)) *world {
	w := &world{
		now: start, lives: map[string]int{}, onEvent: hear,
		nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{},
		foreign: map[model.JobKey]*unstructured.Unstructured{}, readings: map[model.Source]cluster.Reading{},
		groups: map[string]*v1alpha1.PodGroup{}, classes: map[string]*schedulingv1.PriorityClass{},
		namespaces: map[string]*corev1.Namespace{}, budgets: map[string]*policyv1.PodDisruptionBudget{}, queues: map[string]*v1alpha1.Queue{},
	}
	w.devices = newDevices(w.tell)
	return w
}

func (w *world) tell(event cluster.Event) {
	w.events = append(w.events, event)
	w.onEvent(event)
}

// key is how a story names an object: without the namespace when that is the default one.
func key(namespace, name string) string {
	if namespace == "default" {
		return name
	}
	return namespace + "/" + name
}

// stamp gives a new object its identity, and a changed one that of before.
func (w *world) stamp(object, before metav1.Object, one line) error {
	w.revision++
	object.SetName(one.name)
	object.SetNamespace(one.namespace)
	object.SetResourceVersion(strconv.Itoa(w.revision))
	if before != nil {
		object.SetUID(before.GetUID())
		object.SetCreationTimestamp(before.GetCreationTimestamp())
		object.SetGeneration(before.GetGeneration() + 1)
		return nil
	}
	name := one.kind + " " + key(one.namespace, one.name)
	w.lives[name]++
	uid := key(one.namespace, one.name)
	if n := w.lives[name]; n > 1 {
		uid += "#" + strconv.Itoa(n)
	}
	object.SetUID(types.UID(uid))
	object.SetGeneration(1)
	created := w.now
	for _, word := range one.words {
		if word.key == "age" {
			age, err := time.ParseDuration(word.value)
			if err != nil {
				return fmt.Errorf("age: %w", err)
			}
			created = created.Add(-age)
		}
	}
	object.SetCreationTimestamp(metav1.NewTime(created))
	return nil
}

// apply adds or changes what the lines say.
func (w *world) apply(text string) error {
	lines, err := parseLines(text)
	if err != nil {
		return err
	}
	for _, one := range lines {
		if err := w.applyLine(one); err != nil {
			return fmt.Errorf("%s %s: %w", one.kind, one.name, err)
		}
	}
	return nil
}

func (w *world) applyLine(one line) error {
	switch one.kind {
	case "node":
		one.namespace = ""
		node, err := newNode(one.words)
		if err != nil {
			return err
		}
		return w.setNode(node, one)
	case "group":
		group, err := newGroup(one.words)
		if err != nil {
			return err
		}
		return w.setGroup(group, one)
	case "class":
		one.namespace = ""
		class, err := newClass(one.words)
		if err != nil {
			return err
		}
		return w.setClass(class, one)
	case "namespace":
		namespace, err := newNamespace(one.words)
		if err != nil {
			return err
		}
		one.namespace = ""
		return w.setNamespace(namespace, one)
	case "queue":
		queue, err := newQueue(one.words)
		if err != nil {
			return err
		}
		one.namespace = ""
		return w.setQueue(queue, one)
	case "budget":
		budget, err := newBudget(one)
		if err != nil {
			return err
		}
		return w.setBudget(budget, one)
	case "coscheduling", "volcano", "kubernetes", "jobset", "leaderworkerset":
		return w.setForeign(one)
	case "deviceclass":
		class, err := newDeviceClass(one)
		if err != nil {
			return err
		}
		w.setDeviceClass(class)
		return nil
	case "devices":
		slice, err := newSlice(one)
		if err != nil {
			return err
		}
		w.setSlice(slice)
		return nil
	case "claim":
		claim, err := newClaim(one.namespace, one.name, one.words[0].value)
		if err != nil {
			return err
		}
		w.setClaim(claim)
		return nil
	case "read":
		return w.read(one.name, one.words[0].key)
	case "pod":
		pod, err := newPod(one.words)
		if err != nil {
			return err
		}
		return w.setPod(pod, one)
	}
	return fmt.Errorf("no such kind")
}

// known turns a missing object into a nil interface.
func known[T any, P interface {
	*T
	metav1.Object
}](object P) metav1.Object {
	if object == nil {
		return nil
	}
	return object
}

func (w *world) setNode(node *corev1.Node, one line) error {
	if err := w.stamp(node, known(w.nodes[one.name]), one); err != nil {
		return err
	}
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[corev1.LabelHostname] = one.name
	w.nodes[one.name] = node
	w.tell(&cluster.NodeSeen{Node: node})
	return nil
}

func (w *world) setGroup(group *v1alpha1.PodGroup, one line) error {
	w.cycle++
	name := key(one.namespace, one.name)
	if err := w.stamp(group, known(w.groups[name]), one); err != nil {
		return err
	}
	if before := w.groups[name]; before != nil {
		group.Status = before.Status
	}
	w.groups[name] = group
	w.tell(&cluster.GroupSeen{Group: group})
	return nil
}

func (w *world) setBudget(budget *policyv1.PodDisruptionBudget, one line) error {
	name := key(one.namespace, one.name)
	if err := w.stamp(budget, known(w.budgets[name]), one); err != nil {
		return err
	}
	budget.Status.ObservedGeneration += budget.Generation // behind by what the line says
	w.replaceBudget(name, budget)
	return nil
}

// replaceBudget tells of a new version of a budget.
func (w *world) replaceBudget(name string, budget *policyv1.PodDisruptionBudget) {
	w.revision++
	budget.ResourceVersion = strconv.Itoa(w.revision)
	w.budgets[name] = budget
	w.tell(&cluster.BudgetSeen{Budget: budget})
}

func (w *world) setNamespace(namespace *corev1.Namespace, one line) error {
	if err := w.stamp(namespace, known(w.namespaces[one.name]), one); err != nil {
		return err
	}
	w.namespaces[one.name] = namespace
	w.tell(&cluster.NamespaceSeen{Namespace: namespace})
	return nil
}

func (w *world) setClass(class *schedulingv1.PriorityClass, one line) error {
	w.cycle++
	if err := w.stamp(class, known(w.classes[one.name]), one); err != nil {
		return err
	}
	w.classes[one.name] = class
	w.tell(&cluster.PriorityClassSeen{Class: class})
	return nil
}

// setPod does what admission does, and keeps where an older version of the pod is.
func (w *world) setPod(pod *corev1.Pod, one line) error {
	if w.namespaces[one.namespace] == nil {
		if err := w.setNamespace(&corev1.Namespace{}, line{name: one.namespace}); err != nil {
			return err
		}
	}
	name := key(one.namespace, one.name)
	before := w.pods[name]
	if err := w.stamp(pod, known(before), one); err != nil {
		return err
	}
	if before != nil {
		w.cycle++
		pod.Spec.NodeName, pod.Status.Phase = before.Spec.NodeName, before.Status.Phase
		pod.DeletionTimestamp, pod.Status.NominatedNodeName = before.DeletionTimestamp, before.Status.NominatedNodeName
		pod.Status.StartTime, pod.Status.Conditions = before.Status.StartTime, before.Status.Conditions
	} else if pod.Status.Phase == corev1.PodRunning {
		pod.Status.StartTime = &pod.CreationTimestamp
	}
	if err := assign(pod); err != nil {
		return err
	}
	if before != nil {
		pod.Status.ResourceClaimStatuses = before.Status.ResourceClaimStatuses
	} else if err := w.claimDevices(pod); err != nil {
		return err
	}
	if class := w.classes[pod.Spec.PriorityClassName]; class != nil {
		pod.Spec.Priority = &class.Value
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = class.PreemptionPolicy
		}
	}
	w.pods[name] = pod
	w.tellPod(pod)
	return nil
}

func (w *world) tellPod(pod *corev1.Pod) {
	w.tell(&cluster.PodSeen{Pod: cluster.KeptPod(pod)})
}

// changePods changes copies of pods and tells of them.
func (w *world) changePods(names []string, change func(*corev1.Pod)) error {
	for _, name := range names {
		before := w.pods[name]
		if before == nil {
			return fmt.Errorf("no pod %s", name)
		}
		pod := before.DeepCopy()
		change(pod)
		w.revision++
		pod.ResourceVersion = strconv.Itoa(w.revision)
		w.pods[name] = pod
		w.tellPod(pod)
	}
	return nil
}

// remove deletes objects of one kind. Like an API server, it tells of the end under a version of its own.
func (w *world) remove(kind string, names []string) error {
	if foreignWords[kind] != nil {
		return w.removeForeign(kind, names)
	}
	for _, name := range names {
		if w.removeDevices(kind, name) {
			continue
		}
		w.revision++
		version := strconv.Itoa(w.revision)
		var event cluster.Event
		switch pod, node, group, queue := w.pods[name], w.nodes[name], w.groups[name], w.queues[name]; {
		case kind == "pod" && pod != nil:
			last := cluster.KeptPod(pod)
			last.ResourceVersion, event = version, &cluster.PodSeen{Pod: last, Gone: true}
			delete(w.pods, name)
		case kind == "node" && node != nil:
			last := node.DeepCopy()
			last.ResourceVersion, event = version, &cluster.NodeSeen{Node: last, Gone: true}
			delete(w.nodes, name)
		case kind == "budget" && w.budgets[name] != nil:
			last := w.budgets[name].DeepCopy()
			last.ResourceVersion, event = version, &cluster.BudgetSeen{Budget: last, Gone: true}
			delete(w.budgets, name)
		case kind == "group" && group != nil:
			last := group.DeepCopy()
			last.ResourceVersion, event = version, &cluster.GroupSeen{Group: last, Gone: true}
			delete(w.groups, name)
		case kind == "queue" && queue != nil:
			last := queue.DeepCopy()
			last.ResourceVersion, event = version, &cluster.QueueSeen{Queue: last, Gone: true}
			delete(w.queues, name)
		default:
			return fmt.Errorf("no %s %s", kind, name)
		}
		w.tell(event)
	}
	return nil
}

func (w *world) cordon(names []string, unschedulable bool) error {
	return w.changeNodes(names, func(node *corev1.Node) { node.Spec.Unschedulable = unschedulable })
}

// changeNodes changes copies of nodes and tells of them.
func (w *world) changeNodes(names []string, change func(*corev1.Node)) error {
	for _, name := range names {
		before := w.nodes[name]
		if before == nil {
			return fmt.Errorf("no node %s", name)
		}
		node := before.DeepCopy()
		change(node)
		w.revision++
		node.ResourceVersion = strconv.Itoa(w.revision)
		w.nodes[name] = node
		w.tell(&cluster.NodeSeen{Node: node})
	}
	return nil
}

// podNames returns the names of all pods that satisfy the condition, sorted.
func (w *world) podNames(condition func(*corev1.Pod) bool) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		if condition(w.pods[name]) {
			names = append(names, name)
		}
	}
	return names
}

// replaceGroup puts a changed copy of a group in its place and tells of it.
func (w *world) replaceGroup(name string, group *v1alpha1.PodGroup) {
	w.revision++
	group.ResourceVersion = strconv.Itoa(w.revision)
	w.groups[name] = group
	w.tell(&cluster.GroupSeen{Group: group})
}

func (w *world) replaceQueue(queue *v1alpha1.Queue) {
	w.revision++
	queue.ResourceVersion = strconv.Itoa(w.revision)
	w.queues[queue.Name] = queue
	w.tell(&cluster.QueueSeen{Queue: queue})
}

// tellAll tells a state of the world as it is.
func (w *world) tellAll(state *cluster.State) {
	for _, class := range w.classes {
		state.Apply(&cluster.PriorityClassSeen{Class: class})
	}
	for _, node := range w.nodes {
		state.Apply(&cluster.NodeSeen{Node: node})
	}
	for _, group := range w.groups {
		state.Apply(&cluster.GroupSeen{Group: group})
	}
	for _, namespace := range w.namespaces {
		state.Apply(&cluster.NamespaceSeen{Namespace: namespace})
	}
	w.tellForeign(func(event cluster.Event) { state.Apply(event) })
	for _, queue := range w.queues {
		state.Apply(&cluster.QueueSeen{Queue: queue})
	}
	for _, budget := range w.budgets {
		state.Apply(&cluster.BudgetSeen{Budget: budget})
	}
	for _, class := range w.devices.classes {
		state.Apply(&cluster.DeviceClassSeen{Class: class})
	}
	for _, seen := range w.devices.nodes {
		state.Apply(&cluster.DevicesSeen{Devices: seen})
	}
	for _, claim := range w.devices.claims {
		state.Apply(&cluster.ClaimSeen{Claim: claim})
	}
	for _, pod := range w.pods {
		state.Apply(&cluster.PodSeen{Pod: cluster.KeptPod(pod)})
	}
}
