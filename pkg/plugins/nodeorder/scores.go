package nodeorder

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/framework"
)

// kubeScore is one of kube-scheduler's scores.
type kubeScore struct {
	// name is what explanations call the score, and plugin what kube-scheduler calls it.
	name, plugin  string
	scope         framework.Scope
	weight        int64
	normalization framework.Normalization
	// concerns tells, cheaply, whether the score could tell nodes apart for the pod. What it rules out here, PreScore would
	// skip: that is the invariant.
	concerns func(nodes fwk.NodeInfoLister, pod *corev1.Pod) bool
	score    fwk.ScorePlugin
	pre      fwk.PreScorePlugin
}

func wantedScores(weights Weights) []kubeScore {
	return []kubeScore{
		{
			name: "nodeaffinity", plugin: "NodeAffinity", scope: framework.Static, weight: weights.NodeAffinity,
			normalization: framework.ByMax, concerns: prefersNodes,
		},
		{
			name: "tainttoleration", plugin: "TaintToleration", scope: framework.Static, weight: weights.TaintToleration,
			normalization: framework.Reversed, concerns: everyPod,
		},
		{
			name: "imagelocality", plugin: "ImageLocality", scope: framework.Static, weight: weights.ImageLocality,
			normalization: framework.AsIs, concerns: everyPod,
		},
	}
}

func everyPod(fwk.NodeInfoLister, *corev1.Pod) bool { return true }

func prefersNodes(_ fwk.NodeInfoLister, pod *corev1.Pod) bool {
	return pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil
}
