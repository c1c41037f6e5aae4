package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// object is anything that the server stores.
type object interface {
	metav1.Object
	runtime.Object
}

// change is one version of an object, as a watch tells it.
type change struct {
	kind    objectKind
	version uint64
	object  object
	deleted bool
}

// objectKind is a kind of objects. Traces name it by its number, random numbers by its name.
type objectKind int8

// The kinds. kindForeign is that of the first source with objects; those of the others follow in their order.
const (
	kindPod       objectKind = 0
	kindNode      objectKind = 1
	kindGroup     objectKind = 2
	kindClaim     objectKind = 3
	kindClass     objectKind = 4
	kindBudget    objectKind = 5
	kindNamespace objectKind = 6
	kindSlice     objectKind = 7
	kindQueue     objectKind = 8
	kindForeign   objectKind = 11
)

// String returns the name of the kind.
func (k objectKind) String() string {
	if isForeign(k) {
		return sourceOf(k).Kind()
	}
	return map[objectKind]string{
		kindPod: "pod", kindNode: "node", kindGroup: "PodGroup", kindBudget: "PodDisruptionBudget", kindNamespace: "namespace", kindQueue: "Queue",
		kindClaim: "ResourceClaim", kindClass: "DeviceClass", kindSlice: "ResourceSlice",
	}[k]
}

// kinds is how many kinds of objects there may be.
const kinds = kindForeign + objectKind(model.LastSource-model.SourceCoscheduling) + 1

// server is the API server: objects by kind and name, each change with a version of its own, and everything that was ever said
// about them, for those who watch.
//
// Invariant: an object that was stored is never changed, only replaced.
type server struct {
	queue   *queue
	random  rng
	objects [kinds]map[string]object
	log     [kinds][]change
	version uint64
	// jumped is how far the clocks of the server and of the kubelets have jumped from that of the simulation, which no clock
	// is allowed to be.
	jumped time.Duration
	// events are what was recorded, by name: how often each reason was given about an object.
	events   map[string]bool
	recorded map[types.UID]map[string]int
	// bound counts the binds of each pod that took effect.
	bound map[types.UID]int
	// careless lets pods be bound again, as a server must not; for sabotage.
	careless bool
	// refused are pods, by UID, that may not be bound yet, and until when.
	refused map[types.UID]time.Time
	// unread are the kinds that cannot be read, and why.
	unread map[objectKind]cluster.Reading

	// changed is called with each change.
	changed func(before object, now change)
}

func newServer(q *queue, seed uint64) *server {
	s := &server{
		queue: q, random: newRandom(seed, "server"), events: map[string]bool{}, recorded: map[types.UID]map[string]int{},
		bound: map[types.UID]int{}, refused: map[types.UID]time.Time{}, unread: map[objectKind]cluster.Reading{},
	}
	for kind := range s.objects {
		s.objects[kind] = map[string]object{}
	}
	return s
}

// now is what the server's clock shows, in whole seconds as in all timestamps.
func (s *server) now() metav1.Time {
	return metav1.NewTime(s.queue.now.Add(s.jumped)).Rfc3339Copy()
}

func keyOf(o metav1.Object) string { return key(o.GetNamespace(), o.GetName()) }

func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// create stores a new object, unless there is one of its name.
func (s *server) create(kind objectKind, o object) bool {
	if s.objects[kind][keyOf(o)] != nil {
		return false
	}
	o.SetUID(types.UID(fmt.Sprintf("%08x-%s", s.random.Uint32(), o.GetName())))
	o.SetCreationTimestamp(s.now())
	o.SetGeneration(1)
	s.store(kind, o)
	return true
}

// update replaces an object that is there; an update that changes nothing is none.
func (s *server) update(kind objectKind, o object) {
	before := s.objects[kind][keyOf(o)]
	o.SetResourceVersion(before.GetResourceVersion())
	if !equality.Semantic.DeepEqual(before, o) {
		s.store(kind, o)
	}
}

func (s *server) store(kind objectKind, o object) {
	s.version++
	o.SetResourceVersion(fmt.Sprint(s.version))
	before := s.objects[kind][keyOf(o)]
	s.objects[kind][keyOf(o)] = o
	s.tell(before, change{kind: kind, version: s.version, object: o})
}

// remove ends an object; nothing happens when it is not there.
func (s *server) remove(kind objectKind, name string) {
	before := s.objects[kind][name]
	if before == nil {
		return
	}
	s.version++
	last := before.DeepCopyObject().(object)
	last.SetResourceVersion(fmt.Sprint(s.version))
	delete(s.objects[kind], name)
	s.tell(before, change{kind: kind, version: s.version, object: last, deleted: true})
}

