package allocate

import (
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// This file starts jobs with stand-ins: members below the job's priority, in the place of members that find no capacity. Few pods
// of a high priority must not start many of a low one before others.

// startWithStandIns tries the jobs that were refused again, with all their members: after all other jobs, at the lowest
// priority of those that wait, and on idle capacity that no job above that may be given. No pod is evicted for such a start. It
// returns the priority with which each of them has started.
func (r *cycle) startWithStandIns(jobs []*model.Job) (started map[model.JobKey]int32) {
	session := r.session
	var refused []*model.Job
	for _, job := range jobs {
		refusal := session.Refusal(job)
		if refusal != nil && refusal != engine.Deferred && refusal.Code != model.WaitingForVictims && hasStandIns(job) &&
			belowMinimum(session, job) && session.ValidateJob(job) == nil {
			lowest := job.Priority
			for _, task := range job.Pending() {
				lowest = min(lowest, task.Priority)
			}
			refused = append(refused, job.WithPriority(lowest))
		}
	}
	started = map[model.JobKey]int32{}
	for job := range session.InOrder(refused) {
		if r.startWithAll(job) {
			started[job.Key] = job.Priority
			session.Refuse(session.Snapshot.Job(job.Key), nil)
		}
	}
	return started
}

// hasStandIns reports whether members wait with which the job does not start at its priority.
func hasStandIns(job *model.Job) bool {
	for _, task := range job.Tasks {
		if task.Priority < job.Priority && pending(task) && !task.SchedulingGated {
			return len(job.Candidates()) < len(job.Pending())
		}
	}
	return false
}

// startWithAll starts the job with any of its members, and reports whether it did.
func (r *cycle) startWithAll(job *model.Job) bool {
	question := engine.Question{Action: Name + " with stand-ins"}
	return r.session.Ask(job, model.Idle).Remember(question, func(ask engine.Ask) (*model.Refusal, engine.Reach) {
		trial := place.New(ask, r.largest, &r.budget)
		reach := engine.ForJob
		r.askAbove(job)
		refusal := r.session.Try(func(*engine.Statement) *model.Refusal {
			if refusal := trial.Place(); refusal != nil {
				return refusal
			}
			if reach = engine.ForNow; r.outrankingIn(job).defers(r.session, job, trial.Members()) {
				return engine.Deferred
			}
			return nil
		})
		if trial.BudgetExhausted() {
			r.session.SearchCut()
			reach = engine.ForNow
		}
		return refusal, reach
	}) == nil
}
