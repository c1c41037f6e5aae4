package isolated

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// RequiredPluginsAnnotation is on bound pods, for the container runtime, which starts no container of the pod without these
// NRI plugins.
const RequiredPluginsAnnotation = "required-plugins.noderesource.dev/pod"

// requiredPlugin is the name of the agent's NRI plugin.
const requiredPlugin = "isolcpu"

// checkContainers returns an error when the assignment names a container that the pod does not have, or when two that run at the
// same time have an id in common: only where the pod as a whole has a request may containers share what the others leave.
func (a *Assignment) checkContainers(spec *corev1.PodSpec) error {
	var taken CPUSet
	named := 0
	_, whole := podLevel(spec)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			own, has := a.Containers[c.Name]
			if has {
				named++
			}
			if ends := i < len(spec.InitContainers) && c == &spec.InitContainers[i] && !restarts(c); ends || whole {
				continue
			}
			if both := own.Intersect(taken); !both.Empty() {
				return fmt.Errorf("%s: container %.64q has CPUs %s of another one", AssignedAnnotation, c.Name, both)
			}
			taken = taken.Union(own)
		}
	}
	if named < len(a.Containers) {
		return fmt.Errorf("%s names %d containers that the pod does not have", AssignedAnnotation, len(a.Containers)-named)
	}
	return nil
}

// SharedPoolRequest returns what a pod that holds these ids takes of ordinary CPU, in thousandths of a core: the requests of
// its other containers and its overhead, and what resized containers with ids request beyond these.
//
// Invariant: together with the ids it is at least what the kubelet counts for the pod, whatever the assignment says.
func SharedPoolRequest(pod *corev1.Pod, held *Assignment) int64 {
	overhead := milli(pod.Spec.Overhead.Cpu())
	if whole, set := podLevel(&pod.Spec); set {
		return max(0, milli(&whole)-1000*int64(held.CPUs.Len())) + overhead
	}
	granted := grantedTo(&pod.Status)
	request := func(c *corev1.Container) int64 { return max(milli(c.Resources.Requests.Cpu()), granted[c.Name]) }
	beyond := func(c *corev1.Container) int64 { return max(0, request(c)-1000*int64(held.Containers[c.Name].Len())) }
	return overhead + max(peak(&pod.Spec, beyond), peak(&pod.Spec, request)-1000*int64(held.CPUs.Len()))
}

// ResizedBeyond returns the first container that requests more CPU than it has ids, after a resize, and how much; an empty
// name when none does.
func ResizedBeyond(pod *corev1.Pod, held *Assignment) (name, asks string) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			request := c.Resources.Requests.Cpu()
			if own, has := held.Containers[c.Name]; has && milli(request) > 1000*int64(own.Len()) {
				return c.Name, request.String()
			}
		}
	}
	return "", ""
}

// grantedTo returns the CPU that the node has granted to containers, by name: it counts until a resize is done.
func grantedTo(status *corev1.PodStatus) map[string]int64 {
	var granted map[string]int64
	for _, statuses := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			amount := milli(s.AllocatedResources.Cpu())
			if s.Resources != nil {
				amount = max(amount, milli(s.Resources.Requests.Cpu()))
			}
			if amount > 0 {
				if granted == nil {
					granted = map[string]int64{}
				}
				granted[s.Name] = amount
			}
		}
	}
	return granted
}

// Annotations returns the annotations of a pod to be bound: its ids, and the NRI plugins it requires, the agent's added to
// the user's. The error says that the user's list cannot be read.
func (a *Asked) Annotations(assigned *Assignment) (map[string]string, error) {
	text, err := assigned.Text()
	if err != nil {
		return nil, err
	}
	required := []string{}
	if a != nil {
		if a.unread != nil {
			return nil, a.unread
		}
		required = slices.Clone(a.required)
	}
	if !slices.Contains(required, requiredPlugin) {
		required = append(required, requiredPlugin)
	}
	list, err := json.Marshal(required)
	if err != nil {
		return nil, err
	}
	return map[string]string{AssignedAnnotation: text, RequiredPluginsAnnotation: string(list)}, nil
}
