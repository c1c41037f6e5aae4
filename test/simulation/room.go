package simulation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// room is amounts by resource, CPU in thousandths.
type room map[corev1.ResourceName]int64

func (r room) add(list corev1.ResourceList, sign int64) {
	for name, amount := range list {
		if name == corev1.ResourceCPU {
			r[name] += sign * amount.MilliValue()
			continue
		}
		r[name] += sign * amount.Value()
	}
}

func requestsOf(pod *corev1.Pod) corev1.ResourceList {
	requests := maps.Clone(pod.Spec.Containers[0].Resources.Requests)
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return requests
}

// freeOn returns what a node offers less what the pods that count on it ask for.
func freeOn(node *corev1.Node, pods []*corev1.Pod, counts func(*corev1.Pod) bool) room {
	free := room{}
	free.add(node.Status.Allocatable, 1)
	for _, pod := range pods {
		if !finished(pod) && counts(pod) {
			free.add(requestsOf(pod), -1)
		}
	}
	return free
}

// lacking returns a resource that a pod asks for and of which there is less than nothing left; empty when there is none.
func (r room) lacking(pod *corev1.Pod) corev1.ResourceName {
	requests := requestsOf(pod)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if amount := requests[name]; !amount.IsZero() && r[name] < 0 {
			return name
		}
	}
	return ""
}

// fitsTheNodes is I3, as far as the process can know: what is on a node with the decision asks for no more than it offers.
func (j *invariantChecker) fitsTheNodes(p *process, decision model.Decision) {
	for _, bind := range decision.Binds {
		pod, node := p.pod(bind.Pod.String()), p.node(bind.Node)
		if pod == nil || node == nil {
			j.violated("I4", "pod %s is bound to %s, and one of them does not exist", bind.Pod, bind.Node)
			continue
		}
		free := freeOn(node, p.pods(), func(other *corev1.Pod) bool { return p.place(other) == node.Name })
		if lacks := free.lacking(pod); lacks != "" {
			j.violated("I3", "pod %s is bound to %s, which has %d too little of %s", bind.Pod, bind.Node, -free[lacks], lacks)
		}
	}
}

// fitsInFact is I3 for the cluster itself: a node holds no more than it offers, unless somebody else took or took away room of
// which the process had not been told when it decided.
func (j *invariantChecker) fitsInFact(p *process, call commit.Call) {
	pod, node := j.server.pod(call.Pod.String()), j.server.node(call.Node)
	if pod == nil || node == nil {
		return
	}
	on := func(other *corev1.Pod) bool { return other.Spec.NodeName == node.Name }
	free := freeOn(node, j.server.pods(), on)
	lacks := free.lacking(pod)
	if lacks == "" {
		return
	}
	seen := p.seen[pod.UID]
	unknown := j.shrunk[node.Name] > seen.nodes
	for _, other := range j.server.pods() {
		came := j.came[other.UID]
		unknown = unknown || on(other) && !finished(other) && came.life == 0 && came.version > seen.pods
	}
	if !unknown {
		j.violated("I3", "node %s has %d too little of %s now that %s is bound to it", node.Name, -free[lacks], lacks, call.Pod)
	}
}

// choosesEligibleNodes is I4: nodes are there, take pods, and are among those that the pod may go to.
func (j *invariantChecker) choosesEligibleNodes(p *process, decision model.Decision) {
	for _, bind := range decision.Binds {
		pod, node := p.pod(bind.Pod.String()), p.node(bind.Node)
		if pod != nil && node != nil && !eligible(pod, node) {
			j.violated("I4", "pod %s is bound to %s, which is not for it", bind.Pod, bind.Node)
		}
		if pod != nil && len(pod.Spec.SchedulingGates) > 0 {
			j.violated("I4", "pod %s is bound, and its gates are closed", bind.Pod)
		}
	}
}

// eligible tells whether a node takes a pod, whatever else it holds. A pod that tolerates anything tolerates everything.
func eligible(pod *corev1.Pod, node *corev1.Node) bool {
	if len(pod.Spec.Tolerations) == 0 && (node.Spec.Unschedulable || len(node.Spec.Taints) > 0) {
		return false
	}
	for label, value := range pod.Spec.NodeSelector {
		if node.Labels[label] != value {
			return false
		}
	}
	return true
}
