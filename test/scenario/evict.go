package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// defaultGrace is how long pods may take to end that do not say.
const defaultGrace = 30 * time.Second

// evictionLoop is that pods of one job were evicted for another, by a right if they are of different queues. A job that had its
// guarantee from another one may give what it has beyond that for the share of the same.
type evictionLoop struct {
	victim, beneficiary string
	right               model.Right
}

// takeEvictions takes the evictions and nominations of a decision, and holds them to what can be known from outside.
func (s *environment) takeEvictions(decision model.Decision) error {
	if len(decision.Evictions) > 0 && len(decision.Nominations) == 0 {
		return fmt.Errorf("invariant I10: pods are evicted for %s, which has no nomination", decision.Job)
	}
	if len(decision.Evictions) > 0 && len(decision.Binds) > 0 {
		return fmt.Errorf("pods are evicted for %s, of which part is bound already", decision.Job)
	}
	for _, eviction := range decision.Evictions {
		pod := s.world.pods[key(eviction.Pod.Namespace, eviction.Pod.Name)]
		switch {
		case pod == nil || pod.UID != eviction.Pod.UID:
			return fmt.Errorf("pod %s is evicted, and is gone", eviction.Pod)
		case pod.DeletionTimestamp != nil && !s.prolonged(pod) || s.ending[pod.UID]:
			return fmt.Errorf("pod %s is evicted twice", eviction.Pod)
		case pod.Spec.NodeName == "":
			return fmt.Errorf("pod %s is evicted, and runs nowhere", eviction.Pod)
		case decision.Right() == "" && s.shieldOf(pod, decision) >= s.priorityOfJob(decision.Job) && !s.overstays(pod, decision.Job):
			return fmt.Errorf("invariant I11: pod %s of priority %d is evicted for %s, which has %d",
				eviction.Pod, s.shieldOf(pod, decision), decision.Job, s.priorityOfJob(decision.Job))
		case pod.Namespace == "kube-system" || s.priorityOf(pod) >= 2_000_000_000:
			return fmt.Errorf("invariant I11: pod %s of the system is evicted for %s", eviction.Pod, decision.Job)
		}
		s.ending[pod.UID], s.graces[pod.UID] = true, time.Duration(eviction.GraceSeconds)*time.Second
		own, most := graceOf(pod), s.profile.MaxGrace()
		if pod.DeletionTimestamp != nil {
			own = max(own, time.Second)
		}
		if s.graces[pod.UID] != min(own, most) {
			return fmt.Errorf("pod %s, whose grace is %s, is given %s, and at most %s are to be given", pod.Name, own, s.graces[pod.UID], most)
		}
		if eviction.Method == model.ByEviction && pod.DeletionTimestamp == nil { // else the API server asks no budget
			if err := s.spend(pod); err != nil {
				return err
			}
		}
		if s.turns != s.world.cycle { // who was above whom may be different now
			s.turns = s.world.cycle
			clear(s.past)
		}
		between := evictionLoop{victim: s.ownerOf(pod), beneficiary: jobName(decision.Job), right: decision.Right()}
		s.past[between] = true
		if s.past[evictionLoop{victim: between.beneficiary, beneficiary: between.victim, right: between.right}] {
			return fmt.Errorf("invariant I13: %s and %s are evicted for each other", between.victim, between.beneficiary)
		}
	}
	for _, nomination := range decision.Nominations {
		s.nominated[nomination.Pod.UID] = nomination.Node
	}
	return s.checkRemains(decision)
}

// overstays reports whether a pod may be evicted for a job of its own priority: one of its gang came to a node after capacity
// there was reserved for the job, and the gang has run for longer than it said.
func (s *environment) overstays(pod *corev1.Pod, beneficiary model.JobKey) bool {
	group, holder := s.world.groups[jobName(s.jobOf(pod))], s.world.groups[jobName(beneficiary)]
	if holder == nil || holder.Status.Reservation == nil || s.priorityOf(pod) > s.priorityOfJob(beneficiary) {
		return false
	}
	first, guest := s.world.now, false
	for _, member := range s.world.pods {
		if s.jobOf(member) != s.jobOf(pod) || s.nodeOf(member) == "" || member.Status.StartTime == nil || !s.hasPlace(member) {
			continue
		}
		if member.Status.StartTime.Time.Before(first) {
			first = member.Status.StartTime.Time
		}
		guest = guest || member.Status.StartTime.After(holder.Status.Reservation.Since.Time) &&
			slices.ContainsFunc(holder.Status.Reservation.Nodes, func(n v1alpha1.ReservedNode) bool { return n.Name == s.nodeOf(member) })
	}
	if group == nil || group.CreationTimestamp.After(first) {
		return guest // its user has taken back what it said
	}
	said := group.Spec.ExpectedRunSeconds
	return guest && said != nil && !s.world.now.Before(first.Add(time.Duration(*said+60)*time.Second))
}

