// Package priority orders jobs, and the tasks inside a job, by priority: the higher goes first.
//
// What a job's priority is, the live state decides when it reads the PodGroup and its pods; this package only compares.
package priority

import (
	"cmp"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the plugin's name in the configuration.
const Name = "priority"

// New returns the plugin. It keeps nothing and takes no arguments.
func New() framework.Plugin { return plugin{} }

type plugin struct{}

var (
	_ framework.JobOrderer  = plugin{}
	_ framework.TaskOrderer = plugin{}
)

// Name returns "priority".
func (plugin) Name() string { return Name }

// CompareJobs puts the job of higher priority first.
func (plugin) CompareJobs(a, b *model.Job) int { return cmp.Compare(b.Priority, a.Priority) }

// CompareTasks puts the task of higher priority first.
func (plugin) CompareTasks(a, b *model.Task) int { return cmp.Compare(b.Priority, a.Priority) }
