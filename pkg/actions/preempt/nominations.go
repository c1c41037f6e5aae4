package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/internal/placement"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reclaimFreeNominations takes back, for now, the nominations that lower jobs got in this cycle without a victim, so that no
// pod is evicted for want of that capacity. It returns those jobs; when their turn comes they are nominated to what is left. A
// plan of this run stands.
func (r *run) reclaimFreeNominations(refused []*model.Job) []*model.Job {
	var highest *model.Job
	for _, job := range refused {
		if !job.NeverPreempts && (highest == nil || job.Priority > highest.Priority) {
			highest = job
		}
	}
	var lapsed []*model.Job
	if highest == nil {
		return nil
	}
	for _, job := range r.session.Snapshot.Jobs {
		if job.Priority < highest.Priority && !job.NothingPending && !r.evicted[job.Key] && slices.ContainsFunc(job.Tasks, isPipelined) {
			lapsed = append(lapsed, job)
		}
	}
	if len(lapsed) > 0 {
		r.seen = false
		clear(r.hopeless) // there is more room
	}
	r.session.Try(func(statement *framework.Statement) *model.Refusal {
		for _, job := range lapsed {
			for _, task := range job.Tasks {
				if isPipelined(task) {
					statement.Unpipeline(task)
				}
			}
		}
		return nil
	})
	return lapsed
}

func isPipelined(task *model.Task) bool { return task.Status == model.Pipelined }

// renominate nominates the members of a job again without a victim; false, with the reason why the job waits, when there is
// too little left.
func (r *run) renominate(job *model.Job) bool {
	refusal := placement.New(r.session, job, r.largest, &r.exhaustiveBudget).Place(model.FutureIdle)
	if refusal != nil {
		r.session.Refuse(job, refusal)
	}
	r.seen = false
	return refusal == nil
}
