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

func (e *NamespaceSeen) object() (string, metav1.Object, bool) {
	return "namespace", e.Namespace, e.Gone
}

func (e *NamespaceSeen) apply(s *State, _ types.UID) Effect {
	before, existed := s.namespaces[e.Namespace.Name]
	if existed == !e.Gone && maps.Equal(before, e.Namespace.Labels) {
		return Effect{}
	}
	if delete(s.namespaces, e.Namespace.Name); !e.Gone {
		s.namespaces[e.Namespace.Name] = e.Namespace.Labels
	}
	s.relabelled = true
	if s.queues.any() {
		s.refillJobs(func(job *model.Job) bool { return job.Key.Namespace == e.Namespace.Name })
	}
	return Effect{Schedule: true, Report: s.queues.any()}
}

// patchNamespaces records in the journal that selectors of namespaces may match other pods now.
func (s *State) patchNamespaces() (changed bool) {
	if changed, s.relabelled = s.relabelled, false; changed {
		s.snapshot.Journal.NamespaceRelabelled()
	}
	return changed
}

// NamespaceLabels returns the labels of a namespace, not to be changed, and whether it exists. Sessions see what it says
// change only where their snapshot tells so.
func (s *State) NamespaceLabels(name string) (labels map[string]string, exists bool) {
	labels, exists = s.namespaces[name]
	return labels, exists
}
