package invariants

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Eligible reports whether a pod may be on a node, its capacity aside: readiness, taints, selector and node affinity.
func Eligible(pod *corev1.Pod, node *corev1.Node) bool {
	return Ready(node) && Takes(node, pod)
}

// Takes reports whether taints, selector and node affinity let a pod on a node.
func Takes(node *corev1.Node, pod *corev1.Pod) bool {
	return tolerated(pod, node) && selected(pod, node)
}

// Ready reports whether a node says that it is.
func Ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func tolerated(pod *corev1.Pod, node *corev1.Node) bool {
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(slices.Clone(taints), corev1.Taint{
			Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), &taints[i], false)
		}) {
			return false
		}
	}
	return true
}

func selected(pod *corev1.Pod, node *corev1.Node) bool {
	for key, value := range pod.Spec.NodeSelector {
		if has, ok := node.Labels[key]; !ok || has != value {
			return false
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return true
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required == nil || slices.ContainsFunc(required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return matches(term, node)
	})
}

// matches reports whether a node meets every requirement of a term; a term without any matches nothing.
func matches(term corev1.NodeSelectorTerm, node *corev1.Node) bool {
	for _, requirement := range term.MatchExpressions {
		if value, ok := node.Labels[requirement.Key]; !meets(requirement, value, ok) {
			return false
		}
	}
	for _, requirement := range term.MatchFields { // metadata.name is the only field there is
		if !meets(requirement, node.Name, true) {
			return false
		}
	}
	return len(term.MatchExpressions)+len(term.MatchFields) > 0
}

func meets(requirement corev1.NodeSelectorRequirement, value string, has bool) bool {
	switch requirement.Operator {
	case corev1.NodeSelectorOpIn:
		return has && slices.Contains(requirement.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !has || !slices.Contains(requirement.Values, value)
	case corev1.NodeSelectorOpExists:
		return has
	case corev1.NodeSelectorOpDoesNotExist:
		return !has
	}
	number, err := strconv.ParseInt(value, 10, 64)
	if !has || err != nil || len(requirement.Values) != 1 {
		return false
	}
	bound, err := strconv.ParseInt(requirement.Values[0], 10, 64)
	if err != nil {
		return false
	}
	if requirement.Operator == corev1.NodeSelectorOpGt {
		return number > bound
	}
	return requirement.Operator == corev1.NodeSelectorOpLt && number < bound
}

// Judged reports whether placement of the pod depends on nothing but what Eligible and RequestOf know.
func Judged(pod *corev1.Pod) bool {
	if a := pod.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return false
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 || len(pod.Spec.ResourceClaims) > 0 || pod.Annotations[isolatedCPUs] != "" {
		return false
	}
	for _, container := range pod.Spec.Containers {
		if slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }) {
			return false
		}
	}
	return !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil
	})
}

// isolatedCPUs is the annotation of pods whose CPU is counted in another pool, assignedCPUs the one of pods that have isolated
// CPUs, and cpuTopology the one of nodes that says which these are.
const (
	isolatedCPUs = "isolcpu.tutti.dev/cpus"
	assignedCPUs = "isolcpu.tutti.dev/assigned"
	cpuTopology  = "isolcpu.tutti.dev/topology"
)
