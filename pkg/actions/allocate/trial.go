package allocate

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// trial is the attempt to find room for one job's minimum.
type trial struct {
	session *framework.Session
	job     *model.Job
	// members are the waiting tasks in the order to place them.
	members []*model.Task
	// budget is what the exact search may still look at for this job, overall what for all jobs together.
	budget  int
	overall *int
	// cut tells that others had left less of that than the job might have had, and that it was not enough.
	cut bool
	// symmetric tells, within the exact search, that members of one shape and role can stand for each other.
	symmetric bool
}

// start places members until every gate agrees. If they prefer to share a domain and one holds the job's minimum, there.
// Otherwise each member takes its best node. If that fails and members must share a domain, domain by domain, so that a small
// first choice does not make a feasible gang fail; if they differ in shape and are few, in every combination, so that an early
// member does not stand where only a later one could. The refusal is that of the free choice, which the user would expect.
func (t *trial) start(room model.Room) *model.Refusal {
	if t.startTogether(room) {
		return nil
	}
	refusal := t.session.Try(func(statement *framework.Statement) *model.Refusal {
		return t.place(statement, room, nil)
	})
	if refusal == nil {
		return nil
	}
	for _, domain := range t.domains(room) {
		started := t.session.Try(func(statement *framework.Statement) *model.Refusal {
			return t.place(statement, room, &domain)
		})
		if started == nil {
			return nil
		}
	}
	if t.startExact(room) {
		return nil
	}
	return refusal
}

// place takes members in order until every gate agrees. A member that finds no room is passed over, since another one
// may do; the first of them is the reason when the gates do not agree in the end.
func (t *trial) place(
	statement *framework.Statement, room model.Room, within *domain,
) *model.Refusal {
	standing := standingFor(room)
	var reason *model.Refusal
	hopeless := map[model.Shape]bool{}
	short := int64(0) // as many more must be placed before the gates can agree
	for _, task := range t.members {
		if short <= 0 {
			gate := t.session.GateJob(t.job, standing)
			if gate == nil {
				return nil
			}
			short = gate.Needs - gate.Has
		}
		if hopeless[task.Shape] {
			continue
		}
		refusal := task.Refused
		if refusal == nil {
			refusal = t.placeOne(statement, task, room, within)
		}
		if refusal != nil {
			hopeless[task.Shape] = hopeless[task.Shape] || t.session.Plain(task)
			reason = earlier(reason, refusal)
			continue
		}
		short--
	}
	gate := t.session.GateJob(t.job, standing)
	if gate == nil || reason == nil {
		return gate
	}
	return t.explain(standing, gate, reason)
}

func (t *trial) placeOne(
	statement *framework.Statement, task *model.Task, room model.Room, within *domain,
) *model.Refusal {
	node, tally := t.session.Choose(task, room, within.filter(task))
	if node == nil {
		return tally.Refusal(0, 0, task.Role)
	}
	return take(statement, task, node, room)
}

// take places on idle room, and promises room that is still being released.
func take(statement *framework.Statement, task *model.Task, node *model.Node, room model.Room) *model.Refusal {
	if room == model.FutureRoom {
		return statement.Promise(task, node)
	}
	return statement.Place(task, node)
}

func standingFor(room model.Room) framework.Standing {
	if room == model.FutureRoom {
		return framework.WithPromised
	}
	return framework.WithPlaced
}

// explain turns the refusal of one member into the job's: how many the gate needs, how many of them found room, and why
// the first of the others did not.
func (t *trial) explain(standing framework.Standing, gate, member *model.Refusal) *model.Refusal {
	if len(member.Causes) == 0 {
		return member
	}
	whole := *member
	whole.Needs, whole.Has = gate.Needs, gate.Has
	if whole.Needs == 0 {
		whole.Needs, whole.Has = int64(t.job.MinMember), int64(t.job.Count(standing.Counts))
	}
	switch {
	case gate.Needs != 0 && gate.Detail != "":
		whole.Detail = gate.Detail
	case whole.Detail != "":
		whole.Detail = "no room for role " + whole.Detail
	}
	return &whole
}

// earlier returns the first, or the second when there is no first.
func earlier[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

// drawsSiblings tells whether pods anywhere, siblings too, can open or close nodes to the task.
func drawsSiblings(task *model.Task) bool {
	affinity := task.Pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) ||
		len(task.Pod.Spec.TopologySpreadConstraints) > 0
}