// spend is invariant I14: the API server evicts the pod, since it has not started or is not ready and its budget does not hold it
// then, or its one budget allows it.
func (s *environment) spend(pod *corev1.Pod) error {
	var over []string
	for _, name := range slices.Sorted(maps.Keys(s.world.budgets)) {
		selector, err := metav1.LabelSelectorAsSelector(s.world.budgets[name].Spec.Selector)
		if err == nil && s.world.budgets[name].Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels)) {
			over = append(over, name)
		}
	}
	if pod.Status.Phase == corev1.PodPending || len(over) == 0 {
		return nil
	}
	if len(over) > 1 {
		return fmt.Errorf("invariant I14: %s is evicted, and budgets %v cover it", pod.Name, over)
	}
	budget := s.world.budgets[over[0]].DeepCopy()
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	status, policy := &budget.Status, budget.Spec.UnhealthyPodEvictionPolicy
	switch {
	case !ready && (policy != nil && *policy == policyv1.AlwaysAllow || status.DesiredHealthy > 0 && status.CurrentHealthy >= status.DesiredHealthy):
		return nil
	case status.ObservedGeneration < budget.Generation, status.DisruptionsAllowed <= 0:
		return fmt.Errorf("invariant I14: budget %s does not allow the eviction of %s", over[0], pod.Name)
	}
	status.DisruptionsAllowed--
	s.world.replaceBudget(over[0], budget)
	return nil
}

// checkRemains is invariant I12: of a job that loses members nothing is left, or what it needs.
func (s *environment) checkRemains(decision model.Decision) error {
	for _, eviction := range decision.Evictions {
		group := s.groupOfJob(eviction.Job)
		if eviction.Job.IsPod() || group == nil {
			continue
		}
		var left invariants.Members
		for _, pod := range s.world.pods {
			if s.jobOf(pod) == eviction.Job && !s.ending[pod.UID] {
				left.Add(pod, s.roleOf(pod), s.nodeOf(pod) != "")
			}
		}
		if left.Live > 0 && left.Unmet(group) != "" {
			return fmt.Errorf("invariant I12: part of %s is evicted for %s, and %d are left", eviction.Job, decision.Job, left.Live)
		}
	}
	return nil
}

// ownerOf is how a story names the job of a pod.
func (s *environment) ownerOf(pod *corev1.Pod) string { return jobName(s.jobOf(pod)) }

func (s *environment) priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// shieldOf is the priority that keeps a pod from being evicted: that of its gang when all of it goes, and that of a member that
// the gang does not need when only members go.
func (s *environment) shieldOf(pod *corev1.Pod, decision model.Decision) int32 {
	gang, stays := s.priorityOfJob(s.jobOf(pod)), false
	for _, other := range s.world.pods {
		goes := slices.ContainsFunc(decision.Evictions, func(e model.Eviction) bool { return e.Pod.UID == other.UID })
		stays = stays || s.jobOf(other) == s.jobOf(pod) && s.hasPlace(other) && !goes && !s.ending[other.UID]
	}
	if stays {
		return min(gang, s.priorityOf(pod))
	}
	return gang
}