// versionOf is the version of a stored object.
func versionOf(o object) uint64 {
	version, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64) // the server's own
	return version
}

func (s *server) tell(before object, now change) {
	s.log[now.kind] = append(s.log[now.kind], now)
	s.changed(before, now)
}

// listAt returns the objects of a kind as they were after so many changes.
func (s *server) listAt(kind objectKind, position int) []change {
	latest := map[string]change{}
	for _, one := range s.log[kind][:position] {
		if one.deleted {
			delete(latest, keyOf(one.object))
		} else {
			latest[keyOf(one.object)] = one
		}
	}
	return slices.SortedFunc(maps.Values(latest), func(a, b change) int { return cmp.Compare(keyOf(a.object), keyOf(b.object)) })
}

// names returns the names of all objects of a kind, in order.
func (s *server) names(kind objectKind) []string { return slices.Sorted(maps.Keys(s.objects[kind])) }

func (s *server) pod(name string) *corev1.Pod {
	pod, _ := s.objects[kindPod][name].(*corev1.Pod)
	return pod
}

func (s *server) node(name string) *corev1.Node {
	node, _ := s.objects[kindNode][name].(*corev1.Node)
	return node
}

func (s *server) group(name string) *v1alpha1.PodGroup {
	group, _ := s.objects[kindGroup][name].(*v1alpha1.PodGroup)
	return group
}

// groupOf is what the object of a group says; nil when there is none, or the pods say all.
func (s *server) groupOf(job model.JobKey) *v1alpha1.PodGroup {
	if !job.IsForeign() {
		return s.group(job.String())
	}
	object, _ := s.objects[kindOf(job.Source)][key(job.Namespace, job.Name)].(*unstructured.Unstructured)
	if object == nil {
		return nil
	}
	return asGroup(job.Source, object)
}

// foreignGroups are the jobs that objects of other projects stand for.
func (s *server) foreignGroups() (jobs []model.JobKey) {
	for _, source := range objectSources() {
		for _, name := range s.names(kindOf(source)) {
			o := s.objects[kindOf(source)][name]
			jobs = append(jobs, model.JobKey{Namespace: o.GetNamespace(), Name: o.GetName(), Source: source})
		}
	}
	return jobs
}

func (s *server) queueOf(name string) *v1alpha1.Queue {
	queue, _ := s.objects[kindQueue][name].(*v1alpha1.Queue)
	return queue
}

// queues are all Queues.
func (s *server) queues() invariants.Tree {
	all := invariants.Tree{}
	for name, one := range s.objects[kindQueue] {
		all[name] = one.(*v1alpha1.Queue)
	}
	return all
}

func (s *server) namespace(name string) *corev1.Namespace {
	namespace, _ := s.objects[kindNamespace][name].(*corev1.Namespace)
	return namespace
}

// pods returns all pods, in order of their names.
func (s *server) pods() []*corev1.Pod {
	names := s.names(kindPod)
	pods := make([]*corev1.Pod, len(names))
	for i, name := range names {
		pods[i] = s.pod(name)
	}
	return pods
}

// changePod stores a changed copy of a pod, if it still is the one of that UID.
func (s *server) changePod(name string, uid types.UID, alter func(*corev1.Pod)) bool {
	pod := s.pod(name)
	if pod == nil || uid != "" && pod.UID != uid {
		return false
	}
	pod = pod.DeepCopy()
	alter(pod)
	s.update(kindPod, pod)
	return true
}

// deletePod begins to delete a pod, with that grace in seconds; zero is what it asks for. One without a node is gone immediately.
func (s *server) deletePod(name string, within int64) {
	pod := s.pod(name)
	switch {
	case pod == nil || pod.DeletionTimestamp != nil && (within <= 0 || within >= *pod.DeletionGracePeriodSeconds):
		return
	case pod.Spec.NodeName == "" || finished(pod):
		s.remove(kindPod, name)
		return
	}
	s.changePod(name, pod.UID, func(pod *corev1.Pod) {
		grace := int64(30)
		if pod.Spec.TerminationGracePeriodSeconds != nil {
			grace = *pod.Spec.TerminationGracePeriodSeconds
		}
		if within > 0 {
			grace = within
		}
		ends := metav1.NewTime(s.now().Add(time.Duration(grace) * time.Second))
		if pod.DeletionTimestamp != nil { // a deletion is shortened from where it began, or to a second if that has passed
			ends.Time = pod.DeletionTimestamp.Add(time.Duration(grace-*pod.DeletionGracePeriodSeconds) * time.Second)
			if now := s.now(); ends.Before(&now) {
				ends, grace = now, 1
			}
		}
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &ends, &grace
	})
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
