package simulation

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// evicts reports whether the process has decided to evict a pod.
func (p *process) evicts(pod *corev1.Pod) bool {
	task := p.task(pod)
	return task != nil && task.Status == model.Releasing
}

// stays reports whether a pod, by what the process knows, is on a node, is not terminating there, and is not one of the
// victims.
func (p *process) stays(pod *corev1.Pod, node string, victims map[types.UID]bool) bool {
	return p.place(pod) == node && pod.DeletionTimestamp == nil && !victims[pod.UID] && !p.evicts(pod)
}

// evictsForAStart is I10: a job for which others are evicted gets its whole minimum nominated, or all members that replace
// others, in capacity that is there when the victims are gone, and of each job that loses members at least one is evicted from a
// node to which a member is nominated, or a limit would be exceeded with them, or capacity there is held for others: with what
// the queue then holds less, the job may be within a guarantee that the reservation has to yield to.
func (j *invariantChecker) evictsForAStart(p *process, decision model.Decision) {
	nominated := map[types.UID]string{}
	nodes := map[string]bool{}
	for _, nomination := range decision.Nominations {
		if nomination.Node != "" {
			nominated[nomination.Pod.UID], nodes[nomination.Node] = nomination.Node, true
		}
	}
	if len(nominated) == 0 || len(decision.Binds) > 0 {
		j.violated("I10", "pods are evicted for %s, which has no nomination, or starts already", decision.Job)
		return
	}
	place := func(pod *corev1.Pod) string { return nominated[pod.UID] + p.place(pod) }
	if lacks := invariants.Lacking(p.partsOf(decision.Job), place, invariants.NominatedBy(decision)); lacks != "" {
		j.violated("I10", "pods are evicted for %s, which %s", decision.Job, lacks)
	}
	victims := invariants.VictimsOf(decision)
	for _, pod := range p.pods() {
		node := p.node(nominated[pod.UID])
		if nominated[pod.UID] == "" {
			continue
		}
		if node == nil || !invariants.Takes(node, pod) {
			j.violated("I4", "pod %s is nominated to %s, which is not possible for it", keyOf(pod), nominated[pod.UID])
			continue
		}
		free := invariants.Free(node, p.pods(), func(other *corev1.Pod) bool {
			return nominated[other.UID] == node.Name || p.stays(other, node.Name, victims)
		})
		if lacks := free.Lacks(pod); len(lacks) > 0 {
			j.violated("I10", "pods are evicted for %s, and %s still has %d too little of %s", decision.Job, node.Name, -free[lacks[0]], lacks[0])
		}
	}
	reserved := func(hold model.HeldCapacity) bool {
		return hold.Reserved() && hold.Job != decision.Job && nodes[hold.Node]
	}
	for _, eviction := range decision.Evictions {
		helps := func(other model.Eviction) bool { return other.Job == eviction.Job && nodes[other.Node] }
		if !slices.ContainsFunc(decision.Evictions, helps) && !slices.ContainsFunc(p.snapshot.Held(), reserved) && !j.limitsOnly(p, decision, j.spares(p, decision, eviction.Job)) {
			j.violated("I10", "%s is evicted from %s for %s, which gets no capacity where any of its job leaves", eviction.Pod, eviction.Node, decision.Job)
		}
	}
}

// checkEvictionUseful is the other half of I10: if the victims of any one job stayed, a member would lack capacity where it is
// nominated. Where capacity is held for others, that may be why, and nothing is reported.
func (j *invariantChecker) checkEvictionUseful(p *process, decision model.Decision) {
	for _, hold := range p.snapshot.Held() {
		if hold.Job != decision.Job {
			return
		}
	}
	nominated := map[types.UID]string{}
	for _, nomination := range decision.Nominations {
		nominated[nomination.Pod.UID] = nomination.Node
	}
	for _, eviction := range decision.Evictions {
		spared := j.spares(p, decision, eviction.Job)
		stays := func(pod *corev1.Pod, node string) bool {
			task := p.task(pod)
			other := task != nil && task.Status == model.Pipelined && task.Node == node // by the same cycle
			return nominated[pod.UID] == node || other || spared(pod, node)
		}
		if !j.lacksRoom(p, nominated, stays) && !j.limitsOnly(p, decision, spared) {
			j.violated("I10", "%s is evicted for %s, which fits where it is nominated without that", eviction.Job, decision.Job)
			return
		}
	}
}

