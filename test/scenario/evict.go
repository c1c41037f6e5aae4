package scenario

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		}
		s.ending[pod.UID], s.graces[pod.UID] = true, time.Duration(eviction.GraceSeconds)*time.Second
		own, most := graceOf(pod), s.profile.MaxGrace()
		if pod.DeletionTimestamp != nil {
			own = max(own, time.Second)
		}
		if s.graces[pod.UID] != min(own, most) {
			return fmt.Errorf("pod %s, whose grace is %s, is given %s, and at most %s are to be given", pod.Name, own, s.graces[pod.UID], most)
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
	return nil
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

// spend takes off the budgets what the evictions of a decision are charged to, as the API server does.
func (s *environment) spend(decision model.Decision) {
	budgets := s.shown().Budgets
	for _, eviction := range decision.Evictions {
		pod := s.world.pods[key(eviction.Pod.Namespace, eviction.Pod.Name)]
		if budget, _ := invariants.Holding(pod, budgets); budget != nil && eviction.Method == model.ByEviction {
			name := budget.Name
			left := s.world.budgets[name].DeepCopy()
			left.Status.DisruptionsAllowed--
			s.world.replaceBudget(name, left)
		}
	}
}

// ownerOf is how a story names the job of a pod.
func (s *environment) ownerOf(pod *corev1.Pod) string { return jobName(s.jobOf(pod)) }

func (s *environment) priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
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

func addTo(sums, more corev1.ResourceList) {
	for name, amount := range more {
		sum := sums[name]
		sum.Add(amount)
		sums[name] = sum
	}
}
