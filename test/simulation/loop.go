package simulation

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// evictionLoop is that members of one job were evicted for another.
type evictionLoop struct{ victim, beneficiary model.JobKey }

// checkNoEvictionLoop is I13: no two jobs of one queue evict each other. Priorities do not change here, but for those of jobs
// with unlike members, as these end and are made again.
func (j *invariantChecker) checkNoEvictionLoop(p *process, decision model.Decision) {
	for _, eviction := range decision.Evictions {
		if eviction.Right != "" || p.hasUnlikePriorities(eviction.Job) || p.hasUnlikePriorities(decision.Job) {
			continue
		}
		j.past[evictionLoop{victim: eviction.Job, beneficiary: decision.Job}] = true
		if j.past[evictionLoop{victim: decision.Job, beneficiary: eviction.Job}] {
			j.violated("I13", "%s and %s are evicted for each other", eviction.Job, decision.Job)
		}
	}
}

// hasUnlikePriorities reports whether two members of a job differ in their priority.
func (p *process) hasUnlikePriorities(job model.JobKey) bool {
	var first *corev1.Pod
	return slices.ContainsFunc(p.pods(), func(pod *corev1.Pod) bool {
		if jobKeyOf(pod) != job {
			return false
		}
		first = cmp.Or(first, pod)
		return *pod.Spec.Priority != *first.Spec.Priority
	})
}
