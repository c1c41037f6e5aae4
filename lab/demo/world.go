package demo

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/lab/cluster"
)

// The demo's cluster: eight nodes with eight GPUs each in two racks, and four nodes without GPUs.
const (
	gpu       = "nvidia.com/gpu"
	rackLabel = "lab.tutti.dev/rack"
)

// world makes the nodes.
func world() []*corev1.Node {
	var nodes []*corev1.Node
	for _, rack := range []string{"a", "b"} {
		nodes = append(nodes, cluster.Nodes("gpu-"+rack, 4,
			map[string]string{"cpu": "64", "memory": "512Gi", gpu: "8"},
			cluster.NodeLabels(map[string]string{rackLabel: rack}),
			// As clusters with GPUs have it, so that pods that need none stay away.
			cluster.NodeTaints(corev1.Taint{Key: gpu, Value: "present", Effect: corev1.TaintEffectNoSchedule}),
		)...)
	}
	return append(nodes, cluster.Nodes("cpu", 4, map[string]string{"cpu": "16", "memory": "64Gi"})...)
}

// racksOf tells in which rack each node is.
func racksOf(nodes []*corev1.Node) map[string]string {
	racks := map[string]string{}
	for _, node := range nodes {
		racks[node.Name] = node.Labels[rackLabel]
	}
	return racks
}
