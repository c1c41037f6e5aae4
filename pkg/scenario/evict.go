package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// grace is how long pods that are evicted may take to end.
const grace = 30 * time.Second

// feud is that pods of one job were evicted for another.
type feud struct{ victim, beneficiary string }

func (w *world) allBudgets() []model.Budget {
	budgets := make([]model.Budget, 0, len(w.budgets))
	for _, budget := range w.budgets {
		budgets = append(budgets, *budget)
	}
	slices.SortFunc(budgets, func(a, b model.Budget) int { return model.CompareBudgets(&a, &b) })
	return budgets
}

// takeEvictions takes the evictions and promises of a decision, and holds them to what can be known from outside.
func (s *stage) takeEvictions(decision model.Decision) error {
	if len(decision.Evictions) > 0 && len(decision.Promises) == 0 {
		return fmt.Errorf("invariant I10: pods are evicted for %s, which is promised nothing", decision.Job)
	}
	if len(decision.Evictions) > 0 && len(decision.Binds) > 0 {
		return fmt.Errorf("pods are evicted for %s, of which part is bound already", decision.Job)
	}
	for _, eviction := range decision.Evictions {
		pod := s.world.pods[key(eviction.Pod.Namespace, eviction.Pod.Name)]
		switch {
		case pod == nil || pod.UID != eviction.Pod.UID:
			return fmt.Errorf("pod %s is evicted, and is gone", eviction.Pod)
		case pod.DeletionTimestamp != nil || s.ending[pod.UID]:
			return fmt.Errorf("pod %s is evicted twice", eviction.Pod)
		case pod.Spec.NodeName == "":
			return fmt.Errorf("pod %s is evicted, and runs nowhere", eviction.Pod)
		case s.priorityOf(pod) >= s.priorityOfJob(decision.Job):
			return fmt.Errorf("invariant I11: pod %s is evicted for %s, which is no higher", eviction.Pod, decision.Job)
		case pod.Namespace == "kube-system" || s.priorityOf(pod) >= 2_000_000_000:
			return fmt.Errorf("invariant I11: pod %s of the system is evicted for %s", eviction.Pod, decision.Job)
		}
		s.ending[pod.UID] = true
		if !eviction.Delete {
			if err := s.spend(pod); err != nil {
				return err
			}
		}
		between := feud{victim: s.ownerOf(pod), beneficiary: jobName(decision.Job)}
		s.past[between] = true
		if s.past[feud{victim: between.beneficiary, beneficiary: between.victim}] {
			return fmt.Errorf("invariant I13: %s and %s are evicted for each other", between.victim, between.beneficiary)
		}
	}
	for _, promise := range decision.Promises {
		s.promised[promise.Pod.UID] = promise.Node
	}
	return s.checkRemains(decision)
}

// spend is invariant I14: the budgets of an evicted pod allow it.
func (s *stage) spend(pod *corev1.Pod) error {
	for _, name := range slices.Sorted(maps.Keys(s.world.budgets)) {
		budget := s.world.budgets[name]
		if budget.Namespace != pod.Namespace || !budget.Selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if budget.Allowed <= 0 {
			return fmt.Errorf("invariant I14: budget %s does not allow the eviction of %s", name, pod.Name)
		}
		less := *budget
		less.Allowed--
		s.world.budgets[name] = &less
	}
	return nil
}

// checkRemains is invariant I12: of a job that loses members nothing is left, or what it needs.
func (s *stage) checkRemains(decision model.Decision) error {
	for _, eviction := range decision.Evictions {
		group := s.world.groups[jobName(eviction.Job)]
		if eviction.Job.Single || group == nil {
			continue
		}
		left, running, roles := 0, 0, map[string]int{}
		for _, pod := range s.world.pods {
			if pod.Namespace != group.Namespace || groupOf(pod) != group.Name || !s.hasPlace(pod) || s.ending[pod.UID] {
				continue
			}
			left++
			roles[pod.Labels[v1alpha1.LabelRole]]++
			if pod.Status.Phase != corev1.PodSucceeded {
				running++
			}
		}
		short := left < int(group.Spec.MinMember)
		for _, role := range group.Spec.Roles {
			short = short || roles[role.Name] < int(role.MinMember)
		}
		if running > 0 && short {
			return fmt.Errorf("invariant I12: part of %s is evicted for %s, and %d are left", eviction.Job, decision.Job, running)
		}
	}
	return nil
}

// ownerOf is how a story names the job of a pod.
func (s *stage) ownerOf(pod *corev1.Pod) string {
	if group := groupOf(pod); group != "" {
		return key(pod.Namespace, group)
	}
	return key(pod.Namespace, pod.Name)
}

func (s *stage) priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// priorityOfJob is the highest priority of a job's pods, but no more than what its group's class says.
func (s *stage) priorityOfJob(job model.JobKey) int32 {
	var highest int32
	found := false
	for _, pod := range s.world.pods {
		if pod.Namespace == job.Namespace && s.ownerOf(pod) == jobName(job) && pod.Status.Phase != corev1.PodSucceeded &&
			pod.Status.Phase != corev1.PodFailed && (!found || s.priorityOf(pod) > highest) {
			highest, found = s.priorityOf(pod), true
		}
	}
	if group := s.world.groups[jobName(job)]; group != nil {
		if class := s.world.classes[group.Spec.PriorityClassName]; class != nil {
			highest = min(highest, class.Value)
		}
	}
	return highest
}

// confirmEvictions lets the watch see who is being deleted, and where room is kept.
func (s *stage) confirmEvictions() error {
	ends := metav1.NewTime(s.world.now.Add(grace))
	ending := s.world.podNames(func(pod *corev1.Pod) bool { return s.ending[pod.UID] && pod.DeletionTimestamp == nil })
	if err := s.world.changePods(ending, func(pod *corev1.Pod) { pod.DeletionTimestamp = &ends }); err != nil {
		return err
	}
	promised := s.world.podNames(func(pod *corev1.Pod) bool {
		node, known := s.promised[pod.UID]
		return known && pod.Status.NominatedNodeName != node
	})
	err := s.world.changePods(promised, func(pod *corev1.Pod) { pod.Status.NominatedNodeName = s.promised[pod.UID] })
	clear(s.ending)
	clear(s.promised)
	return err
}
