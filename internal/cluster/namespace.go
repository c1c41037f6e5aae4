package cluster

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// NamespaceSeen is a new version of a namespace, of which the labels count, or its end.
type NamespaceSeen struct {
	Namespace *corev1.Namespace
	Gone      bool
}

// namespaces has the labels of each.
type namespaces struct {
	labels map[string]map[string]string
	// relabelled reports that one came or went, or has other labels, since the last snapshot was taken.
	relabelled bool
}

func (e *NamespaceSeen) object() (string, metav1.Object, bool) {
	return "namespace", e.Namespace, e.Gone
}

func (e *NamespaceSeen) apply(s *State, _ types.UID) Effect {
	before, existed := s.namespaces.labels[e.Namespace.Name]
	if existed == !e.Gone && maps.Equal(before, e.Namespace.Labels) {
		return Effect{}
	}
	if delete(s.namespaces.labels, e.Namespace.Name); !e.Gone {
		s.namespaces.labels[e.Namespace.Name] = e.Namespace.Labels
	}
	s.namespaces.relabelled = true
	if s.queues.any() {
		s.refillJobs(func(job *model.Job) bool { return job.Key.Namespace == e.Namespace.Name })
	}
	return Effect{Schedule: true, Report: s.queues.any()}
}

// patchNamespaces records in the journal that selectors of namespaces may match other pods now.
func (s *State) patchNamespaces() (changed bool) {
	if changed, s.namespaces.relabelled = s.namespaces.relabelled, false; changed {
		s.snapshot.Journal.NamespaceRelabelled()
	}
	return changed
}

// NamespaceLabels returns the labels of a namespace, not to be changed, and whether it exists. Sessions see what it says
// change only where their snapshot tells so.
func (s *State) NamespaceLabels(name string) (labels map[string]string, exists bool) {
	labels, exists = s.namespaces.labels[name]
	return labels, exists
}
