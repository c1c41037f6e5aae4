package demo

import (
	"embed"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-sched/tutti/internal/agent/sysfs"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// The demo's cluster: eight nodes with eight GPUs each in two racks, four nodes without GPUs, and one with isolated CPUs.
const (
	gpu       = "nvidia.com/gpu"
	rackLabel = "lab.tutti.dev/rack"
)

// environment makes the nodes.
func environment() []*corev1.Node {
	var nodes []*corev1.Node
	for _, rack := range []string{"a", "b"} {
		nodes = append(nodes, cluster.Nodes("gpu-"+rack, 4,
			map[string]string{"cpu": "64", "memory": "512Gi", gpu: "8"},
			cluster.NodeLabels(map[string]string{rackLabel: rack}),
			// As clusters with GPUs have it, so that pods that need none stay away.
			cluster.NodeTaints(corev1.Taint{Key: gpu, Value: "present", Effect: corev1.TaintEffectNoSchedule}),
		)...)
	}
	nodes = append(nodes, cluster.Nodes("cpu", 4, map[string]string{"cpu": "16", "memory": "64Gi"})...)
	return append(nodes, cluster.Node(quietNode, map[string]string{"cpu": "14", "memory": "64Gi"},
		cluster.NodeLabels(map[string]string{"isolcpu.tutti.dev/agent": "true"}),
		cluster.NodeTaints(corev1.Taint{Key: "realtime", Value: "only", Effect: corev1.TaintEffectNoSchedule}),
		func(n *corev1.Node) { n.Status.Capacity[corev1.ResourceCPU] = resource.MustParse("16") },
	))
}

// quietNode is the node with isolated CPUs.
const quietNode = "quiet-0"

// machine is its /sys: sixteen CPUs on two NUMA nodes, of which the kernel isolates four each.
//
//go:embed machine
var machine embed.FS

// topology is what the agent makes of the machine. Two CPUs are reserved for the system, and allocatable counts the isolated
// ones.
func topology() (*isolated.Topology, error) {
	sys, err := fs.Sub(machine, "machine")
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	read, err := sysfs.Read(sys, nil)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	t := read.Topology()
	t.Mode = isolated.Included
	return t, nil
}

// racksOf tells in which rack each node is.
func racksOf(nodes []*corev1.Node) map[string]string {
	racks := map[string]string{}
	for _, node := range nodes {
		racks[node.Name] = node.Labels[rackLabel]
	}
	return racks
}
