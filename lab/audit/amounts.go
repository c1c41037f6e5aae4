package audit

import (
	"math"

	corev1 "k8s.io/api/core/v1"
)

// amounts are resources by name: milli-CPU, bytes, counts.
type amounts map[corev1.ResourceName]int64

func amountsOf(list corev1.ResourceList) amounts {
	a := amounts{}
	for name, quantity := range list {
		if name == corev1.ResourceCPU {
			a[name] = quantity.MilliValue()
		} else {
			a[name] = quantity.Value()
		}
	}
	return a
}

func (a amounts) add(b amounts, times int64) {
	for name, amount := range b {
		a[name] += times * amount
	}
}

func (a amounts) atLeast(b amounts) {
	for name, amount := range b {
		a[name] = max(a[name], amount)
	}
}

// slots is how many times the request fits what is idle.
func (a amounts) slots(request amounts) int64 {
	count := int64(math.MaxInt64)
	for name, amount := range request {
		if amount > 0 {
			count = min(count, max(0, a[name])/amount)
		}
	}
	return count
}

// requestOf is what a pod takes on its node: its containers together, or where that is more the largest moment of its
// start, and one place among the node's pods.
func requestOf(pod *corev1.Pod) amounts {
	total, sidecars, start := amounts{}, amounts{}, amounts{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		moment := amountsOf(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.add(moment, 1)
			start.atLeast(sidecars)
			continue
		}
		moment.add(sidecars, 1)
		start.atLeast(moment)
	}
	for i := range pod.Spec.Containers {
		total.add(amountsOf(pod.Spec.Containers[i].Resources.Requests), 1)
	}
	total.add(sidecars, 1)
	total.atLeast(start)
	if pod.Spec.Resources != nil {
		for name, amount := range amountsOf(pod.Spec.Resources.Requests) {
			total[name] = amount
		}
	}
	total.add(amountsOf(pod.Spec.Overhead), 1)
	total[corev1.ResourcePods] = 1
	return total
}
