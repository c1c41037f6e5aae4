package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// decisions is what is known of the decisions of the session.
type decisions struct {
	// any reports that there was one, sending that one is being sent out.
	any, sending bool
	// reclaimed are the jobs for which pods of other queues were evicted, evictions is how many pods were evicted in all.
	reclaimed map[model.JobKey]bool
	evictions int
}

// emitDecisions sends out one decision per job that got capacity, in the order the jobs were first touched. Evictions belong to
// the first of them: they are made for it.
func (s *Session) emitDecisions(operations []operation) {
	var order []*model.Decision // few: most statements are about one job
	var jobs []*model.Job       // of order
	decisionOf := func(job *model.Job) *model.Decision {
		for _, decision := range slices.Backward(order) {
			if decision.Job == job.Key {
				return decision
			}
		}
		order, jobs = append(order, &model.Decision{Job: job.Key}), append(jobs, job)
		return order[len(order)-1]
	}
	paid := len(s.changes.evicted) > 0
	for _, op := range operations {
		switch {
		case op.job == nil:
		case op.task.Status == model.Allocated:
			decision := decisionOf(op.job)
			decision.Binds = append(decision.Binds, s.bindOf(&op))
		case op.task.Status == model.Pipelined:
			if paid || s.HoldsNominations(op.job) { // a nomination without a victim is made again in each cycle
				decision := decisionOf(op.job)
				decision.Nominations = append(decision.Nominations, model.Nomination{Pod: op.task.PodRef, Node: op.task.Node})
				s.nominations.made[op.task.UID] = true
			}
		}
	}
	for _, op := range operations {
		if known, marked := s.changes.evicted[op.task]; marked && len(order) > 0 {
			delete(s.changes.evicted, op.task)
			s.decisions.evictions++
			eviction := model.Eviction{
				Pod: op.task.PodRef, Job: op.task.Job, Node: op.task.Node, Method: known.method, GraceSeconds: op.task.GraceSeconds,
			}
			if s.changes.right != "" {
				eviction.Right, eviction.Queue = s.changes.right, s.Snapshot.Job(order[0].Job).Queue
				s.decisions.reclaimed[order[0].Job] = true
			}
			order[0].Evictions = append(order[0].Evictions, eviction)
		}
	}
	s.changes.right = ""
	for i, decision := range order {
		switch {
		case len(decision.Binds) > 0:
			if len(s.Snapshot.Held()) > 0 { // nominations are for the minimum, which has its capacity now
				decision.Nominations = s.releaseNominations(jobs[i], nil)
				s.Snapshot.ReleaseHeld(decision.Job)
			}
			if s.HoldsNominations(jobs[i]) { // others have nothing that lapses
				s.nominations.renewed[decision.Job] = true
			}
		case len(decision.Nominations) > 0: // the accounting of the nodes show them now
			s.Snapshot.ReleaseNominated(decision.Job)
			decision.Nominations = append(decision.Nominations, s.releaseNominations(jobs[i], decision.Nominations)...)
			s.nominations.renewed[decision.Job] = true
		}
		s.noteStart(jobs[i], decision)
		s.send(*decision)
	}
}

// noteStart ends the headroom of a job that has capacity now, and counts the binds that it cannot do without.
func (s *Session) noteStart(job *model.Job, decision *model.Decision) {
	if len(decision.Binds)+len(decision.Nominations) > 0 {
		s.Snapshot.ReleaseHeadroom(job)
	}
	if len(decision.Binds) > 0 {
		decision.MinBinds = minimumOf(job, decision)
		s.takeTurn(job, decision)
	}
}

// minimumOf returns how many of the decision's binds the job cannot do without, those that the minima of its roles take among
// them.
func minimumOf(job *model.Job, decision *model.Decision) int {
	counted := job.Count(func(task *model.Task) bool { return task.Status.CountsTowardMinimum() })
	needs := max(0, int(job.MinMember)-(counted-len(decision.Binds)))
	return min(len(decision.Binds), max(needs, minimumOfRoles(job, decision)))
}

func minimumOfRoles(job *model.Job, decision *model.Decision) (needs int) {
	if len(job.Roles) == 0 {
		return 0
	}
	bound := make(map[types.UID]bool, len(decision.Binds))
	for _, bind := range decision.Binds {
		bound[bind.Pod.UID] = true
	}
	for _, role := range job.Roles {
		before := job.Count(func(task *model.Task) bool {
			return task.Role == role.Name && task.Status.CountsTowardMinimum() && !bound[task.UID]
		})
		needs += max(0, int(role.MinMember)-before)
	}
	return needs
}
