package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/internal/placement"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reclaimFreeNominations takes back, for now, the room that lower jobs were promised in this cycle at nobody's cost, so that
// nobody is evicted for want of it. It returns those jobs; when their turn comes they are promised what is left. A plan of
// this run stands.
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

// renominate promises a job room at nobody's cost again; false, with the reason why it waits, when there is too little left.
func (r *run) renominate(job *model.Job) bool {
	refusal := placement.New(r.session, job, r.largest, &r.exhaustiveBudget).Place(model.FutureIdle)
	if refusal != nil {
		r.session.Refuse(job, refusal)
	}
	r.seen = false
	return refusal == nil
}
