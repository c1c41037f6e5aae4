package predicates

import (
	"context"
	"fmt"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// searchLimit is how long the searches for devices of a cycle may take together, and so one of them: a quarter of what a step of
// the loop may take by default. A claim can be written so that a search takes any time; for a claim of the eight devices of a
// node the search takes less than a tenth of a second on 1,000 nodes.
const searchLimit = 30 * time.Second

// searches is the time for searches for devices, which jobs share. It lives as long as the configuration.
type searches struct {
	budget *framework.Budget[model.JobKey]
	limit  time.Duration
}

// search runs a search for devices for a task, whose context ends it in time. It returns why the result does not count, nil when
// it does: once a search for a job was cut, no other result counts for it in this session. So the time may refuse the job,
// and chooses no node for it.
func (p *plugin) search(task *model.Task, run func(context.Context)) *model.Refusal {
	budget, before := p.searches.budget, p.wasCut(task)
	if !before && budget.Admit(task.Job, task.Namespace) {
		ctx, cancel := context.WithTimeout(p.kube.Context(), budget.Timeout(p.searches.limit))
		defer cancel()
		budget.Do(task.Job, task.Namespace, func() { run(ctx) })
		if ctx.Err() == nil {
			return nil
		}
		budget.Cut(task.Job, task.Namespace)
	}
	if !before {
		p.view.SearchCut()
	}
	why := "devices: not searched in this cycle, since other pods used its %s for such searches; searched in a later one"
	if _, whole := budget.WasCut(task.Job, task.Namespace); whole {
		why = "devices: the search takes longer than %s, which is all that a cycle has for such searches"
	}
	refusal := p.refusals.get(fmt.Sprintf(why, p.searches.limit), false)
	refusal.Until = p.view.Snapshot().Now
	return refusal
}

// wasCut reports whether a search for devices for the task's job was cut.
func (p *plugin) wasCut(task *model.Task) bool {
	cut, _ := p.searches.budget.WasCut(task.Job, task.Namespace)
	return cut
}
