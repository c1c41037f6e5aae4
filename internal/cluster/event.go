package cluster

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
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
	// KindOther is an object that the state does not hold, but that kube-scheduler's plugins read from its informer, such
	// as a claim or a storage class.
	KindOther
)

// Event is what a watch saw: an object was added, changed or deleted. Objects are never changed afterwards.
type Event struct {
	Kind Kind
	// Deleted reports that the object is gone; it is then the last that was seen of it.
	Deleted bool

	// Exactly the field of the kind is set; none for KindOther.
	Pod           *corev1.Pod
	Node          *corev1.Node
	Group         *v1alpha1.PodGroup
	PriorityClass *schedulingv1.PriorityClass
	DeviceClass   *resourceapi.DeviceClass
	Budget        *policyv1.PodDisruptionBudget
	Lease         *coordinationv1.Lease
	Namespace     *corev1.Namespace
}

// Effect says whom an event concerns.
type Effect struct {
	// Schedule reports that a scheduling answer may have changed: a cycle is due.
	Schedule bool
	// Report reports that something which a status shows has changed.
	Report bool
	// Malformed says which object could not be read, and why; empty when it was.
	Malformed string
}

func (e Effect) merge(other Effect) Effect {
	return Effect{Schedule: e.Schedule || other.Schedule, Report: e.Report || other.Report}
}
