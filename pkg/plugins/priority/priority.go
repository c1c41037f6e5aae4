// Package priority orders jobs, and the tasks within a job, by priority: the higher goes first, and only jobs of lower
// priority are evicted for it.
//
// A job's priority is computed from the PodGroup and its pods: the highest at which these are enough to start. This package only
// compares.
package priority

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "priority"

// Summary is what the plugin does, in half a sentence.
const Summary = "which job goes first: the one whose PodGroup, or whose pods, have the higher priority; likewise " +
	"inside a job; that only the lower are evicted for it"

// New returns the plugin. It has no state and no arguments.
func New() framework.Plugin { return plugin{} }

type plugin struct{}

var (
	_ framework.JobOrderer   = plugin{}
	_ framework.TaskOrderer  = plugin{}
	_ framework.VictimFilter = plugin{}
)

// Name returns "priority".
func (plugin) Name() string { return Name }

// CompareJobs puts the job of higher priority first.
func (plugin) CompareJobs(a, b *model.Job) int { return cmp.Compare(b.Priority, a.Priority) }

// CompareTasks puts the task of higher priority first.
func (plugin) CompareTasks(a, b *model.Task) int { return cmp.Compare(b.Priority, a.Priority) }

// FilterVictims keeps those of lower priority than the preemptor, those that overstay on its reserved capacity, and those of
// other queues, where priorities do not count.
func (plugin) FilterVictims(preemptor *model.Job, units []framework.EvictionUnit) (picked []framework.EvictionUnit, decided bool) {
	return slices.DeleteFunc(units, func(unit framework.EvictionUnit) bool {
		return unit.Priority() >= preemptor.Priority && !unit.Overstays && !unit.OtherQueue
	}), true
}
