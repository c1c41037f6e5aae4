package cluster

import (
	"fmt"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/model"
)

// requests are the rules kube-scheduler counts by: what the node has granted a running pod counts until a resize of it
// is done, and resources of the pod as a whole take the place of those of its containers.
var requests = resource.PodResourcesOptions{
	UseStatusResources: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
	ExcludeOverhead: true,
}

// requestsOf returns what kube-scheduler would count for a pod. The overhead is added here and not by PodRequests, which
// adds it in place to amounts that it may share with the pod: each call would make the pod bigger.
func requestsOf(pod *corev1.Pod, options resource.PodResourcesOptions) corev1.ResourceList {
	list := resource.PodRequests(pod, options)
	for name, overhead := range pod.Spec.Overhead {
		sum := list[name].DeepCopy()
		sum.Add(overhead)
		list[name] = sum
	}
	return list
}

// nonZeroDefaultsOf returns what kube-scheduler's scores count on top of the request. A pod with resources as a whole has
// only those supposed that neither it nor any container names.
func nonZeroDefaultsOf(pod *corev1.Pod) model.NonZeroDefaults {
	if statesAllRequests(pod.Spec.Containers) && statesAllRequests(pod.Spec.InitContainers) && !kube.HasInPlaceResize(&pod.Status) {
		return model.NonZeroDefaults{}
	}
	stated := requestsOf(pod, requests)
	options := requests
	options.NonMissingContainerRequests = corev1.ResourceList{ // of a container that does not say
		corev1.ResourceCPU:    *quantity.NewMilliQuantity(util.DefaultMilliCPURequest, quantity.DecimalSI),
		corev1.ResourceMemory: *quantity.NewQuantity(util.DefaultMemoryRequest, quantity.BinarySI),
	}
	if resource.IsPodLevelRequestsSet(pod) {
		maps.DeleteFunc(options.NonMissingContainerRequests, func(name corev1.ResourceName, _ quantity.Quantity) bool {
			_, named := stated[name]
			return named
		})
	}
	counted := requestsOf(pod, options)
	var supposed model.NonZeroDefaults
	supposed[model.CPU] = counted.Cpu().MilliValue() - stated.Cpu().MilliValue()
	supposed[model.Memory] = counted.Memory().Value() - stated.Memory().Value()
	for i, amount := range supposed {
		supposed[i] = min(max(amount, 0), model.MaxAmount) // no request may overflow the sums
	}
	return supposed
}

func statesAllRequests(containers []corev1.Container) bool {
	for i := range containers {
		stated := containers[i].Resources.Requests
		if _, ok := stated[corev1.ResourceCPU]; !ok {
			return false
		}
		if _, ok := stated[corev1.ResourceMemory]; !ok {
			return false
		}
	}
	return true
}

// maxRequestNames is the most resources that a pod may request. The API server has no limit but that of the object's size, and
// what is worked out for a pod grows with the number.
const maxRequestNames = 64

// maxRules is the most rules of placement that a pod may have: what is worked out for every node, and for every other pod,
// grows with the number of keys that rules name, and with the number of terms.
const maxRules = 256

// placementRules counts the rules by which a pod chooses nodes and other pods. Values in a list are none: what an object may be
// large bounds these.
func placementRules(spec *corev1.PodSpec) int {
	rules := len(spec.NodeSelector)
	for _, part := range []any{spec.Tolerations, spec.TopologySpreadConstraints, spec.Affinity} {
		rules += countElements(reflect.ValueOf(part))
	}
	for i := range spec.TopologySpreadConstraints {
		rules += len(spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
	return rules
}

// countElements returns how many elements the lists of objects, and the maps, in a value have.
func countElements(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			n = countElements(v.Elem())
		}
	case reflect.Map:
		n = v.Len()
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			n = v.Len()
			for i := range v.Len() {
				n += countElements(v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += countElements(v.Field(i))
		}
	}
	return n
}

// request returns what a pod takes on a node, and the part of it that no node offers, nil when that is nothing. With a refusal
// it is what the pod takes if it runs nevertheless. Of the task it reads what a translator may.
func (s *State) request(task *model.Task) (vector model.Resources, unoffered corev1.ResourceList, refusal *model.Refusal) {
	pod := task.Pod
	list := requestsOf(pod, requests)
	names := len(list)
	if names > maxRequestNames {
		refusal = &model.Refusal{Code: model.InvalidRequest, Detail: fmt.Sprintf(
			"pod %s/%s requests %d resources, more than %d", pod.Namespace, pod.Name, names, maxRequestNames)}
	}
	offered, unoffered := s.divide(list)
	vector, bad, ok := s.dimensions.Vector(offered)
	vector.Set(model.Pods, 1)
	for name, amount := range unoffered {
		if _, counted := model.Amount(name, amount); !counted && (ok || name < bad) {
			bad, ok = name, false
		}
	}
	if !ok && refusal == nil {
		quantity := list[bad]
		refusal = &model.Refusal{Code: model.InvalidRequest, Detail: fmt.Sprintf(
			"pod %s/%s requests %s of %s, which is not an amount that can be counted",
			pod.Namespace, pod.Name, quantity.String(), bad)}
	}
	if why := Malformed(pod); why != "" {
		refusal = &model.Refusal{Code: model.InvalidRequest, Detail: fmt.Sprintf("pod %s/%s: %s", pod.Namespace, pod.Name, why)}
	}
	for _, translator := range s.offered.translators {
		if r := translator.TranslateRequest(s.dimensions, task, &vector); refusal == nil {
			refusal = r
		}
	}
	return vector, unoffered, refusal
}

// capacity returns what a node offers: nothing when it cannot be read.
func (s *State) capacity(node *corev1.Node) (model.Resources, *model.Refusal) {
	if len(node.Status.Allocatable) == 0 {
		return nil, &model.Refusal{Code: model.NodesFiltered, Detail: "the node reports no allocatable resources"}
	}
	vector, bad, ok := s.dimensions.Vector(node.Status.Allocatable)
	if !ok {
		return nil, &model.Refusal{
			Code: model.NodesFiltered, Detail: fmt.Sprintf("the node's allocatable %s cannot be counted", bad),
		}
	}
	for _, translator := range s.offered.translators {
		if refusal := translator.TranslateCapacity(s.dimensions, node, &vector); refusal != nil {
			return vector, refusal
		}
	}
	return vector, nil
}
