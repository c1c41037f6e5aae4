package sources

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// counts are the fields that say how often what is beside or below them is there.
var counts = []string{"replicas", "parallelism", "numOfHosts"}

// template is a pod template in an object of any kind.
type template struct {
	fields map[string]any
	count  int64
	// indexed reports that the pods are numbered as those of an indexed Job.
	indexed bool
}

// templatesIn returns the pod templates in a field, in the order of their paths. Each is there as often as the counts around it
// say, and at most so often.
func templatesIn(field any, count, most int64, indexed bool) (found []template) {
	switch field := field.(type) {
	case []any:
		for _, element := range field {
			found = append(found, templatesIn(element, count, most, indexed)...)
		}
	case map[string]any:
		for _, name := range counts {
			n, stated := field[name].(int64)
			if completions, limited := field["completions"].(int64); limited && name == "parallelism" {
				if !stated {
					n = 1
				}
				n, stated = min(n, completions), true
			}
			if stated {
				count = min(count*max(0, min(n, most)), most)
			}
		}
		if _, isTemplate, _ := unstructured.NestedSlice(field, "spec", "containers"); isTemplate {
			return []template{{fields: field, count: count, indexed: indexed}}
		}
		indexed = indexed || field["completionMode"] == string(batchv1.IndexedCompletion)
		for _, name := range slices.Sorted(maps.Keys(field)) {
			found = append(found, templatesIn(field[name], count, most, indexed)...)
		}
	}
	return found
}

// Expand returns the pods of an object with pod templates, numbered through, and the gang that they are together: what is read of
// an object of an operator, all pods where nothing is, and nil where they are no gang, or name one. meta is the identity of the
// object, and most how many pods it may have. What its operator does otherwise is not known.
func Expand(text []byte, meta *metav1.ObjectMeta, most int) (pods []*corev1.Pod, gang *v1alpha1.PodGroupSpec, err error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, nil, err
	}
	templates := templatesIn(object.Object["spec"], 1, int64(most)+1, false)
	if object.GetKind() == "LeaderWorkerSet" || len(templates) == 0 {
		return nil, nil, errors.New("only Pods, PodGroups, Queues, Nodes, PriorityClasses, and objects with pod templates whose pods are " +
			"one job, can be supposed")
	}
	namesGroup := false
	for i := range templates {
		made := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(templates[i].fields, made); err != nil {
			return nil, nil, fmt.Errorf("a pod template: %w", err)
		}
		if len(pods)+int(templates[i].count) > most {
			return nil, nil, fmt.Errorf("it has more than %d pods", most)
		}
		for j := range templates[i].count {
			pod := made.DeepCopy()
			pod.Namespace, pod.Name = meta.Namespace, fmt.Sprintf("%s-%d", meta.Name, len(pods))
			pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("%s %d", meta.UID, len(pods))), meta.CreationTimestamp
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: meta.Name, UID: meta.UID, Controller: new(true),
			}}
			if templates[i].indexed {
				metav1.SetMetaDataLabel(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, fmt.Sprint(j))
			}
			namesGroup = namesGroup || !Of(pod).Job.IsPod()
			pods = append(pods, pod)
		}
	}
	if group := object.GroupVersionKind().Group; group == batchv1.GroupName || group == appsv1.GroupName || namesGroup {
		return pods, nil, nil
	}
	spec := read(object)
	switch {
	case spec == nil:
		return pods, &v1alpha1.PodGroupSpec{MinMember: int32(len(pods))}, nil
	case spec.Contradiction != "":
		return nil, nil, errors.New(spec.Contradiction)
	case spec.NoGang:
		return pods, nil, nil
	}
	return pods, &v1alpha1.PodGroupSpec{MinMember: spec.MinMember, PriorityClassName: spec.PriorityClassName, Queue: spec.Queue}, nil
}

// read returns what is read of an object of an operator; nil of a kind that is not read.
func read(object *unstructured.Unstructured) *Spec {
	version := object.GroupVersionKind().GroupVersion()
	for i := range watchOf {
		if watch := &watchOf[i]; watch.Decode != nil && watch.Source.Kind() == object.GetKind() && watch.Resource.GroupVersion() == version {
			return watch.Decode(object)
		}
	}
	return nil
}
