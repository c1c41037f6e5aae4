package simulation

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/test/invariants"
)

// fitsInFact is I3 for the cluster itself: a node holds no more than it offers, unless another client took capacity, or took it
// away, which the process had not received when it decided.
func (j *invariantChecker) fitsInFact(p *process, call commit.Call) {
	in := j.inFact()
	pod, node := in.Pod(call.Pod), in.Node(call.Node)
	if pod == nil || node == nil {
		return
	}
	on := func(other *corev1.Pod) bool { return other.Spec.NodeName == node.Name }
	free := invariants.Free(node, in.Pods, on)
	lacks := free.Lacks(pod)
	if len(lacks) == 0 {
		return
	}
	seen := p.seen[pod.UID]
	unknown := j.shrunk[node.Name] > seen[kindNode] || j.fewer[node.Name] > seen[kindSlice]
	for _, other := range j.server.pods() {
		came := j.came[other.UID]
		unknown = unknown || on(other) && !finished(other) && came.life == 0 && came.version > seen[kindPod]
	}
	if !unknown {
		j.violated("I3", "node %s has %d too little of %s now that %s is bound to it", node.Name, -free[lacks[0]], lacks[0], call.Pod)
	}
}
