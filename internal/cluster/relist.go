package cluster

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	groupinformers "github.com/tutti-sched/tutti/apis/client/informers/externalversions"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// The limits of one request: it asks for as many objects as are expected to be pageBytes together, by the size of those
// before, since the answer is in memory as a whole.
const (
	firstPage, longestPage = 50, 1000
	pageBytes              = 16 << 20
)

// nextPage returns how many objects to ask for after so many of that size together.
func nextPage(objects, bytes int) int64 {
	return int64(min(max(1, pageBytes*objects/max(1, bytes)), 4*max(firstPage, objects), longestPage))
}

// ListFromQuorum lists what another scheduler of the same names may have written a moment ago, our pods and their groups, and
// pushes it as events. The lists come from a quorum of etcd, where a watch may be behind: a pod that was bound since is known
// to be bound before anything is decided. What is older than what the state knows changes nothing. What was deleted since
// takes capacity until the watch or Gone says so.
func ListFromQuorum(
	ctx context.Context, pods kubernetes.Interface, groups versioned.Interface, schedulerNames []string, push func(Event),
) (*Inherited, error) {
	read := &Inherited{inheritedList{uids: map[string]types.UID{}}, inheritedList{uids: map[string]types.UID{}}}
	for _, name := range schedulerNames {
		options := metav1.ListOptions{Limit: firstPage, FieldSelector: fields.OneTermEqualSelector("spec.schedulerName", name).String()}
		for more := true; more; more = options.Continue != "" {
			list, err := pods.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
			if err != nil {
				return nil, fmt.Errorf("list pods of %s: %w", name, err)
			}
			read.pods.version = list.ResourceVersion
			for i := range list.Items {
				read.pods.uids[keyOf(&list.Items[i])] = list.Items[i].UID
				push(&PodSeen{Pod: safeTransform(KeptPod, &list.Items[i])})
			}
			options.Continue, options.Limit = list.Continue, nextPage(len(list.Items), list.Size())
		}
	}
	options := metav1.ListOptions{Limit: firstPage}
	for more := true; more; more = options.Continue != "" {
		list, err := groups.SchedulingV1alpha1().PodGroups(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list PodGroups: %w", err)
		}
		read.groups.version = list.ResourceVersion
		for i := range list.Items {
			group := &list.Items[i]
			read.groups.uids[keyOf(group)] = group.UID
			push(&GroupSeen{Group: safeTransform(stripGroup, group)})
		}
		options.Continue, options.Limit = list.Continue, nextPage(len(list.Items), memoryBehind(reflect.ValueOf(list).Elem()))
	}
	return read, nil
}

// Inherited is what ListFromQuorum has read, so that what an informer never shows is not kept indefinitely.
type Inherited struct{ pods, groups inheritedList }

// inheritedList is the UIDs of a list, by namespace and name, and its version.
type inheritedList struct {
	uids    map[string]types.UID
	version string
}

// Gone returns deletions of what was read and is gone, when both informers have come as far as the lists; until then done is
// false. An informer whose watch breaks off lists again, and says nothing of an object that was made and deleted since its
// last list.
func (r *Inherited) Gone(pods informers.SharedInformerFactory, groups groupinformers.SharedInformerFactory) (gone []Event, done bool) {
	gonePods, podsRead := r.pods.missing(pods.Core().V1().Pods().Informer())
	goneGroups, groupsRead := r.groups.missing(groups.Scheduling().V1alpha1().PodGroups().Informer())
	if !podsRead || !groupsRead {
		return nil, false
	}
	for i := range gonePods {
		gone = append(gone, &PodSeen{Gone: true, Pod: &corev1.Pod{ObjectMeta: gonePods[i]}})
	}
	for i := range goneGroups {
		gone = append(gone, &GroupSeen{Gone: true, Group: &v1alpha1.PodGroup{ObjectMeta: goneGroups[i]}})
	}
	return gone, true
}

// missing returns, in order, the objects of the list that an informer does not have, when it has come as far as the list.
func (l *inheritedList) missing(informer cache.SharedInformer) (gone []metav1.ObjectMeta, done bool) {
	order, err := resourceversion.CompareResourceVersion(informer.LastSyncResourceVersion(), l.version)
	if err != nil || order < 0 {
		return nil, false
	}
	for _, key := range slices.Sorted(maps.Keys(l.uids)) {
		stored, _, _ := informer.GetStore().GetByKey(key) // never fails
		if object, is := stored.(metav1.Object); !is || object.GetUID() != l.uids[key] {
			namespace, name, _ := cache.SplitMetaNamespaceKey(key) // it was made by keyOf
			gone = append(gone, metav1.ObjectMeta{Namespace: namespace, Name: name, UID: l.uids[key]})
		}
	}
	return gone, true
}

func keyOf(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }
