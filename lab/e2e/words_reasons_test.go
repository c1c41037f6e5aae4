package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// gpusOf says of the nodes that the API server has on how many bound pods use GPUs, and how many have none.
func gpusOf(t *testing.T, namespace string) (full, none int, err error) {
	t.Helper()
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	if err := errors.Join(env.Client.List(t.Context(), nodes), env.Client.List(t.Context(), pods, client.InNamespace(namespace))); err != nil {
		return 0, 0, err
	}
	used := map[string]int64{}
	for _, pod := range pods.Items {
		gpus := pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
		used[pod.Spec.NodeName] += gpus.Value()
	}
	for _, node := range nodes.Items {
		switch gpus := node.Status.Allocatable["nvidia.com/gpu"]; {
		case gpus.IsZero():
			none++
		case used[node.Name] > 0:
			full++
		}
	}
	return full, none, nil
}

// refusedBecause is nil when the group waits for that reason, with these words and none of the others.
func refusedBecause(t *testing.T, gang *v1alpha1.PodGroup, reason string, never string, words ...string) error {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(gang), gang); err != nil {
		return err
	}
	c := meta.FindStatusCondition(gang.Status.Conditions, v1alpha1.ConditionScheduled)
	if c == nil || c.Reason != reason || strings.Contains(c.Message, never) {
		return fmt.Errorf("condition %+v, want %s without %q", c, reason, never)
	}
	return saysAll(c.Message, nil, words...)
}

// TestAReasonNamesWhatCanHelp: nodes without GPUs are counted apart from those whose GPUs are in use, and are not the closest;
// and a gang whose parts do not fit into the racks together says which parts, of which level, and what the racks have. kubectl
// prints the same, under the column BOUND.
func TestAReasonNamesWhatCanHelp(t *testing.T) {
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	const topologies = "topologies:\n- name: fabric\n  levels: [{name: rack, label: example.com/rack}]\n"
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + configuredWith(t, topologies)}})
	ns := env.Namespace(t)
	env.Nodes(t, cluster.Nodes("words-gpu", 2, map[string]string{"cpu": "1", "nvidia.com/gpu": "8"})...)
	for rack, nodes := range map[string]int{"r4": 4, "r5": 5} {
		added := cluster.Nodes("words-"+rack, nodes, map[string]string{"cpu": "1"})
		for _, node := range added {
			node.Labels["example.com/rack"] = rack
		}
		env.Nodes(t, added...)
	}
	gpus := func(n string) harness.PodOption {
		return harness.Requests(map[string]string{"nvidia.com/gpu": n})
	}
	env.Create(t, env.Pod(ns, "old-0", gpus("7")), env.Pod(ns, "old-1", gpus("7")))
	env.Eventually(t, func() error { return boundOf(t, ns, "old-", 2) })
	train := group(ns, "train", 2)
	env.Create(t, train)
	env.Create(t, members(ns, "train", "", 2, gpus("8"))...)
	env.Eventually(t, func() error {
		full, none, err := gpusOf(t, ns)
		if err != nil {
			return err
		}
		return refusedBecause(t, train, "InsufficientResources", "closest: node words-r", "needs 2, 0 would fit",
			fmt.Sprintf("%d nodes lack nvidia.com/gpu", full), fmt.Sprintf("%d nodes have no nvidia.com/gpu", none),
			"closest: node words-gpu-0, missing 7 nvidia.com/gpu")
	})
	env.Eventually(t, func() error {
		text, err := harness.RunCommand(t.Context(), program, "why", "train", "-n", ns, "--kubeconfig", env.Cluster.Kubeconfig())
		return saysAll(text, err, "nodes have no nvidia.com/gpu", "closest: node words-gpu-0, missing 7 nvidia.com/gpu")
	})

	parts := group(ns, "parts", 9)
	for _, role := range []string{"ps", "eval", "worker"} {
		parts.Spec.Roles = append(parts.Spec.Roles, v1alpha1.Role{Name: role, MinMember: 3})
		parts.Spec.Topology = append(parts.Spec.Topology, v1alpha1.TopologyConstraint{Level: "rack", Roles: []string{role}})
	}
	env.Create(t, parts)
	for _, role := range []string{"ps", "eval", "worker"} {
		env.Create(t, members(ns, "parts", role+"-", 3, harness.PodLabels(map[string]string{v1alpha1.LabelRole: role}))...)
	}
	env.Eventually(t, func() error {
		return refusedBecause(t, parts, "NoDomainFits", "each level of its topology", "3 in one rack (role ps), 3 in one rack (role eval), 3 in one rack (role worker)",
			"rack r5 has capacity for 5, rack r4 has capacity for 4", "each part by itself has capacity")
	})
	table, err := env.Cluster.Kubectl(t.Context(), "get", "tpg", "parts", "-n", ns)
	if err := saysAll(table, err, "BOUND"); err != nil {
		t.Error(err)
	}
}
