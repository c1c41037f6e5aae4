package preempt

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// This file is about capacity that was nominated to jobs before their turn: which of it a plan may use, and which job has its
// turn first so that no pod is evicted for want of capacity that another job gives back.

// holdsCapacity reports whether capacity counts as used for the members of the job, which others cannot have.
func (r *run) holdsCapacity(job *model.Job) bool {
	return slices.ContainsFunc(r.session.Snapshot.Held(), func(h model.HeldCapacity) bool { return h.Job == job.Key && !h.Reserved() })
}

// releaseUnplanned ends the nominations of the jobs that will have no turn, since eviction cannot help them.
func releaseUnplanned(session *engine.Session, turns []*model.Job) {
	for _, job := range session.Expired() {
		if !slices.Contains(turns, job) {
			session.ReleaseNominations(job)
		}
	}
}

// inPlanningOrder returns all of the jobs in the order of their turns: by priority, which decides which pods may be evicted
// and which capacity is seen, and by job order among equals. But first among equals come the jobs whose nominations are not
// enough any more: with no plan for them their capacity is for others, before any pod is evicted for want of it. Before them
// come the jobs that need only the nominations again that were taken back a moment ago, since no job keeps that capacity from
// the others.
func inPlanningOrder(session *engine.Session, refused, lapsed []*model.Job) []*model.Job {
	const again, holder = -2, -1
	turns, part := slices.Concat(refused, lapsed), map[*model.Job]int{} // that of all others is 0
	for _, job := range turns {
		if session.HoldsNominations(job) {
			part[job] = holder
		}
	}
	for _, job := range lapsed {
		if part[job] == holder {
			part[job] = again
		}
	}
	slices.SortFunc(turns, func(x, y *model.Job) int {
		if order := cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(part[x], part[y])); order != 0 {
			return order
		}
		return session.CompareJobs(x, y)
	})
	return turns
}

// shareNominations makes what the first jobs hold, all of one priority and in one queue, visible to all of them: it is not
// enough for any of them, and a plan around capacity that another one then gives back would evict pods for nothing. Each gets
// in its turn what it needs of it, and gives back the rest. Once it is shared all of them have their turns, whatever is left of
// the budget.
func (r *run) shareNominations(turns []*model.Job) {
	equals := turns[:1:1]
	for _, job := range turns[1:] {
		if job.Priority != turns[0].Priority || !r.session.HoldsNominations(job) {
			break
		}
		if !r.session.Snapshot.CrossesQueues(job, turns[0]) {
			equals = append(equals, job)
		}
	}
	if len(equals) == 1 || r.budget <= 0 {
		return
	}
	for _, job := range equals {
		r.shared[job.Key] = true
		r.session.Snapshot.ReleaseNominated(job.Key)
	}
}

// reclaimFreeNominations takes back, for now, the nominations that lower jobs got in this cycle without a victim, so that no
// pod of their queue is evicted for want of that capacity. It returns those jobs; when their turn comes they are nominated to
// what is left. A plan of this run stands.
func (r *run) reclaimFreeNominations(refused []*model.Job) []*model.Job {
	highest := map[string]*model.Job{} // by queue
	for _, job := range refused {
		if above := highest[job.Queue]; !job.NeverPreempts && (above == nil || job.Priority > above.Priority) {
			highest[job.Queue] = job
		}
	}
	if len(highest) == 0 {
		return nil
	}
	var lapsed []*model.Job
	r.session.Try(func(statement *engine.Statement) *model.Refusal {
		for _, job := range r.session.Snapshot.Jobs {
			if above := highest[job.Queue]; above == nil || job.Priority >= above.Priority || job.NothingPending || r.planned[job.Key] || r.session.HasReclaimed(job) || !slices.ContainsFunc(job.Tasks, isPipelined) {
				continue
			}
			lapsed = append(lapsed, job)
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
	refusal := place.New(r.session.Ask(job, model.FutureIdle), r.largest, &r.placementBudget).Place()
	if refusal != nil {
		r.session.Refuse(job, refusal)
	}
	return refusal == nil
}