// priorityOfJob is the priority of a job by its pods, and no more than what its group's class says.
func (s *environment) priorityOfJob(job model.JobKey) int32 {
	var members, others []invariants.Ranked
	lives := 0
	for _, pod := range s.world.pods {
		if pod.Namespace != job.Namespace || s.ownerOf(pod) != jobName(job) {
			continue
		}
		member := invariants.Ranked{Standing: invariants.Waiting, Role: s.roleOf(pod), Priority: s.priorityOf(pod)}
		switch {
		case pod.Status.Phase == corev1.PodFailed:
			continue
		case pod.Status.Phase == corev1.PodSucceeded:
			member.Standing = invariants.Done
		case len(pod.Spec.SchedulingGates) > 0 || pod.DeletionTimestamp != nil:
			others = append(others, member)
			continue
		case s.nodeOf(pod) != "":
			member.Standing = invariants.Holds
		}
		if members = append(members, member); member.Standing != invariants.Done {
			lives++
		}
	}
	if lives == 0 {
		members, lives = append(members, others...), len(others)
	}
	group := s.groupOfJob(job)
	if job.IsPod() {
		group = nil
	}
	priority := invariants.PriorityOf(group, members)
	if group != nil {
		if class := s.world.classes[group.Spec.PriorityClassName]; class != nil && (lives == 0 || class.Value < priority) {
			priority = class.Value
		}
	}
	return priority
}

// graceOf is how long a pod may take to end by its own word.
func graceOf(pod *corev1.Pod) time.Duration {
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		return time.Duration(*own) * time.Second
	}
	return defaultGrace
}

// deletedAt makes a pod one that is being deleted since then, with so much grace.
func deletedAt(pod *corev1.Pod, began time.Time, grace time.Duration) {
	ends, seconds := metav1.NewTime(began.Add(grace)), int64(grace/time.Second)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &ends, &seconds
}

// prolonged reports whether a pod is being deleted, and keeps its node for longer than the limit from now on.
func (s *environment) prolonged(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionTimestamp.Sub(s.world.now) > s.profile.MaxGrace()
}

// shorten does to a deletion what the API server does when it is asked again: it ends after a shorter grace, counted from where
// it began, or in a second if that has passed. Without a grace it stays as it is.
func shorten(pod *corev1.Pod, grace time.Duration, now time.Time) {
	before := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	began := pod.DeletionTimestamp.Add(-before)
	switch {
	case grace == 0 || grace >= before:
	case began.Add(grace).Before(now):
		deletedAt(pod, now.Add(-time.Second), time.Second)
	default:
		deletedAt(pod, began, grace)
	}
}

// confirmEvictions lets the watch see who is being deleted, and where capacity is kept.
func (s *environment) confirmEvictions() error {
	ending := s.world.podNames(func(pod *corev1.Pod) bool {
		return s.ending[pod.UID] && (pod.DeletionTimestamp == nil || s.prolonged(pod))
	})
	err := s.world.changePods(ending, func(pod *corev1.Pod) {
		if pod.DeletionTimestamp != nil {
			shorten(pod, s.graces[pod.UID], s.world.now)
			return
		}
		deletedAt(pod, s.world.now, s.graces[pod.UID])
	})
	if err != nil {
		return err
	}
	nominated := s.world.podNames(func(pod *corev1.Pod) bool {
		node, known := s.nominated[pod.UID]
		return known && pod.Status.NominatedNodeName != node
	})
	err = s.world.changePods(nominated, func(pod *corev1.Pod) { pod.Status.NominatedNodeName = s.nominated[pod.UID] })
	clear(s.ending)
	clear(s.graces)
	clear(s.nominated)
	return err
}

// kept returns what is kept on a node for jobs other than that of a pod, and not below it unless there are several
// queues, by resource, with what was said in
// this cycle by then. Who has started keeps nothing any more. highest is the highest priority of those jobs.
func (s *environment) kept(
	o *outcome, node string, from *corev1.Pod, said map[types.UID]string,
) (sums corev1.ResourceList, highest int32) {
	sums, highest = corev1.ResourceList{}, math.MinInt32
	for _, pod := range s.world.pods {
		nominated, fresh := said[pod.UID]
		if !fresh {
			nominated = pod.Status.NominatedNodeName
		}
		job := s.jobOf(pod)
		starts := slices.ContainsFunc(o.decisions, func(d model.Decision) bool { return d.Job == job && len(d.Binds) > 0 })
		if nominated != node || starts || s.nodeOf(pod) != "" || pod.Status.Phase != corev1.PodPending || pod.Spec.SchedulerName != "tutti" ||
			pod.DeletionTimestamp != nil || s.ownerOf(pod) == s.ownerOf(from) ||
			s.priorityOfJob(job) < s.priorityOf(from) && !s.severalQueues() {
			continue
		}
		addTo(sums, pod.Spec.Containers[0].Resources.Requests)
		highest = max(highest, s.priorityOfJob(job))
	}
	return sums, highest
}

