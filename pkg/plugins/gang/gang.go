// Package gang refuses to start a job until enough of its members can run: all or nothing.
//
// It counts members against the job's minimum and against the minimum of every role, when a job starts and when pods are to
// be evicted. It does not choose nodes, and it does not order jobs.
package gang

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "gang"

// Summary is what the plugin does, in half a sentence.
const Summary = "that a job starts with its minimum, and that of each of its roles, or not at all; that no pod is " +
	"evicted which its gang needs, unless the whole gang is"

// New returns the plugin. It has no state and no arguments.
func New() framework.Plugin { return plugin{} }

type plugin struct{}

var (
	_ framework.JobValidator = plugin{}
	_ framework.JobReadiness = plugin{}
	_ framework.VictimFilter = plugin{}
)

// Name returns "gang".
func (plugin) Name() string { return Name }

// ValidateJob refuses a job with fewer members, running, pending or finished, than its minimum.
func (plugin) ValidateJob(job *model.Job) *model.Refusal {
	short := job.FirstUnmetMinimum(exists)
	if short == nil {
		return nil
	}
	refusal := &model.Refusal{
		Plugin: Name, Code: model.NotEnoughMembers, Detail: short.What(), Needs: short.Needs, Has: short.Has,
	}
	if job.FirstUnmetMinimum(func(task *model.Task) bool { return exists(task) || task.SchedulingGated }) == nil {
		refusal.Code = model.SchedulingGated
		refusal.Detail = fmt.Sprintf("needs %d, %d without scheduling gates", short.Needs, short.Has)
	}
	return refusal
}

// JobReady refuses a job that is below its minimum or that of a role, by the tasks that the readiness counts.
func (plugin) JobReady(job *model.Job, standing framework.Readiness) *model.Refusal {
	short := job.FirstUnmetMinimum(standing.Counts)
	if short == nil {
		return nil
	}
	return &model.Refusal{
		Plugin: Name, Code: model.InsufficientResources, Detail: short.What(), Needs: short.Needs, Has: short.Has,
		Evictable: true,
	}
}

// FilterVictims keeps whole jobs, and single members beyond the minimum of their job and of their role: never a part of a
// gang that needs it.
func (plugin) FilterVictims(_ *model.Job, units []framework.EvictionUnit) ([]framework.EvictionUnit, bool) {
	return slices.DeleteFunc(units, func(unit framework.EvictionUnit) bool {
		return !unit.WholeGang && unit.Job != nil && unit.Job.FirstUnmetMinimum(func(task *model.Task) bool {
			return task.Status.CountsTowardMinimum() && !slices.Contains(unit.Tasks, task)
		}) != nil
	}), true
}

// exists reports whether a task can count towards the minimum, now or later.
func exists(task *model.Task) bool {
	return task.Status.CountsTowardMinimum() || task.Status == model.Pipelined || task.Status == model.Pending && !task.SchedulingGated
}
