package sources

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// QueueOf returns the name of the queue of a job: the one that its group names, empty when it names none, else its oldest member,
// else its namespace by a label, else the default. oldest is empty when it names none.
func QueueOf(ofGroup, oldest string, namespace map[string]string) string {
	return cmp.Or(ofGroup, oldest, namespace[v1alpha1.LabelQueue], v1alpha1.DefaultQueue)
}

// NamespacesOf returns what selects, by their labels, the namespaces whose jobs may use a queue: all of them for the default one,
// without a selector those that name the queue. The error says what is wrong with the selector, which then selects none.
func NamespacesOf(queue *v1alpha1.Queue) (labels.Selector, error) {
	switch selector := queue.Spec.NamespaceSelector; {
	case queue.Name == v1alpha1.DefaultQueue:
		return labels.Everything(), nil
	case selector == nil:
		return labels.SelectorFromSet(labels.Set{v1alpha1.LabelQueue: queue.Name}), nil
	default:
		selects, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return labels.Nothing(), err
		}
		return selects, nil
	}
}
