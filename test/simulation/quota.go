package simulation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// fitsTheLimits is Q5 for the cluster itself: with a bind that took effect no queue holds more than its limit on nodes, unless an
// administrator changed something that the process had not received when it decided.
func (j *invariantChecker) fitsTheLimits(p *process, call commit.Call) {
	pod := j.server.pod(call.Pod.String())
	if pod == nil || len(j.server.objects[kindQueue]) == 0 {
		return
	}
	for kind, version := range j.moved {
		if version > p.seen[pod.UID][kind] {
			return
		}
	}
	in := j.inFact()
	if over := in.OverLimit(jobKeyOf(pod), pod, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }); over != "" {
		j.violated("Q5", "now that %s is bound: %s", call.Pod, over)
	}
}

// queuesChanged takes down what may move jobs to other queues, or change limits.
func (j *invariantChecker) queuesChanged(before object, now change) {
	moves := before == nil || now.deleted
	switch o := now.object.(type) {
	case *v1alpha1.Queue:
		was, _ := before.(*v1alpha1.Queue)
		moves = moves || !equality.Semantic.DeepEqual(was.Spec, o.Spec)
	case *v1alpha1.PodGroup:
		was, _ := before.(*v1alpha1.PodGroup)
		moves = moves || was.Spec.Queue != o.Spec.Queue
	case *corev1.Namespace:
		moves = true
	case *unstructured.Unstructured:
	default:
		return
	}
	if moves {
		j.moved[now.kind] = now.version
	}
}

// plannedVictim is a pod that is to be evicted: the UID of its group, or of its part, and the job for which it goes.
type plannedVictim struct {
	group types.UID
	job   model.JobKey
}

// plansEvictions takes down what a decision evicts, and that it ends an earlier plan for its job.
func (j *invariantChecker) plansEvictions(p *process, decision model.Decision) {
	if len(decision.Binds)+len(decision.Nominations) > 0 {
		j.cutShort(p, &decision.Job)
	}
	for _, eviction := range decision.Evictions {
		if group, pod := p.groupOf(eviction.Job), p.pod(eviction.Pod.String()); group != nil && pod != nil {
			p.evicting[eviction.Pod.UID] = plannedVictim{uidOf(group, pod), decision.Job}
		}
	}
}

// cutShort takes down that evictions for a job, or all that a process has decided where that is nil, may not be carried out any
// more: the process has ended, one of them is refused, or the job needs them no more. A gang may be left in part by that.
func (j *invariantChecker) cutShort(p *process, job *model.JobKey) {
	for uid, victim := range p.evicting {
		if job == nil || *job == victim.job {
			delete(p.evicting, uid)
			if !j.ourVictims[uid] {
				j.robbed[victim.group] = true
			}
		}
	}
}

// leavesNoPart is Q12, at rest: a gang that lost members to other jobs, and no others, has none left, or its minimum.
func (j *invariantChecker) leavesNoPart() {
	for _, one := range j.server.gangs(j.server.foreignGroups()) {
		m := one.Members(nodeOf)
		if m.Live > 0 && m.Unmet(one.PodGroup) != "" && j.ourVictims[one.UID] && !j.robbed[one.UID] {
			j.violated("Q12", "part of %s was evicted: it %s", keyOf(one), m.Unmet(one.PodGroup))
		}
	}
}

// saysWhatQueuesHold is Q21 as far as it concerns what is said at rest: the status of each queue is what its jobs hold, and
// whether they start.
func (j *invariantChecker) saysWhatQueuesHold() {
	in := j.inFact()
	for _, name := range sortedNames(in.Queues) {
		queue := in.Queues[name]
		_, wrong, paused := in.Queues.Path(name)
		active := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionActive)
		if active == nil || (active.Status == metav1.ConditionTrue) == (wrong || paused) || queue.Status.ObservedGeneration != queue.Generation {
			j.violated("Q21", "queue %s is said to be %+v, in error %t, paused %t", name, active, wrong, paused)
		}
		held := in.Held(name, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" })
		said := invariants.AmountsOf(queue.Status.Used)
		for r := range held {
			if held[r] != said[r] && !wrong {
				j.violated("Q21", "queue %s is said to hold %d %s, and holds %d", name, said[r], r, held[r])
			}
		}
	}
}
