package invariants

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Amounts are resources by name: milli-CPU, bytes, counts.
type Amounts map[corev1.ResourceName]int64

// AmountsOf returns those of a list.
func AmountsOf(list corev1.ResourceList) Amounts {
	a := Amounts{}
	for name, quantity := range list {
		if name == corev1.ResourceCPU {
			a[name] = quantity.MilliValue()
		} else {
			a[name] = quantity.Value()
		}
	}
	return a
}

// Add adds so many times others.
func (a Amounts) Add(b Amounts, times int64) {
	for name, amount := range b {
		a[name] += times * amount
	}
}

// AtLeast raises each amount to that of others.
func (a Amounts) AtLeast(b Amounts) {
	for name, amount := range b {
		a[name] = max(a[name], amount)
	}
}

// Slots is how many times the request fits what is idle.
func (a Amounts) Slots(request Amounts) int64 {
	count := int64(math.MaxInt64)
	for name, amount := range request {
		if amount > 0 {
			count = min(count, max(0, a[name])/amount)
		}
	}
	return count
}

// RequestOf is what a pod takes on its node: its containers together, or where that is more the largest moment of its
// start, and one place among the node's pods.
func RequestOf(pod *corev1.Pod) Amounts {
	total, sidecars, start := Amounts{}, Amounts{}, Amounts{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		moment := AmountsOf(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.Add(moment, 1)
			start.AtLeast(sidecars)
			continue
		}
		moment.Add(sidecars, 1)
		start.AtLeast(moment)
	}
	for i := range pod.Spec.Containers {
		total.Add(AmountsOf(pod.Spec.Containers[i].Resources.Requests), 1)
	}
	total.Add(sidecars, 1)
	total.AtLeast(start)
	if pod.Spec.Resources != nil {
		for name, amount := range AmountsOf(pod.Spec.Resources.Requests) {
			total[name] = amount
		}
	}
	total.Add(AmountsOf(pod.Spec.Overhead), 1)
	total[corev1.ResourcePods] = 1
	return total
}

// Free returns what a node offers less what pods on it ask for; those that have ended ask for nothing.
func Free(node *corev1.Node, pods []*corev1.Pod, on func(*corev1.Pod) bool) Amounts {
	free := AmountsOf(node.Status.Allocatable)
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && on(pod) {
			request := RequestOf(pod)
			assigned := strings.Contains(pod.Annotations[assignedCPUs], fmt.Sprintf(`"node":%q`, node.Name))
			if assigned && strings.Contains(node.Annotations[cpuTopology], `"mode":"excluded"`) {
				delete(request, corev1.ResourceCPU) // what the node allows does not include its isolated CPUs
			}
			free.Add(request, -1)
		}
	}
	return free
}

// Lacks returns the resources that a pod asks for and of which there is less than nothing left, in order. Another one may
// have been overdrawn before the pod came.
func (a Amounts) Lacks(pod *corev1.Pod) []corev1.ResourceName {
	var names []corev1.ResourceName
	request := RequestOf(pod)
	for _, name := range slices.Sorted(maps.Keys(request)) {
		if request[name] > 0 && a[name] < 0 {
			names = append(names, name)
		}
	}
	return names
}
