package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

const name = "joblimit"

// arguments are declared once: the declaration reads them from the configuration, and --explain-config shows it.
var arguments = argument.List{
	argument.Int("jobs", 10, 1, 1000).WithHelp("how many jobs of one namespace may have members on nodes at a time"),
}

// registration is what the scheduler needs to know of the plugin.
func registration() framework.PluginRegistration {
	return framework.PluginRegistration{
		Name: name, Summary: "that a namespace has no more than so many jobs at a time", Arguments: arguments,
		New: func(given *config.Reader) (framework.Factory, error) {
			limit := arguments.Read(given).Int("jobs")
			return func() framework.Plugin { return &plugin{limit: limit} }, nil
		},
	}
}

// plugin lives for one session.
type plugin struct {
	limit int64
	// placed are the tasks that have a node and keep it, members is how many of them each job has, and jobs how many jobs with
	// such members each namespace has.
	placed  map[types.UID]bool
	members map[model.JobKey]int
	jobs    map[string]int64
}

var (
	_ framework.SessionOpener = &plugin{}
	_ framework.JobReadiness  = &plugin{}
	_ framework.EventHandler  = &plugin{}
)

// Name returns the plugin's name in the configuration.
func (*plugin) Name() string { return name }

// OpenSession counts what there is.
func (p *plugin) OpenSession(view framework.View) {
	p.placed, p.members, p.jobs = map[types.UID]bool{}, map[model.JobKey]int{}, map[string]int64{}
	for _, job := range view.Snapshot().Jobs {
		for _, task := range job.Tasks {
			p.count(task)
		}
	}
}

// JobReady refuses a job while the limit is reached by other jobs of its namespace. It is asked when members have been
// placed, and again before the decision about them is final.
func (p *plugin) JobReady(job *model.Job, _ framework.Readiness) *model.Refusal {
	others := p.jobs[job.Key.Namespace]
	if p.members[job.Key] > 0 {
		others--
	}
	if others < p.limit {
		return nil
	}
	return &model.Refusal{
		Plugin: name, Code: "TooManyJobs",
		Detail: fmt.Sprintf("namespace %s has %d jobs on nodes, and %d are allowed", job.Key.Namespace, others, p.limit),
	}
}

// OnAllocate, OnEvict and OnDeallocate follow what the session decides and takes back.
func (p *plugin) OnAllocate(task *model.Task) { p.count(task) }

func (p *plugin) OnEvict(task *model.Task) { p.count(task) }

func (p *plugin) OnDeallocate(task *model.Task, _ model.Placement) { p.count(task) }

// count counts a task as it stands now, whatever was counted of it before.
func (p *plugin) count(task *model.Task) {
	placed := task.Status.HasNode() && task.Status != model.Releasing
	if placed == p.placed[task.UID] || task.Job == (model.JobKey{}) {
		return
	}
	p.placed[task.UID] = placed
	before := p.members[task.Job]
	if placed {
		p.members[task.Job]++
	} else {
		p.members[task.Job]--
	}
	switch {
	case before == 0:
		p.jobs[task.Job.Namespace]++
	case p.members[task.Job] == 0:
		p.jobs[task.Job.Namespace]--
	}
}
