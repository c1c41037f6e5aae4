package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// meetsGuarantees is Q16, at rest: where a pod by itself waits that is within a guarantee and could start in an empty cluster,
// the queue says that it is not met; and there is no job that could go for it by that right, so that it has capacity. The latter
// is not looked at where capacity is held, kept below a limit, or in back-off, or a budget may forbid evictions.
func (j *invariantChecker) meetsGuarantees(p *process) {
	told := p.asTold()
	if len(told.queues) == 0 {
		return
	}
	told.headroom = p.headroom()
	free := len(p.snapshot.Held()) == 0 && !p.snapshot.HasBackoff() && len(p.told[cluster.KindBudget]) == 0
	for _, pod := range told.pods {
		key, request := jobKeyOf(pod), invariants.RequestOf(pod)
		nodes := slices.DeleteFunc(slices.Clone(told.nodes), func(node *corev1.Node) bool {
			return node.Spec.Unschedulable || !invariants.Takes(node, pod) || invariants.AmountsOf(node.Status.Allocatable).Slots(request) == 0
		})
		if len(nodes) == 0 || !p.waitsForItsRight(&told, pod) {
			continue
		}
		within := p.taking(pod, nodes[0], nil).Within()
		for _, name := range within {
			if p.snapshot.Queue(name).Unmet == nil {
				j.violated("Q16", "%s waits within the guarantee of queue %s, which says nothing of it", key, name)
			}
		}
		if len(within) == 0 || !free || told.hasHeadroom(key) || told.exceeds(key, pod, 1) {
			continue
		}
		for _, node := range nodes {
			if victim := p.couldGo(&told, pod, node); victim != "" {
				j.violated("Q16", "%s waits by right of a guarantee, and %s could go for it from %s", key, victim, node.Name)
				return
			}
		}
	}
}

// waitsForItsRight reports whether a pod by itself waits and may start once its queue holds less.
func (p *process) waitsForItsRight(told *expectation, pod *corev1.Pod) bool {
	key := jobKeyOf(pod)
	job, task := p.snapshot.Job(key), p.task(pod)
	if !waits(pod) || !key.IsPod() || p.place(pod) != "" || len(pod.Spec.SchedulingGates) > 0 || told.refuses(key) != "" || job == nil {
		return false
	}
	for _, limit := range told.above(key) {
		for r, amount := range invariants.RequestOf(pod) {
			if most, listed := limit[r]; listed && amount > most {
				return false
			}
		}
	}
	return !job.NeverPreempts && job.Invalid == nil && task.Invalid == nil && p.snapshot.JobBackoff[key] == nil
}

// couldGo returns a job which, if all of it were gone, would leave capacity on a node for a pod that has a right to it.
func (p *process) couldGo(told *expectation, pod *corev1.Pod, node *corev1.Node) string {
	for _, job := range p.snapshot.Jobs {
		if told.queueOf(job.Key) == told.queueOf(jobKeyOf(pod)) {
			continue
		}
		victims := slices.DeleteFunc(slices.Clone(told.pods), func(other *corev1.Pod) bool {
			return !ours(other) || jobKeyOf(other) != job.Key || p.place(other) == "" || finished(other)
		})
		free := invariants.Free(node, told.pods, func(other *corev1.Pod) bool {
			return p.place(other) == node.Name && !slices.Contains(victims, other)
		})
		if len(victims) == 0 || free.Slots(invariants.RequestOf(pod)) == 0 {
			continue
		}
		e := p.taking(pod, node, victims)
		goes := slices.ContainsFunc(e.Units, func(unit invariants.Unit) bool { return unit.Taken }) // no unit of a queue in error is
		if goes && e.Check() == nil {
			return job.Key.String()
		}
	}
	return ""
}

// taking is that pods were evicted for another one by right of a guarantee.
func (p *process) taking(pod *corev1.Pod, node *corev1.Node, victims []*corev1.Pod) *economy {
	decision := model.Decision{Job: jobKeyOf(pod), Nominations: []model.Nomination{{Pod: model.PodRef{UID: pod.UID}, Node: node.Name}}}
	for _, victim := range victims {
		decision.Evictions = append(decision.Evictions, model.Eviction{Pod: model.PodRef{UID: victim.UID}, Right: model.ByGuarantee})
	}
	e := p.takes(decision)
	e.setDemand()
	return e
}
