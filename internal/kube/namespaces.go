package kube

import (
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Namespaces knows the namespaces of the cluster. It is asked on the session's goroutine.
type Namespaces interface {
	// NamespaceLabels returns the labels of a namespace, not to be changed, and whether it exists.
	NamespaceLabels(name string) (labels map[string]string, exists bool)
}

// informedNamespaces knows them as their informer does.
type informedNamespaces struct {
	lister corelisters.NamespaceLister
}

func (n informedNamespaces) NamespaceLabels(name string) (labels map[string]string, exists bool) {
	namespace, err := n.lister.Get(name)
	if err != nil {
		return nil, false // a lister has no other error
	}
	return namespace.Labels, true
}
