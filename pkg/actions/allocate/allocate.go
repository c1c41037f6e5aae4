// Package allocate gives idle room to the jobs that wait, in their order: each job's minimum as a whole or not at all,
// then, when every job has had its try, the members beyond the minimum one by one.
//
// It evicts nobody. A job that cannot start leaves no trace in the session and hides nothing from the jobs behind it.
package allocate

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the action's name in the configuration.
const Name = "allocate"

// New returns the action. It keeps nothing between sessions and takes no arguments.
func New() framework.Action { return action{} }

type action struct{}

// Name returns "allocate".
func (action) Name() string { return Name }

// Execute tries every waiting job's minimum, those first that have begun and are short of members, and then hands out
// what is left.
func (action) Execute(session *framework.Session) {
	var begun, waiting []*model.Job
	for _, job := range session.Snapshot.Jobs {
		switch {
		case len(job.Tasks) == 0 && job.Group == nil:
			continue
		case short(session, job) && job.Count(holdsRoom) > 0:
			begun = append(begun, job)
		default:
			waiting = append(waiting, job)
		}
	}
	largest := largestNode(session.Snapshot)
	for job := range inOrder(session, begun) {
		tryMinimum(session, job, largest)
	}
	for job := range inOrder(session, waiting) {
		tryMinimum(session, job, largest)
	}
	handOutSurplus(session)
}

func short(session *framework.Session, job *model.Job) bool {
	return session.GateJob(job, framework.WithPlaced) != nil
}

func holdsRoom(task *model.Task) bool { return task.Status.HoldsRoom() }

// inOrder yields the jobs in job order. Where a placement may change the order, the next job is chosen anew each time:
// sorted once, the keys would move underneath.
func inOrder(session *framework.Session, jobs []*model.Job) func(yield func(*model.Job) bool) {
	return func(yield func(*model.Job) bool) {
		left := slices.SortedFunc(slices.Values(jobs), session.CompareJobs)
		for len(left) > 0 {
			next := 0
			if session.OrderMoves() {
				for i := range left {
					if session.CompareJobs(left[i], left[next]) < 0 {
						next = i
					}
				}
			}
			job := left[next]
			left = slices.Delete(left, next, next+1)
			if !yield(job) {
				return
			}
		}
	}
}

// tryMinimum starts the job if its minimum finds room, promises it room that is being released if that is what it takes,
// and records why it waits otherwise.
func tryMinimum(session *framework.Session, job *model.Job, largest model.Resources) {
	if !short(session, job) {
		return
	}
	if refusal := session.ValidateJob(job); refusal != nil {
		session.Refuse(job, refusal)
		return
	}
	members := order(session, job, largest)
	refusal := session.Try(func(statement *framework.Statement) *model.Refusal {
		return place(session, statement, job, members, model.IdleRoom)
	})
	if refusal == nil {
		return
	}
	session.Refuse(job, refusal)
	if !anyReleasing(session.Snapshot) {
		return
	}
	promised := session.Try(func(statement *framework.Statement) *model.Refusal {
		return place(session, statement, job, members, model.FutureRoom)
	})
	if promised == nil {
		session.Refuse(job, &model.Refusal{
			Code:   model.WaitingForVictims,
			Detail: "starts on room that is being released, once it is free; " + refusal.String(),
		})
	}
}

func anyReleasing(snapshot *model.Snapshot) bool {
	return slices.ContainsFunc(snapshot.Nodes, func(node *model.Node) bool { return !node.Releasing.Zero() })
}

// place takes members in order until every gate agrees. A member that finds no room is passed over, since another one
// may do; the first of them is the reason when the gates do not agree in the end.
func place(
	session *framework.Session, statement *framework.Statement, job *model.Job, members []*model.Task, room model.Room,
) *model.Refusal {
	standing, take := framework.WithPlaced, statement.Place
	if room == model.FutureRoom {
		standing, take = framework.WithPromised, statement.Promise
	}
	var reason *model.Refusal
	hopeless := map[model.Shape]bool{}
	for _, task := range members {
		if session.GateJob(job, standing) == nil {
			return nil
		}
		if hopeless[task.Shape] {
			continue
		}
		refusal := task.Refused
		if refusal == nil {
			refusal = placeOne(session, task, room, take)
		}
		if refusal != nil {
			hopeless[task.Shape] = !drawsSiblings(task)
			reason = earlier(reason, refusal)
		}
	}
	gate := session.GateJob(job, standing)
	if gate == nil || reason == nil {
		return gate
	}
	return explain(session, job, standing, reason)
}

func earlier(first, second *model.Refusal) *model.Refusal {
	if first != nil {
		return first
	}
	return second
}

func placeOne(
	session *framework.Session, task *model.Task, room model.Room,
	take func(*model.Task, *model.Node) *model.Refusal,
) *model.Refusal {
	node, tally := session.Choose(task, room)
	if node == nil {
		return tally.Refusal(0, 0, task.Role)
	}
	return take(task, node)
}

// explain turns the refusal of one member into the job's: how many it needs and how many found room.
func explain(
	session *framework.Session, job *model.Job, standing framework.Standing, member *model.Refusal,
) *model.Refusal {
	if member.Needs != 0 || len(member.Causes) == 0 {
		return member
	}
	whole := *member
	whole.Needs = int64(job.MinMember)
	whole.Has = int64(job.Count(standing.Counts))
	if whole.Detail != "" {
		whole.Detail = "no room for role " + whole.Detail
	}
	return &whole
}

// drawsSiblings tells whether a placed sibling can open nodes to the task, so that one failure does not stand for all of
// its shape.
func drawsSiblings(task *model.Task) bool {
	affinity := task.Pod.Spec.Affinity
	return affinity != nil && affinity.PodAffinity != nil || len(task.Pod.Spec.TopologySpreadConstraints) > 0
}

// handOutSurplus places members beyond the minimum: one per job and round, jobs in their order, so that no job takes all.
func handOutSurplus(session *framework.Session) {
	var jobs []*model.Job
	for _, job := range session.Snapshot.Jobs {
		if session.Refusal(job) == nil && !short(session, job) && len(job.Waiting()) > 0 {
			jobs = append(jobs, job)
		}
	}
	for len(jobs) > 0 {
		var again []*model.Job
		for job := range inOrder(session, jobs) {
			if placeSurplus(session, job) && len(job.Waiting()) > 0 {
				again = append(again, job)
			}
		}
		jobs = again
	}
}

// placeSurplus places the first waiting member that finds room. When none does it records why the others wait and
// returns false.
func placeSurplus(session *framework.Session, job *model.Job) bool {
	var reason *model.Refusal
	hopeless := map[model.Shape]bool{}
	for _, task := range slices.SortedFunc(slices.Values(job.Waiting()), session.CompareTasks) {
		if hopeless[task.Shape] {
			continue
		}
		refusal := task.Refused
		if refusal == nil {
			refusal = session.Try(func(statement *framework.Statement) *model.Refusal {
				return placeOne(session, task, model.IdleRoom, statement.Place)
			})
		}
		if refusal == nil {
			return true
		}
		hopeless[task.Shape] = true
		reason = earlier(reason, refusal)
	}
	if reason != nil {
		session.Refuse(job, surplusReason(job, reason))
	}
	return false
}

func surplusReason(job *model.Job, member *model.Refusal) *model.Refusal {
	if len(member.Causes) == 0 {
		return member
	}
	whole := *member
	whole.Needs = int64(len(job.Tasks))
	whole.Has = int64(job.Count(framework.WithPlaced.Counts))
	return &whole
}
