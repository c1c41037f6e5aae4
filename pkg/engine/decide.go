package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// emitDecisions sends out one decision per job that got capacity, in the order the jobs were first touched. Evictions belong to
// the first of them: they are made for it.
func (s *Session) emitDecisions(operations []operation) {
	var order []*model.Decision // few: most statements are about one job
	decisionOf := func(key model.JobKey) *model.Decision {
		for _, decision := range slices.Backward(order) {
			if decision.Job == key {
				return decision
			}
		}
		order = append(order, &model.Decision{Job: key})
		return order[len(order)-1]
	}
	paid := len(s.evicted) > 0
	for _, op := range operations {
		switch op.task.Status {
		case model.Allocated:
			decision := decisionOf(op.task.Job)
			decision.Binds = append(decision.Binds, s.bindOf(&op))
		case model.Pipelined:
			if paid || s.hasPendingVictims(op.task.Job) { // a nomination without a victim is made again in each cycle
				decision := decisionOf(op.task.Job)
				decision.Nominations = append(decision.Nominations, model.Nomination{Pod: op.task.PodRef, Node: op.task.Node})
				s.nominated[op.task.UID] = true
			}
		}
	}
	for _, op := range operations {
		if known, marked := s.evicted[op.task]; marked && len(order) > 0 {
			delete(s.evicted, op.task)
			s.evictions++
			eviction := model.Eviction{
				Pod: op.task.PodRef, Job: op.task.Job, Node: op.task.Node, Method: known.method, GraceSeconds: op.task.GraceSeconds,
			}
			if s.right != "" {
				eviction.Right, eviction.Queue = s.right, s.Snapshot.Job(order[0].Job).Queue
				s.reclaimed[order[0].Job] = true
			}
			order[0].Evictions = append(order[0].Evictions, eviction)
		}
	}
	s.right = ""
	for _, decision := range order {
		switch {
		case len(decision.Binds) > 0:
			if len(s.Snapshot.Held()) > 0 { // nominations are for the minimum, which has its capacity now
				decision.Nominations = s.releaseNominations(s.Snapshot.Job(decision.Job), nil)
				s.Snapshot.ReleaseHeld(decision.Job)
			}
			if s.hasPendingVictims(decision.Job) { // others have nothing that lapses
				s.renewed[decision.Job] = true
			}
		case len(decision.Nominations) > 0: // the accounting of the nodes show them now
			s.Snapshot.ReleaseNominated(decision.Job)
			decision.Nominations = append(decision.Nominations, s.releaseNominations(s.Snapshot.Job(decision.Job), decision.Nominations)...)
			s.renewed[decision.Job] = true
		}
		s.noteStart(decision)
		s.send(*decision)
	}
}

// noteStart ends the headroom of a job that has capacity now, and counts the binds that it cannot do without.
func (s *Session) noteStart(decision *model.Decision) {
	job := s.job(decision.Job)
	if job != nil && len(decision.Binds)+len(decision.Nominations) > 0 {
		s.Snapshot.ReleaseHeadroom(job)
	}
	if len(decision.Binds) > 0 {
		decision.MinBinds = minimumOf(job, decision)
		s.takeTurn(job, decision)
	}
}

// hasPendingVictims reports whether others were evicted for a job in earlier cycles, and capacity is kept for it since: what it
// is nominated to in its place is kept, too, or others would have it.
func (s *Session) hasPendingVictims(key model.JobKey) bool {
	job := s.job(key)
	return job != nil && s.HoldsNominations(job)
}

// minimumOf returns how many of the decision's binds the job cannot do without, those that the minima of its roles take among
// them; all of them for nil, a job that the snapshot does not list.
func minimumOf(job *model.Job, decision *model.Decision) int {
	if job == nil {
		return len(decision.Binds)
	}
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
