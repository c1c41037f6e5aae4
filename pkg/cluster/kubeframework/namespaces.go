package kubeframework

import (
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// namespaceLabels knows the namespaces as their informer does.
type namespaceLabels struct {
	lister corelisters.NamespaceLister
}

func newNamespaceLabels(factory informers.SharedInformerFactory) namespaceLabels {
	return namespaceLabels{lister: factory.Core().V1().Namespaces().Lister()}
}

// NamespaceLabels returns the labels of a namespace, not to be changed, and whether it exists. It may be called on any
// goroutine.
func (n namespaceLabels) NamespaceLabels(name string) (labels map[string]string, exists bool) {
	namespace, err := n.lister.Get(name)
	if err != nil {
		return nil, false // a lister has no other error
	}
	return namespace.Labels, true
}
