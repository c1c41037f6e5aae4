package nodeorder

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/framework"
)

// kubeScore is one of kube-scheduler's scores.
type kubeScore struct {
	// name is the score's name in explanations, and plugin its name in kube-scheduler.
	name, plugin  string
	scope         framework.FilterScope
	weight        int64
	normalization framework.Normalization
	// usesFilterState reports whether the score reads the state of the filter of the same name for the pod and the node.
	usesFilterState bool
	// appliesTo reports, cheaply, whether the score could differ between nodes for the pod.
	//
	// Invariant: PreScore would skip every pod for which it is false.
	appliesTo func(pod *corev1.Pod) bool
	// isNoop reports, cheaply, whether the raw score of the node is 0, whatever the pod; nil when there is no cheap check.
	isNoop func(node *corev1.Node) bool
	score  fwk.ScorePlugin
	pre    fwk.PreScorePlugin
}

func wantedScores(kube Kube, weights Weights) []kubeScore {
	return []kubeScore{
		{
			name: "nodeaffinity", plugin: "NodeAffinity", scope: framework.NodeOnly, weight: weights.NodeAffinity,
			normalization: framework.NormalizeByMax, appliesTo: prefersNodes,
		},
		{
			name: "tainttoleration", plugin: "TaintToleration", scope: framework.NodeOnly, weight: weights.TaintToleration,
			normalization: framework.NormalizeReversed, appliesTo: appliesToAll, isNoop: isUntainted,
		},
		{
			name: "imagelocality", plugin: "ImageLocality", scope: framework.NodeOnly, weight: weights.ImageLocality,
			normalization: framework.NormalizeNone, appliesTo: appliesToAll, isNoop: hasNoImages,
		},
		{
			name: "dynamicresources", plugin: "DynamicResources", scope: framework.ClusterWide, weight: weights.DynamicResources,
			normalization: framework.NormalizeByMax, usesFilterState: true, appliesTo: kube.HasDeviceChoice,
		},
		{
			name: "volumebinding", plugin: "VolumeBinding", scope: framework.ClusterWide, weight: weights.VolumeBinding,
			normalization: framework.NormalizeNone, usesFilterState: true, appliesTo: kube.HasVolumeChoice,
		},
	}
}

func appliesToAll(*corev1.Pod) bool { return true }

func isUntainted(node *corev1.Node) bool { return len(node.Spec.Taints) == 0 }

func hasNoImages(node *corev1.Node) bool { return len(node.Status.Images) == 0 }

func prefersNodes(pod *corev1.Pod) bool {
	return pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil
}
