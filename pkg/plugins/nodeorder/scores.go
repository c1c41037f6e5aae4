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
	scope         framework.FilterScope
	weight        int64
	normalization framework.Normalization
	// usesFilterState tells that the score reads what the filter of the same name has found out about the pod and the node.
	usesFilterState bool
	// appliesTo tells, cheaply, whether the score could tell nodes apart for the pod. What it rules out here, PreScore would
	// skip: that is the invariant.
	appliesTo func(pod *corev1.Pod) bool
	// isNoop tells, cheaply, that the raw score of the node is 0, whatever the pod; nil when that is not so easy.
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
