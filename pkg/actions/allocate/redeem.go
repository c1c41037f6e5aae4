package allocate

import (
	"fmt"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/start"
)

// redeem starts a job for which others were evicted, as soon as there is idle room for it, there or elsewhere. Until then the
// promise is kept, as long as what leaves will make room for the whole of it. It returns false when the promise has come to
// nothing: it is given back, and the job waits for its turn like all others.
func (r *run) redeem(job *model.Job) bool {
	session := r.session
	if !short(session, job) {
		session.GiveBack(job)
		return true
	}
	if refusal := session.ValidateJob(job); refusal != nil {
		session.GiveBack(job)
		session.Refuse(job, refusal)
		return true
	}
	trial := start.New(session, job, r.largest, &r.budget)
	if trial.Start(model.IdleRoom) == nil {
		return true
	}
	if trial.Stands() {
		session.Refuse(job, &model.Refusal{
			Code:   model.WaitingForVictims,
			Detail: "starts once the pods that were evicted for it are gone: " + leaving(session.Snapshot, job),
		})
		return true
	}
	session.GiveBack(job)
	return false
}

// leaving names those who are still on the nodes that the job was promised room on, up to a few.
func leaving(snapshot *model.Snapshot, job *model.Job) string {
	const few = 3
	names, more := "", 0
	seen := map[string]bool{}
	for _, task := range job.Tasks {
		node := snapshot.Node(task.Nominated)
		if node == nil || seen[task.Nominated] {
			continue
		}
		seen[task.Nominated] = true
		for _, other := range node.Tasks {
			switch {
			case other.Status != model.Releasing:
			case len(seen) > few || more > 0:
				more++
			case names == "":
				names = other.String()
			default:
				names += ", " + other.String()
			}
		}
	}
	if more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}
