package simulation

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// evictionLoop is that members of one job were evicted for another.
type evictionLoop struct{ victim, beneficiary model.JobKey }

// checkNoEvictionLoop is I13: no two jobs of one queue evict each other. Priorities do not change here, but for those of jobs
// with unlike members, as these end and are made again.
func (j *invariantChecker) checkNoEvictionLoop(decision model.Decision) {
	for _, eviction := range decision.Evictions {
		if eviction.Right != "" || j.isMixed(eviction.Job) || j.isMixed(decision.Job) {
			continue
		}
		j.past[evictionLoop{victim: eviction.Job, beneficiary: decision.Job}] = true
		if j.past[evictionLoop{victim: decision.Job, beneficiary: eviction.Job}] {
			j.violated("I13", "%s and %s are evicted for each other", eviction.Job, decision.Job)
		}
	}
}

// isMixed reports whether members of a job differ in their priority, now or once they are made again.
func (j *invariantChecker) isMixed(key model.JobKey) bool {
	return slices.ContainsFunc(j.world.jobs, func(one *job) bool {
		return one.mixed && one.namespace == key.Namespace && one.name == key.Name
	})
}
