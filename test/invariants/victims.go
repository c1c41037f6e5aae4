package invariants

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// evictsTheLower is I11: victims are of lower priority, by that of their job where all of it goes, else by the lower of both;
// and none is another scheduler's or the system's.
func (v *View) evictsTheLower(decision model.Decision) {
	priority, victims := v.PriorityOf(decision.Job, NominatedBy(decision)), VictimsOf(decision)
	for _, eviction := range decision.Evictions {
		pod := v.Pod(eviction.Pod)
		if pod == nil {
			v.Violated("I10", "%s is evicted, and is gone", eviction.Pod)
			continue
		}
		if !Ours(pod) && !v.TakesOthers {
			v.Violated("I11", "%s is evicted for %s, and is another scheduler's", eviction.Pod, decision.Job)
		}
		if pod.Namespace == metav1.NamespaceSystem || ownPriority(pod) >= 2_000_000_000 {
			v.Violated("I11", "%s of the system is evicted for %s", eviction.Pod, decision.Job)
		}
		if eviction.Right != "" {
			continue // of another queue, as heedsQueues sees
		}
		job := v.JobOf(pod)
		loses := v.PriorityOf(job, nil)
		remains := func(other *corev1.Pod) bool {
			return v.JobOf(other) == job && v.Place(other) != "" && v.Stays(other, v.Place(other), victims)
		}
		if slices.ContainsFunc(v.Pods, remains) {
			loses = min(loses, ownPriority(pod))
		}
		if loses >= priority && !(loses == priority && v.Overstays(pod, decision.Job)) {
			v.Violated("I11", "%s, of priority %d, is evicted for %s, which is no higher: %d", eviction.Pod, loses, decision.Job, priority)
		}
	}
}

func ownPriority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// PriorityOf is the priority of the job by its members that have not ended, or by the others where none waits or has a place, and
// no more than its group's class says. used are those that a decision gives capacity, which have none before it.
func (v *View) PriorityOf(job model.JobKey, used map[types.UID]string) int32 {
	return v.priorityOf(job, used, func(*corev1.Pod) bool { return false })
}

// priorityOf is the same without members that leave, which count as those that terminate.
func (v *View) priorityOf(job model.JobKey, used map[types.UID]string, leaves func(*corev1.Pod) bool) int32 {
	group, pods := v.Group(job), v.Pods
	if job.IsPod() {
		group = nil
	}
	if parts := v.Parts(job); group != nil && len(parts) > 0 {
		all := parts[0]
		if len(parts) > 1 { // members of one that is made in parts have one priority
			all = Part{PodGroup: group, Job: job}
			for _, pod := range v.Pods {
				if v.JobOf(pod) == job && Ours(pod) {
					all.Pods = append(all.Pods, pod)
				}
			}
			all.Runs = all.Pods
		}
		group, pods = all.Lowered(v.Place, used), all.Pods
	}
	var members, others []Ranked
	lives := 0
	for _, pod := range pods {
		if v.JobOf(pod) != job || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		member := Ranked{Standing: Waiting, Role: roleIn(job, pod), Priority: ownPriority(pod)}
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			member.Standing = Done
		case len(pod.Spec.SchedulingGates) > 0 || pod.DeletionTimestamp != nil || leaves(pod):
			others = append(others, member)
			continue
		case used[pod.UID] != "":
			member.Standing = Used
		case v.Place(pod) != "":
			member.Standing = Holds
		}
		if members = append(members, member); member.Standing != Done {
			lives++
		}
	}
	if lives == 0 {
		members, lives = append(members, others...), len(others)
	}
	priority := PriorityOf(group, members)
	if group != nil && v.Class != nil {
		if class, known := v.Class(group.Spec.PriorityClassName); known && (lives == 0 || class < priority) {
			priority = class
		}
	}
	return priority
}

// leavesWholeGangs is I12: of a gang that loses members nothing is left, or what it needs, with those that it has lost before.
func (v *View) leavesWholeGangs(decision model.Decision) {
	victims := VictimsOf(decision)
	for _, eviction := range decision.Evictions {
		parts := v.Parts(eviction.Job)
		left := func(pod *corev1.Pod) string {
			if node := v.Place(pod); v.Stays(pod, node, victims) {
				return node
			}
			return ""
		}
		live := slices.ContainsFunc(parts, func(one Part) bool { return one.Members(left).Live > 0 })
		for i := range parts {
			one := &parts[i]
			lacks := one.Members(left).Unmet(one.Lowered(v.Place, nil))
			if lacks != "" && live && one.Members(v.Place).Live > 0 {
				v.Violated("I12", "part of %s is evicted for %s: it %s", eviction.Job, decision.Job, lacks)
			}
		}
	}
}

// keepsBudgets is I14: the API server would evict all the victims of a decision, one after the other, as far as pods and budgets
// say.
func (v *View) keepsBudgets(decision model.Decision) {
	spent := map[*policyv1.PodDisruptionBudget]int32{}
	for _, eviction := range decision.Evictions {
		pod := v.Pod(eviction.Pod)
		if pod == nil || eviction.Method != model.ByEviction {
			continue
		}
		budget, never := Holding(pod, v.Budgets)
		if never {
			v.Violated("I14", "%s is evicted for %s, and several budgets cover it", eviction.Pod, decision.Job)
		}
		if budget == nil {
			continue
		}
		if spent[budget]++; spent[budget] > Allows(budget) {
			v.Violated("I14", "%d pods that %s/%s covers are evicted for %s, and it allows %d", spent[budget], budget.Namespace, budget.Name,
				decision.Job, Allows(budget))
		}
	}
}

// Holding returns which of the budgets the eviction of a pod is charged to, nil for none, or that it is never evicted, since
// several cover it. Pods that have not started, have ended or are being deleted need none, nor do those that are not ready
// where their budget lets these go.
func Holding(pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) (budget *policyv1.PodDisruptionBudget, never bool) {
	var over []*policyv1.PodDisruptionBudget
	for _, one := range budgets {
		if Covers(one, pod) {
			over = append(over, one)
		}
	}
	if Finished(pod) || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil || len(over) == 0 {
		return nil, false
	}
	if len(over) > 1 {
		return nil, true
	}
	policy, status := over[0].Spec.UnhealthyPodEvictionPolicy, over[0].Status
	always, enough := policy != nil && *policy == policyv1.AlwaysAllow, status.DesiredHealthy > 0 && status.CurrentHealthy >= status.DesiredHealthy
	if !IsReady(pod) && (always || enough) {
		return nil, false
	}
	return over[0], false
}

// IsReady reports whether the status of a pod says that it is.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Covers reports whether a budget protects a pod.
func Covers(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && budget.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels))
}

// Allows returns how many disruptions a budget allows: none while its status is of an earlier generation.
func Allows(budget *policyv1.PodDisruptionBudget) int32 {
	if budget.Status.ObservedGeneration < budget.Generation {
		return 0
	}
	return budget.Status.DisruptionsAllowed
}
