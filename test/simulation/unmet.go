package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// claim is what a job needs that waits, could start in an empty cluster, and may go by right of a guarantee.
type claim struct {
	job model.JobKey
	// pods are as many members as it needs, all of them alike; nodes are those that one of them fits when they are empty.
	pods  []*corev1.Pod
	nodes []*corev1.Node
	// within are the queues within whose own guarantees it is.
	within []string
}

// meetsGuarantees is Q16, at rest: where a job waits that is within a guarantee and could start in an empty cluster, the status
// of the queue says that it is not met; and there are no jobs that could go for it by that right.
func (j *invariantChecker) meetsGuarantees(p *process) {
	for _, claim := range p.claims() {
		for _, name := range claim.within {
			var met *metav1.Condition
			if queue := j.server.queueOf(name); queue != nil {
				met = meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionGuaranteeMet)
			}
			if met == nil || met.Status != metav1.ConditionFalse || p.snapshot.Queue(name).Unmet == nil {
				j.violated("Q16", "%s waits within the guarantee of queue %s, which says of it %+v", claim.job, name, met)
			}
		}
	}
	j.plansForGuarantees(p)
}

// plansForGuarantees is Q16 also where a loop that has looked at all it has received goes to sleep: there are no jobs that
// could go for one that waits within a guarantee, so that it has capacity. That is not looked at where capacity is held, kept
// below a limit, or in back-off, or a budget may forbid evictions.
func (j *invariantChecker) plansForGuarantees(p *process) {
	if len(p.snapshot.Held()) > 0 || p.snapshot.HasBackoff() || len(p.told[kindBudget]) > 0 {
		return
	}
	told := p.asTold()
	told.headroom = p.headroom()
	for _, claim := range p.claims() {
		if told.hasHeadroom(claim.job) || told.Exceeds(claim.job, claim.pods[0], len(claim.pods)) {
			continue
		}
		if victims := p.couldGo(&told, claim); len(victims) > 0 {
			j.violated("Q16", "%s waits with %d members by right of a guarantee, and %v could go for it", claim.job, len(claim.pods), victims)
			return
		}
	}
}

// claims returns those of all jobs that are within a guarantee.
func (p *process) claims() (all []claim) {
	told := p.asTold()
	if !slices.ContainsFunc(sortedNames(told.Queues), func(name string) bool { return len(told.Queues[name].Spec.Guarantee) > 0 }) {
		return nil
	}
	for _, job := range p.snapshot.Jobs {
		claim := claim{job: job.Key, pods: p.lacking(&told, job)}
		if len(claim.pods) == 0 {
			continue
		}
		pod, needs := claim.pods[0], int64(len(claim.pods))
		request := invariants.RequestOf(pod)
		claim.nodes = slices.DeleteFunc(slices.Clone(told.Nodes), func(node *corev1.Node) bool {
			return node.Spec.Unschedulable || !invariants.Takes(node, pod) || invariants.AmountsOf(node.Status.Allocatable).Slots(request) == 0
		})
		if len(claim.nodes) == 0 {
			continue
		}
		e, possible := p.taking(claim, nil), true
		for r, amount := range request {
			possible = possible && amount <= max(0, e.Supply[r])/needs
		}
		if claim.within, _ = e.Within(true, false); possible && len(claim.within) > 0 {
			all = append(all, claim)
		}
	}
	return all
}

