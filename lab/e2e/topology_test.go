package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestAGangSharesARack: a gang waits while no rack has capacity for all of it, starts in one, and stays there: through a restart
// of the scheduler, and a member that is lost.
func TestAGangSharesARack(t *testing.T) {
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	text, err := os.ReadFile(filepath.Join(chartFolder(t), "files", "scheduler.yaml"))
	const levels = "\ntopologies:\n- name: fabric\n  levels: [{name: block, label: example.com/block}, {name: rack, label: example.com/rack}]\n"
	if err = errors.Join(err, os.WriteFile(config, append(text, levels...), 0o600)); err != nil {
		t.Fatal(err)
	}
	options := harness.SchedulerOptions{Args: []string{"--config=" + config}}
	scheduler := env.Scheduler(t, options)
	ns := env.Namespace(t)
	racks := func(block, rack string, nodes int) {
		added := cluster.Nodes(strings.Join([]string{"topology", block, rack}, "-"), nodes, map[string]string{"cpu": "1"})
		for _, node := range added {
			node.Labels["example.com/block"], node.Labels["example.com/rack"] = block, rack
		}
		env.Nodes(t, added...)
	}
	racks("b1", "r1", 2)
	racks("b2", "r1", 2)
	wrong := group(ns, "wrong", 1)
	wrong.Spec.Topology = []v1alpha1.TopologyConstraint{{Level: "rak"}}
	train := group(ns, "train", 3)
	train.Spec.Topology = []v1alpha1.TopologyConstraint{{Level: "rack"}}
	env.Create(t, wrong, train)
	env.Create(t, members(ns, "wrong", "", 1)...)
	env.Create(t, members(ns, "train", "", 3)...)
	env.Eventually(t, patience, func() error {
		return errors.Join(waits(t, train, "NoDomainFits"), waits(t, wrong, "InvalidGroup"),
			saysWhy(t, ns, "train-", corev1.PodReasonUnschedulable, "NoDomainFits"))
	})
	racks("b2", "r10", 3)
	env.Eventually(t, patience, func() error { return inRack(t, ns, "train-", "b2-r10", 3) })

	scheduler.Kill()
	env.Scheduler(t, options)
	if err := env.Client.Delete(t.Context(), env.Pod(ns, "train-0"), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	env.Create(t, members(ns, "train", "again-", 1)...)
	env.Eventually(t, patience, func() error { return inRack(t, ns, "train-", "b2-r10", 3) })

	env.Create(t, members(ns, "train", "late-", 1)...)
	env.Eventually(t, patience, func() error {
		return saysWhy(t, ns, "train-late-", corev1.PodReasonUnschedulable, "")
	})
	racks("b2", "r11", 1)
	env.Create(t, env.Pod(ns, "other", oneCPU))
	env.Create(t, env.Pod(ns, "another", oneCPU))
	env.Create(t, env.Pod(ns, "third", oneCPU))
	env.Eventually(t, patience, func() error { return boundOf(t, ns, "third", 1) })
	if err := errors.Join(inRack(t, ns, "train-", "b2-r10", 3), boundOf(t, ns, "train-late-", 0)); err != nil {
		t.Error(err)
	}
}

// inRack is nil when exactly that many pods of the namespace whose names begin so have a node, all in one rack of the test.
func inRack(t *testing.T, namespace, prefix, rack string, want int) error {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace)
	if err != nil {
		return err
	}
	bound := 0
	for _, pod := range pods {
		if !strings.HasPrefix(pod.Name, prefix) || pod.Spec.NodeName == "" {
			continue
		}
		if bound++; !strings.HasPrefix(pod.Spec.NodeName, "topology-"+rack+"-") {
			return fmt.Errorf("pod %s is on %s, not in %s", pod.Name, pod.Spec.NodeName, rack)
		}
	}
	if bound != want {
		return fmt.Errorf("%d pods %s* are bound, want %d", bound, prefix, want)
	}
	return nil
}
