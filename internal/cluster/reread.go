package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/tutti-sched/tutti/pkg/generated/clientset/versioned"
)

// page is how many objects one request asks for.
const page = 1000

// ListFromQuorum lists what another scheduler of the same names may have written a moment ago, our pods and their groups, and pushes it as
// events. The lists come from a quorum of etcd, where a watch may be behind: a pod that was bound since is known to be bound
// before anything is decided. What is older than what the state knows changes nothing. What was deleted since, only the watch
// tells; it takes room until then.
func ListFromQuorum(
	ctx context.Context, pods kubernetes.Interface, groups versioned.Interface, schedulerNames []string, push func(Event),
) error {
	for _, name := range schedulerNames {
		options := metav1.ListOptions{Limit: page, FieldSelector: fields.OneTermEqualSelector("spec.schedulerName", name).String()}
		for more := true; more; more = options.Continue != "" {
			list, err := pods.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
			if err != nil {
				return fmt.Errorf("list pods of %s: %w", name, err)
			}
			for i := range list.Items {
				push(Event{Kind: KindPod, Pod: safeTransform(StripPod, &list.Items[i])})
			}
			options.Continue = list.Continue
		}
	}
	options := metav1.ListOptions{Limit: page}
	for more := true; more; more = options.Continue != "" {
		list, err := groups.SchedulingV1alpha1().PodGroups(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list PodGroups: %w", err)
		}
		for i := range list.Items {
			group := &list.Items[i]
			group.ManagedFields = nil
			push(Event{Kind: KindGroup, Group: group})
		}
		options.Continue = list.Continue
	}
	return nil
}