// spares reports of pods whether they were on a node if the victims of one job stayed there.
func (j *invariantChecker) spares(p *process, decision model.Decision, job model.JobKey) func(pod *corev1.Pod, node string) bool {
	victims := invariants.VictimsOf(decision)
	return func(pod *corev1.Pod, node string) bool {
		task := p.task(pod)
		late := task != nil && (task.TerminationOverdue || p.prolongs(pod) && task.Status != model.Releasing) // it counts as one that runs
		return p.place(pod) == node && (late || victims[pod.UID] && jobKeyOf(pod) == job) || p.stays(pod, node, victims)
	}
}

// prolongs reports whether a client has deleted the pod with a longer grace than pods may have.
func (p *process) prolongs(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds > int64(p.maxGrace/time.Second)
}

// evictsOnlyWhereNeeded is Q11: no pod is evicted for a job that fits what is idle or terminating and its limits. It is Q22
// where an earlier leader has evicted pods for the job, and T7 where the job prefers domains. Members of one shape are counted,
// where no capacity is held for others and none is in back-off.
func (j *invariantChecker) evictsOnlyWhereNeeded(p *process, decision model.Decision) {
	invariant := "Q11"
	if life, before := j.evictedBy[decision.Job]; before && life != p.life {
		invariant = "Q22"
	}
	j.evictedBy[decision.Job] = p.life
	told, gets, victims := p.asTold(), invariants.NominatedBy(decision), invariants.VictimsOf(decision)
	all := j.spares(p, decision, decision.Job)
	others := slices.ContainsFunc(p.snapshot.Held(), func(hold model.HeldCapacity) bool { return hold.Job != decision.Job })
	if others || p.snapshot.HasBackoff() || len(gets) == 0 {
		return
	}
	var first *corev1.Pod
	for _, pod := range told.Pods {
		switch {
		case gets[pod.UID] == "":
		case first == nil:
			first = pod
		case !equality.Semantic.DeepEqual(first.Spec.Containers, pod.Spec.Containers):
			return
		}
	}
	stays := func(pod *corev1.Pod, node string) bool {
		return p.place(pod) == node && victims[pod.UID] && (pod.DeletionTimestamp == nil || p.prolongs(pod)) || all(pod, node)
	}
	if first == nil || j.limitsOnly(p, decision, stays) {
		return
	}
	room, judged := told.roomIn(first, len(gets), func(node *corev1.Node) int64 {
		free := invariants.Free(node, told.Pods, func(pod *corev1.Pod) bool {
			if task := p.task(pod); task != nil && task.Status == model.Pipelined {
				return task.Node == node.Name && gets[pod.UID] == "" // by the same cycle
			}
			return stays(pod, node.Name)
		})
		return free.Slots(invariants.RequestOf(first))
	})
	if t, _ := told.togetherOf(decision.Job); t.prefers {
		invariant = "T7"
	}
	if judged && room >= len(gets) {
		j.violated(invariant, "pods are evicted for %d members of %s, and there is capacity for %d", len(gets), decision.Job, room)
	}
}

