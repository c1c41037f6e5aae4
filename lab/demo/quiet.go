package demo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// playIsolated shows isolated CPUs: a job that gets its own, and one for which there are enough, but not on one NUMA node.
func (s *demo) playIsolated(ctx context.Context) error {
	if err := s.startAgent(ctx); err != nil {
		return err
	}
	if err := s.submitFile(ctx, quiet, "quiet"); err != nil {
		return err
	}
	if err := s.watch(ctx, patience, func() bool { return s.running(quiet) }); err != nil {
		return err
	}
	if err := s.submitFile(ctx, tooWide, "too-wide"); err != nil {
		return err
	}
	return s.watch(ctx, patience, func() bool { return s.board.gang(tooWide).waitsFor(insufficientResources) })
}

// startAgent lets the agent's code speak for the node with isolated CPUs, until the context ends.
func (s *demo) startAgent(ctx context.Context) error {
	machine, err := topology()
	if err != nil {
		return err
	}
	agent, err := release.AgentOn(ctx, s.cluster, quietNode, machine)
	if err != nil {
		return err
	}
	text, err := agent.Publish(ctx, time.Now())
	if err != nil {
		return err
	}
	s.screen.say("agent", "%s publishes that CPUs %s are isolated, and renews its Lease", quietNode, machine.Isolated)
	s.screen.say("", "(the agent's code, with the token of the DaemonSet's pod there; the machine is files: lab/demo/machine.)")
	s.screen.say("", "(No container runs on these nodes, so no process is pinned. annotation isolcpu.tutti.dev/topology, %d bytes)", len(text))
	go func() {
		if err := agent.KeepAlive(ctx); err != nil {
			s.screen.say("agent", "%v", err)
		}
	}()
	return nil
}

// cpusOf says which isolated CPUs a pod was given, empty when none.
func cpusOf(pod *corev1.Pod) string {
	held, err := isolated.ParseAssignment(pod.Annotations[isolated.AssignedAnnotation])
	if err != nil {
		return ""
	}
	return fmt.Sprintf("CPUs %s of NUMA node %s", held.CPUs, held.NUMA)
}

// ownCPUs says what is wrong with the isolated CPUs that pods were given.
func ownCPUs(pods []corev1.Pod) string {
	machine, err := topology()
	if err != nil {
		return err.Error()
	}
	var taken isolated.CPUSet
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || !isolated.AskedBy(pod).Wants() {
			continue
		}
		held, err := isolated.ParseAssignment(pod.Annotations[isolated.AssignedAnnotation])
		if err != nil {
			return pod.Name + " is on a node, and was given none"
		}
		switch both, outside := taken.Intersect(held.CPUs), held.CPUs.Minus(machine.Isolated); {
		case !both.Empty():
			return fmt.Sprintf("%s has CPUs %s of another pod", pod.Name, both)
		case !outside.Empty():
			return fmt.Sprintf("%s has CPUs %s, which are not isolated", pod.Name, outside)
		case held.NUMA.Len() != 1:
			return fmt.Sprintf("%s has CPUs of the NUMA nodes %s", pod.Name, held.NUMA)
		}
		taken = taken.Union(held.CPUs)
	}
	if taken.Empty() {
		return "no pod has any"
	}
	return ""
}