func addTo(sums, more corev1.ResourceList) {
	for name, amount := range more {
		sum := sums[name]
		sum.Add(amount)
		sums[name] = sum
	}
}

// checkKept is invariant I15: who is bound leaves the capacity alone that is kept, at that moment, for others of its priority or
// above. What others take of it in the same cycle, who may, is not its doing.
func (s *environment) checkKept(o *outcome) error {
	said, bound, later := map[types.UID]string{}, o.bound(), map[types.UID]bool{}
	for _, fresh := range bound {
		maps.Copy(later, fresh)
	}
	for i, decision := range o.decisions {
		for _, bind := range decision.Binds {
			delete(later, bind.Pod.UID)
		}
		for _, bind := range decision.Binds {
			pod := s.world.pods[key(bind.Pod.Namespace, bind.Pod.Name)]
			if err := s.checkLeft(o, bind.Node, pod, bound[bind.Node], later, said); err != nil {
				return err
			}
		}
		for _, nomination := range decision.Nominations {
			said[nomination.Pod.UID] = nomination.Node
			if takenBack(o.decisions[i+1:], nomination.Pod.UID) {
				said[nomination.Pod.UID] = ""
			}
		}
	}
	return nil
}

// takenBack reports whether one of the decisions replaces or releases the nomination that the pod got in the same cycle: one
// cannot see since when others could have the capacity.
func takenBack(decisions []model.Decision, pod types.UID) bool {
	return slices.ContainsFunc(decisions, func(d model.Decision) bool {
		return slices.ContainsFunc(d.Nominations, func(n model.Nomination) bool { return n.Pod.UID == pod })
	})
}

// checkLeft sees that a pod leaves enough on its node; fresh are those that came there in this cycle, later those that are bound
// after it.
func (s *environment) checkLeft(
	o *outcome, name string, pod *corev1.Pod, fresh, later map[types.UID]bool, said map[types.UID]string,
) error {
	sums, highest := s.kept(o, name, pod, said)
	if len(sums) == 0 {
		return nil
	}
	for _, other := range s.world.pods {
		if later[other.UID] || fresh[other.UID] && s.priorityOf(other) > highest {
			continue
		}
		if s.nodeOf(other) == name && s.hasPlace(other) && !s.ending[other.UID] && other.Status.Phase != corev1.PodSucceeded {
			addTo(sums, other.Spec.Containers[0].Resources.Requests)
		}
	}
	for resource, amount := range pod.Spec.Containers[0].Resources.Requests {
		offered, sum := s.world.nodes[name].Status.Allocatable[resource], sums[resource]
		if !amount.IsZero() && sum.Cmp(offered) > 0 {
			return fmt.Errorf("invariant I15: %s is bound to %s, where %s is kept for others", pod.Name, name, resource)
		}
	}
	return nil
}

// checkNominated is the other half of invariant I15: no capacity is nominated twice. Where a pod was nominated in this cycle
// there is as much once those have left who are leaving, beside what is kept for its own job and for others of its priority
// or above.
func (s *environment) checkNominated(o *outcome) error {
	for _, pod := range s.world.pods {
		name := s.nominated[pod.UID]
		if name == "" {
			continue
		}
		node := s.world.nodes[name]
		if node == nil {
			return fmt.Errorf("pod %s is nominated to %s, which is no node", pod.Name, name)
		}
		sums, _ := s.kept(o, name, pod, s.nominated)
		for _, other := range s.world.pods {
			sibling := s.jobOf(other) == s.jobOf(pod) && s.nominated[other.UID] == name
			if sibling || s.nodeOf(other) == name && s.hasPlace(other) && !s.ending[other.UID] && other.Status.Phase != corev1.PodSucceeded {
				addTo(sums, other.Spec.Containers[0].Resources.Requests)
			}
		}
		for resource, amount := range pod.Spec.Containers[0].Resources.Requests {
			offered, sum := node.Status.Allocatable[resource], sums[resource]
			if !amount.IsZero() && sum.Cmp(offered) > 0 && !(offered.IsZero() && s.byClass(resource)) {
				return fmt.Errorf("invariant I15: %s holds %s on %s by its nomination, and so do others", pod.Name, resource, name)
			}
		}
	}
	return nil
}