// limitsOnly reports whether a limit would be exceeded by the job of a decision beside pods that stay where they are, or might
// be, with the headroom of another job.
func (j *invariantChecker) limitsOnly(p *process, decision model.Decision, stays func(pod *corev1.Pod, node string) bool) bool {
	told, gets := p.asTold(), invariants.NominatedBy(decision)
	if told.headroom = p.headroom(); told.hasHeadroom(decision.Job) {
		return true
	}
	holds := func(pod *corev1.Pod) bool {
		task := p.task(pod)
		waits := task != nil && task.Status == model.Pipelined || told.NominatedTo(pod) != "" // also where no pod has to go, of which no decision tells
		return gets[pod.UID] != "" || waits || p.place(pod) != "" && stays(pod, p.place(pod))
	}
	return slices.ContainsFunc(told.Pods, func(pod *corev1.Pod) bool {
		return gets[pod.UID] != "" && told.OverLimit(decision.Job, pod, holds) != ""
	})
}

// lacksRoom reports whether a pod that is nominated a node lacks capacity there, beside those that are there.
func (j *invariantChecker) lacksRoom(p *process, nominated map[types.UID]string, there func(pod *corev1.Pod, node string) bool) bool {
	pods := p.pods()
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		node := p.node(nominated[pod.UID])
		if nominated[pod.UID] == "" || node == nil {
			return false
		}
		free := invariants.Free(node, pods, func(other *corev1.Pod) bool { return there(other, node.Name) })
		return len(free.Lacks(pod)) != 0
	})
}

// mayHaveOverstayed reports whether pods of its own priority may go for a job: it holds a reservation, and a jump of the
// server's clock hides which of pods, groups and reservations came first, or its difference from the process's clock hides that
// a member of the victim's job was on its node before the capacity was reserved. Groups do not say here for how long they run.
func (p *process) mayHaveOverstayed(victim *corev1.Pod, holder model.JobKey) bool {
	job := p.snapshot.Job(holder)
	if job == nil || job.Reservation == nil {
		return false
	}
	return p.server.jumped != 0 || slices.ContainsFunc(p.pods(), func(pod *corev1.Pod) bool {
		at := model.PodScheduled(pod)
		if jobKeyOf(pod) != jobKeyOf(victim) || at == nil {
			return false
		}
		later := at.LastTransitionTime.Sub(job.Reservation.Since)
		return later > 0 && later <= p.skew.Abs()+time.Second // times are of whole seconds
	})
}

// prioritiesOf are those of the members that have not ended, the highest first.
func (p *process) prioritiesOf(job model.JobKey) []int32 {
	var priorities []int32
	for _, pod := range p.pods() {
		if jobKeyOf(pod) == job && !finished(pod) {
			priorities = append(priorities, *pod.Spec.Priority)
		}
	}
	slices.SortFunc(priorities, func(a, b int32) int { return cmp.Compare(b, a) })
	return slices.Compact(priorities)
}

// givesGrace is I30: a pod that a process ends has its own grace, and no more than the longest of the configuration; one that is
// being deleted may have a second in place of none.
func (j *invariantChecker) givesGrace(p *process, call commit.Call) {
	pod := p.pod(call.Pod.String())
	ends := call.Kind == commit.CallEvict || call.Kind == commit.CallDelete || call.Kind == commit.CallDeleteStarted
	if !ends || pod == nil || pod.UID != call.Pod.UID {
		return
	}
	own := *pod.Spec.TerminationGracePeriodSeconds
	if pod.DeletionTimestamp != nil && call.GraceSeconds == 1 {
		own = max(own, 1)
	}
	if most := int64(p.maxGrace / time.Second); cmp.Or(call.GraceSeconds, own) != min(own, most) {
		j.violated("I30", "%s gives %s %d s, its grace is %d s and the longest %d s", call.Kind, call.Pod, call.GraceSeconds, own, most)
	}
}

// keeps reports whether capacity on a node is still kept for a pod, by what its process has decided since, too.
func (p *process) keeps(pod *corev1.Pod, node string) bool {
	if since, decided := p.nominated[pod.UID]; decided && since != node {
		return false
	}
	task := p.task(pod)
	return task != nil && task.Status == model.Pending && task.Nominated == node && pod.Status.NominatedNodeName == node
}
