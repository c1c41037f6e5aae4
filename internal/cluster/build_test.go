package cluster

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// start is when every object of these tests was created, unless it says otherwise.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

type podOption func(*corev1.Pod)

// pod returns a pending pod of ours in namespace "ns" that requests one CPU; its UID is its name.
func pod(name string, options ...podOption) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(start),
		},
		Spec: corev1.PodSpec{
			SchedulerName: "tutti",
			Containers:    []corev1.Container{{Name: "main", Image: "image", Resources: requesting("cpu", "1")}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

func requesting(pairs ...string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list(pairs...)}
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func on(node string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func of(group string) podOption { return label(v1alpha1.LabelPodGroup, group) }

func label(key, value string) podOption {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func annotation(key, value string) podOption {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func phase(phase corev1.PodPhase) podOption { return func(p *corev1.Pod) { p.Status.Phase = phase } }

func by(scheduler string) podOption { return func(p *corev1.Pod) { p.Spec.SchedulerName = scheduler } }

func priority(value int32) podOption { return func(p *corev1.Pod) { p.Spec.Priority = &value } }

func uid(uid string) podOption { return func(p *corev1.Pod) { p.UID = types.UID(uid) } }

func revised(n int) podOption { return func(p *corev1.Pod) { p.ResourceVersion = strconv.Itoa(n) } }

func created(at time.Time) podOption {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
}

func asking(pairs ...string) podOption {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources = requesting(pairs...) }
}

func deleting(at time.Time) podOption {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: at} }
}

func nominated(node string) podOption {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

func gated(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} }

// node returns a node with ten CPUs and capacity for 110 pods, changed by the pairs.
func node(name string, pairs ...string) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status:     corev1.NodeStatus{Allocatable: list("cpu", "10", "memory", "10Gi", "pods", "110")},
	}
	for resource, amount := range list(pairs...) {
		n.Status.Allocatable[resource] = amount
	}
	return n
}

func group(name string, minMember int32, options ...func(*v1alpha1.PodGroup)) *v1alpha1.PodGroup {
	g := &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("group-" + name), CreationTimestamp: metav1.NewTime(start),
		},
		Spec: v1alpha1.PodGroupSpec{MinMember: minMember},
	}
	for _, option := range options {
		option(g)
	}
	return g
}

func className(name string) func(*v1alpha1.PodGroup) {
	return func(g *v1alpha1.PodGroup) { g.Spec.PriorityClassName = name }
}

func class(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Value: value}
}

// deviceClass provides the resource, besides the one of its name; none when that is empty.
func deviceClass(name, provides string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if provides != "" {
		c.Spec.ExtendedResourceName = &provides
	}
	return c
}

// isReady makes a pod ready.
func isReady(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

// budget allows so many disruptions of the pods with the label app.
func budget(name, app string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("budget-" + name), Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed},
	}
}

// seen returns the event that tells of an object, gone that of its end.
func seen(object any) Event { return eventOf(object, false) }

func gone(object any) Event { return eventOf(object, true) }

func eventOf(object any, gone bool) Event {
	switch o := object.(type) {
	case *corev1.Pod:
		return &PodSeen{o, gone}
	case *corev1.Node:
		return &NodeSeen{o, gone}
	case *v1alpha1.PodGroup:
		return &GroupSeen{o, gone}
	case *schedulingv1.PriorityClass:
		return &PriorityClassSeen{o, gone}
	case *resourceapi.DeviceClass:
		return &DeviceClassSeen{o, gone}
	case *resourceapi.ResourceClaim:
		return &ClaimSeen{o, gone}
	case *kube.NodeDevices:
		if gone {
			o = &kube.NodeDevices{Node: o.Node}
		}
		return &DevicesSeen{o}
	case *policyv1.PodDisruptionBudget:
		return &BudgetSeen{o, gone}
	case *corev1.Namespace:
		return &NamespaceSeen{o, gone}
	case *v1alpha1.Queue:
		return &QueueSeen{o, gone}
	case *sources.Spec:
		return &ForeignSeen{o, gone}
	}
	return &OtherSeen{}
}

// newState returns a state that has seen the objects, and keeps a view.
func newState(objects ...any) *State {
	s := New(Options{SchedulerNames: []string{"tutti"}})
	s.View()
	for _, object := range objects {
		s.Apply(seen(object))
	}
	return s
}

// snap takes a snapshot and checks that accounting and view add up.
func snap(t testing.TB, s *State, now time.Time) *model.Snapshot {
	t.Helper()
	snapshot := s.Snapshot(now)
	if err := snapshot.Check(); err != nil {
		t.Fatalf("snapshot does not add up: %v", err)
	}
	return snapshot
}

// taskIn finds a task by UID, wherever it is; nil when there is none.
func taskIn(snapshot *model.Snapshot, uid string) *model.Task {
	for _, task := range tasksIn(snapshot) {
		if string(task.UID) == uid {
			return task
		}
	}
	return nil
}

// tasksIn lists all tasks by UID.
func tasksIn(snapshot *model.Snapshot) []*model.Task {
	var tasks []*model.Task
	for _, job := range snapshot.Jobs {
		tasks = append(tasks, job.Tasks...)
	}
	for _, node := range snapshot.Nodes {
		tasks = append(tasks, node.Tasks...)
	}
	slices.SortFunc(tasks, func(a, b *model.Task) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return slices.Compact(tasks)
}

func ns(name string) model.JobKey { return model.JobKey{Namespace: "ns", Name: name} }

func alone(name string) model.JobKey {
	return model.JobKey{Namespace: "ns", Name: name, Source: model.SourcePod}
}

// dump writes a snapshot down so that two of them are the same exactly when their texts are.
func dump(snapshot *model.Snapshot) string { return snapshot.Text() }

func role(name string) podOption {
	return func(p *corev1.Pod) {
		label(v1alpha1.LabelRole, name)(p)
		label(sources.VolcanoTaskSpec, name)(p)
	}
}

func amounts(dimensions *model.ResourceIndex, vector model.Resources) string {
	return requestText(dimensions, &model.Task{Request: vector})
}
