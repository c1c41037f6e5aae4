package simulation

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// fitsTheNodes is I3, as far as the process can know: what is on a node with the decision asks for no more than it offers.
func (j *invariantChecker) fitsTheNodes(p *process, decision model.Decision) {
	for _, bind := range decision.Binds {
		pod, node := p.pod(bind.Pod.String()), p.node(bind.Node)
		if pod == nil || node == nil {
			j.violated("I4", "pod %s is bound to %s, and one of them does not exist", bind.Pod, bind.Node)
			continue
		}
		free := invariants.Free(node, p.pods(), func(other *corev1.Pod) bool { return p.place(other) == node.Name })
		if lacks := free.Lacks(pod); len(lacks) > 0 {
			j.violated("I3", "pod %s is bound to %s, which has %d too little of %s", bind.Pod, bind.Node, -free[lacks[0]], lacks[0])
		}
	}
}

// fitsInFact is I3 for the cluster itself: a node holds no more than it offers, unless another client took capacity, or took it
// away, which the process had not received when it decided.
func (j *invariantChecker) fitsInFact(p *process, call commit.Call) {
	pod, node := j.server.pod(call.Pod.String()), j.server.node(call.Node)
	if pod == nil || node == nil {
		return
	}
	on := func(other *corev1.Pod) bool { return other.Spec.NodeName == node.Name }
	free := invariants.Free(node, j.server.pods(), on)
	lacks := free.Lacks(pod)
	if len(lacks) == 0 {
		return
	}
	seen := p.seen[pod.UID]
	unknown := j.shrunk[node.Name] > seen[kindNode]
	for _, other := range j.server.pods() {
		came := j.came[other.UID]
		unknown = unknown || on(other) && !finished(other) && came.life == 0 && came.version > seen[kindPod]
	}
	if !unknown {
		j.violated("I3", "node %s has %d too little of %s now that %s is bound to it", node.Name, -free[lacks[0]], lacks[0], call.Pod)
	}
}

// choosesEligibleNodes is I4: nodes are there, take pods, and are among those that the pod may go to.
func (j *invariantChecker) choosesEligibleNodes(p *process, decision model.Decision) {
	for _, bind := range decision.Binds {
		pod, node := p.pod(bind.Pod.String()), p.node(bind.Node)
		if pod != nil && node != nil && !invariants.Takes(node, pod) {
			j.violated("I4", "pod %s is bound to %s, which is not for it", bind.Pod, bind.Node)
		}
		if pod != nil && len(pod.Spec.SchedulingGates) > 0 {
			j.violated("I4", "pod %s is bound, and its gates are closed", bind.Pod)
		}
	}
}
