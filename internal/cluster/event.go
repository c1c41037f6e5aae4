package cluster

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Kind says which object an event is about.
type Kind int8

// The kinds.
const (
	KindPod Kind = iota
	KindNode
	KindGroup
	KindPriorityClass
	KindDeviceClass
	KindBudget
	// KindNamespace matters for the labels of the namespace.
	KindNamespace
	// KindLease is the Lease of a node's agent.
	KindLease
	KindQueue
	// KindReading is no object: the objects of a foreign source can be read, or not any more.
	KindReading
	// KindOther is an object that the state does not hold, but that kube-scheduler's plugins read from its informer, such
	// as a claim or a storage class.
	KindOther
	// KindForeign is a group of the first foreign source; those of the others follow in their order.
	KindForeign
)

// kindOf returns the kind of the objects of a foreign source.
func kindOf(source model.Source) Kind { return KindForeign + Kind(source-model.SourceCoscheduling) }

// IsGroup reports whether events of the kind may change what a gang needs: those are taken in during a session, too.
func (k Kind) IsGroup() bool { return k == KindGroup || k == KindReading || k >= KindForeign }

// ForeignEvent returns the event of a new version of a foreign object.
func ForeignEvent(spec *sources.Spec) Event { return Event{Kind: kindOf(spec.Source), Foreign: spec} }

// GroupKey returns the key of the group, or of the object that owns pods or groups, that an event of such a kind is about;
// without a name when it is about all of a source.
func (e *Event) GroupKey() model.JobKey {
	switch e.Kind {
	case KindGroup:
		return sources.Key(e.Group)
	case KindReading:
		return model.JobKey{Source: e.Source}
	}
	return e.Foreign.Key()
}

// String returns the name of the kind, for messages.
func (k Kind) String() string {
	if k >= KindForeign {
		return (model.SourceCoscheduling + model.Source(k-KindForeign)).Kind()
	}
	return [...]string{"pod", "node", "PodGroup", "PriorityClass", "DeviceClass", "PodDisruptionBudget", "namespace", "Lease", "Queue", "reading", "object"}[k]
}

// Event is what a watch saw: an object was added, changed or deleted. Objects are never changed afterwards.
type Event struct {
	Kind Kind
	// Deleted reports that the object is gone; it is then the last that was seen of it.
	Deleted bool

	// Exactly the field of the kind is set; none for KindOther and KindReading.
	Pod           *corev1.Pod
	Node          *corev1.Node
	Group         *v1alpha1.PodGroup
	PriorityClass *schedulingv1.PriorityClass
	DeviceClass   *resourceapi.DeviceClass
	Budget        *policyv1.PodDisruptionBudget
	Lease         *coordinationv1.Lease
	Namespace     *corev1.Namespace
	Queue         *v1alpha1.Queue
	Foreign       *sources.Spec

	// Source and Reading are those of KindReading.
	Source  model.Source
	Reading Reading
}

// object returns what the event is about; nil for KindOther and KindReading, and when the field of the kind is not set.
func (e *Event) object() metav1.Object {
	switch {
	case e.Kind == KindPod && e.Pod != nil:
		return e.Pod
	case e.Kind == KindNode && e.Node != nil:
		return e.Node
	case e.Kind == KindGroup && e.Group != nil:
		return e.Group
	case e.Kind == KindPriorityClass && e.PriorityClass != nil:
		return e.PriorityClass
	case e.Kind == KindDeviceClass && e.DeviceClass != nil:
		return e.DeviceClass
	case e.Kind == KindBudget && e.Budget != nil:
		return e.Budget
	case e.Kind == KindLease && e.Lease != nil:
		return e.Lease
	case e.Kind == KindNamespace && e.Namespace != nil:
		return e.Namespace
	case e.Kind == KindQueue && e.Queue != nil:
		return e.Queue
	case e.Kind >= KindForeign && e.Foreign != nil:
		return e.Foreign
	}
	return nil
}

// Effect says what an event affects.
type Effect struct {
	// Schedule reports that a scheduling answer may have changed: a cycle is due.
	Schedule bool
	// Report reports that something which a status shows has changed.
	Report bool
}

func (e Effect) merge(other Effect) Effect {
	return Effect{Schedule: e.Schedule || other.Schedule, Report: e.Report || other.Report}
}

// Apply takes in what a watch saw and says what it affects. Events of different objects may come in any order, late and
// repeated ones are recognised.
//
// An event is admitted here, once: it is of the newest incarnation of its name, and newer than what was seen of it. From here it
// goes on to the file of its kind, and does not come back: pod.go, node.go, group.go, priorityclass.go, deviceclass.go,
// budget.go, lease.go, namespace.go, queue.go, foreign.go.
//
// Invariant I25: an object that cannot be read costs its own job, and no other.
func (s *State) Apply(event Event) (effect Effect) {
	switch event.Kind {
	case KindOther:
		return Effect{Schedule: true} // an object that the state does not hold
	case KindReading:
		return s.applyReading(event.Source, event.Reading)
	}
	object := event.object()
	if object == nil {
		return Effect{}
	}
	ended, news := s.incarnations.admit(event.Kind, object, event.Deleted)
	if !news {
		return Effect{}
	}
	if s.guard(identityOf(event.Kind, object), func() { effect = s.apply(&event, ended) }) != nil {
		return Effect{Schedule: true, Report: true}
	}
	return effect
}

// apply takes in an event that is news. ended is the incarnation that it ends, empty when it ends none; only pods are known by
// it.
func (s *State) apply(event *Event, ended types.UID) (effect Effect) {
	switch event.Kind {
	case KindPod:
		if ended != "" {
			effect = s.endPod(ended)
		}
		if !event.Deleted {
			effect = effect.merge(s.applyPod(event.Pod))
		}
	case KindNode:
		effect = s.applyNode(event.Node, event.Deleted)
	case KindGroup:
		effect = s.applyGroup(event.Group, event.Deleted)
	case KindPriorityClass:
		effect = s.applyPriorityClass(event.PriorityClass, event.Deleted)
	case KindDeviceClass:
		effect = s.applyDeviceClass(event.DeviceClass, event.Deleted)
	case KindBudget:
		effect = s.applyBudget(event.Budget, event.Deleted)
	case KindLease:
		effect = s.applyLease(event.Lease, event.Deleted)
	case KindNamespace:
		effect = s.applyNamespace(event.Namespace, event.Deleted)
	case KindQueue:
		effect = s.applyQueue(event.Queue, event.Deleted)
	default:
		effect = s.applyForeign(event.Foreign, event.Deleted)
	}
	return effect
}