// lacking returns as many pods as a job needs to start that has none yet, and may start once its queue holds less; none where
// they are not alike.
func (p *process) lacking(told *expectation, job *model.Job) []*corev1.Pod {
	if job.Invalid != nil || told.Refuses(job.Key) != "" || p.snapshot.JobBackoff[job.Key] != nil {
		return nil
	}
	if len(told.Shares(job.Key)) > 0 {
		return nil // which victims could go depends on the domain
	}
	needs := 1
	if !job.Key.IsPod() {
		group := told.Group(job.Key)
		if group == nil || len(group.Spec.Roles) > 0 || group.Spec.MinMember < 1 {
			return nil
		}
		if all := onePart(job.Key, group, told.Pods); all.Members(told.Place).All > 0 {
			return nil
		}
		if policy := group.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
			return nil
		}
		needs = int(group.Spec.MinMember)
	}
	var pods []*corev1.Pod
	for _, pod := range told.Pods {
		if jobKeyOf(pod) != job.Key || !waits(pod) || told.Place(pod) != "" || len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		if task := p.task(pod); task != nil && task.Invalid == nil {
			pods = append(pods, pod)
		}
	}
	unlike := func(pod *corev1.Pod) bool {
		return !equality.Semantic.DeepEqual(pod.Spec.Containers, pods[0].Spec.Containers)
	}
	searched := func(pod *corev1.Pod) bool { return told.searched[pod.UID] }
	if len(pods) < needs || slices.ContainsFunc(pods, unlike) || slices.ContainsFunc(pods, searched) {
		return nil
	}
	for _, limit := range told.Limits(job.Key) {
		for r, amount := range invariants.RequestOf(pods[0]) {
			if most, listed := limit[r]; listed && amount > 0 && amount > most/int64(needs) {
				return nil
			}
		}
	}
	return pods[:needs]
}

// couldGo returns jobs which, if all of each were gone, would leave capacity for a job that has a right to it; none when there
// are no such jobs. A pod that no watch has shown on its node yet is no victim, and protects its gang.
func (p *process) couldGo(told *expectation, claim claim) (names []string) {
	others := func(pod *corev1.Pod) bool {
		return ours(pod) && p.place(pod) != "" && !finished(pod) && told.QueueOf(jobKeyOf(pod)) != told.QueueOf(claim.job)
	}
	if claim.slots(p, told, others) < len(claim.pods) {
		return nil
	}
	var all []*corev1.Pod
	for _, job := range p.snapshot.Jobs {
		victims := slices.DeleteFunc(slices.Clone(told.Pods), func(pod *corev1.Pod) bool { return jobKeyOf(pod) != job.Key || !others(pod) })
		uncertain := slices.ContainsFunc(victims, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
		if len(victims) > 0 && !uncertain && p.taking(claim, victims).isAllowed() {
			all, names = append(all, victims...), append(names, job.Key.String())
		}
	}
	enough := claim.slots(p, told, func(pod *corev1.Pod) bool { return slices.Contains(all, pod) }) >= len(claim.pods)
	if enough && p.taking(claim, all).isAllowed() {
		return names
	}
	return nil
}

// slots counts for how many members there is capacity without those pods that go.
func (c *claim) slots(p *process, told *expectation, goes func(*corev1.Pod) bool) (sum int) {
	for _, node := range c.nodes {
		free := invariants.Free(node, told.Pods, func(pod *corev1.Pod) bool { return p.place(pod) == node.Name && !goes(pod) })
		sum += int(min(1000, free.Slots(invariants.RequestOf(c.pods[0]))))
	}
	return sum
}

// isAllowed reports whether pods go, and all that go may.
func (e *economy) isAllowed() bool {
	taken := func(unit invariants.Unit) bool { return unit.Taken } // no unit of a queue in error is
	return slices.ContainsFunc(e.Units, taken) && e.Check() == nil
}

// taking is that pods were evicted for a job by right of a guarantee.
func (p *process) taking(claim claim, victims []*corev1.Pod) *economy {
	decision := model.Decision{Job: claim.job}
	for _, pod := range claim.pods {
		decision.Nominations = append(decision.Nominations, model.Nomination{Pod: model.PodRef{UID: pod.UID}, Node: claim.nodes[0].Name})
	}
	for _, victim := range victims {
		decision.Evictions = append(decision.Evictions, model.Eviction{Pod: model.PodRef{UID: victim.UID}, Right: model.ByGuarantee})
	}
	e := p.takes(decision)
	e.setDemand()
	return e
}

// period is that of the loop: a cycle follows within it after one that has decided something, or while a bind was assumed.
const period = 5 * time.Second
