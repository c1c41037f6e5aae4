package cluster

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// applyNamespace takes in the labels of a namespace, or its end.
func (s *State) applyNamespace(namespace *corev1.Namespace, deleted bool) Effect {
	before, existed := s.namespaces[namespace.Name]
	if existed == !deleted && maps.Equal(before, namespace.Labels) {
		return Effect{}
	}
	if delete(s.namespaces, namespace.Name); !deleted {
		s.namespaces[namespace.Name] = namespace.Labels
	}
	s.relabelled = true
	if s.queues.any() {
		s.refillJobs(func(job *model.Job) bool { return job.Key.Namespace == namespace.Name })
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
