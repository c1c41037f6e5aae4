package allocate

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// extraMembers is the members of one job that wait beyond a minimum which has been reached.
type extraMembers struct {
	// own is the job, job the same with the priority of its next member, while nothing but members beyond the minimum is placed:
	// their order, what is kept for others and who may take their place go by it.
	own, job *model.Job
	// priority is that with which the job has started.
	priority int32
	// waiting are those that have not been looked at, in task order. Capacity only shrinks while surplus is handed out, so no
	// task needs a second look.
	waiting []*model.Task
	// trial places slices, made for members of the priority tried; nil before the first.
	trial      *place.Placer
	tried      int32
	infeasible map[alike]bool
	// refused counts those that found no capacity, reason is why the first of them did not.
	refused int
	reason  *model.Refusal
}

// allocateBeyondMinimum places members beyond the minimum: one per job and round, jobs in their order, so that no job takes
// all. started are the priorities of jobs that have started with a lower one than their own.
func (r *cycle) allocateBeyondMinimum(candidates []*model.Job, started map[model.JobKey]int32) {
	session := r.session
	surpluses := map[model.JobKey]*extraMembers{}
	var jobs []*model.Job
	for _, job := range candidates {
		if session.Refusal(job) != nil || belowMinimum(session, job) || len(job.Pending()) == 0 {
			continue
		}
		if refusal := session.ValidateJob(job); refusal != nil {
			session.Refuse(job, refusal)
			continue
		}
		s := &extraMembers{
			own: job, job: job, priority: job.Priority, infeasible: map[alike]bool{},
			waiting: slices.SortedFunc(slices.Values(job.Pending()), session.CompareTasks),
		}
		if priority, lower := started[job.Key]; lower {
			s.priority = priority
		}
		s.next()
		jobs, surpluses[job.Key] = append(jobs, s.job), s
	}
	for len(jobs) > 0 {
		var again []*model.Job
		for job := range session.InOrder(jobs) {
			if s := surpluses[job.Key]; s.placeNext(r) {
				again = append(again, s.job)
			}
		}
		jobs = again
	}
}

// selectNode returns the best node for the task, one that its job avoids only when there is no other.
func selectNode(ask engine.Ask, task *model.Task) (*model.Node, *model.NodeDiagnosis) {
	if avoiding, has := ask.Avoiding(); has {
		if node := avoiding.Best(task, nil); node != nil {
			return node, nil
		}
	}
	return ask.BestOrWhy(task, nil)
}

// next sets the job for the next member.
func (s *extraMembers) next() {
	if len(s.waiting) > 0 {
		s.job = s.job.WithPriority(min(s.priority, s.waiting[0].Priority))
	}
}

// placeNext places the next member that finds capacity. When there is none any more it records why the others wait and
// returns false.
func (s *extraMembers) placeNext(r *cycle) bool {
	session := r.session
	defer s.next()
	for len(s.waiting) > 0 {
		s.next()
		r.askAbove(s.job)
		ask := session.Ask(s.job, model.Idle)
		task := s.waiting[0]
		slice, lacks := place.StartTogether(ask, task, s.waiting)
		if lacks != nil {
			s.drop(slice)
			s.refuse(len(slice), lacks)
			continue
		}
		if len(slice) > 1 {
			if s.placeSlice(r, ask, slice) {
				return true
			}
			continue
		}
		s.waiting = s.waiting[1:]
		refusal := task.Invalid
		if refusal == nil {
			refusal = ask.OverLimit(task)
		}
		if refusal == nil && !s.infeasible[s.alike(ask, task)] {
			refusal = session.Try(func(statement *engine.Statement) *model.Refusal {
				node, tally := selectNode(ask, task)
				if node == nil {
					return tally.Refusal(0, 0, "")
				}
				if refusal := statement.Put(ask, task, node); refusal != nil {
					return refusal
				}
				return r.admit(s.job, []*model.Task{task})
			})
			if refusal == nil {
				return true
			}
			s.infeasible[s.alike(ask, task)] = ask.Rests(task, engine.OnDomain)
		}
		s.refuse(1, refusal)
	}
	if s.reason != nil {
		session.Refuse(s.own, s.explain())
	}
	return false
}

// alike is what members have in common for which capacity alone decides: their shape, and with which others they share domains.
type alike struct {
	shape  model.Shape
	role   string
	slices string
}

func (s *extraMembers) alike(ask engine.Ask, task *model.Task) alike {
	if len(s.job.Topology) == 0 {
		return alike{shape: task.Shape}
	}
	return alike{task.Shape, task.Role, place.SlicesOf(ask, task)}
}

// drop takes members off those that have not been looked at.
func (s *extraMembers) drop(slice []*model.Task) {
	next := 0
	s.waiting = slices.DeleteFunc(s.waiting, func(task *model.Task) bool {
		is := next < len(slice) && task == slice[next] // it has their order
		if is {
			next++
		}
		return is
	})
}

// refuse takes note of why so many members wait.
func (s *extraMembers) refuse(members int, refusal *model.Refusal) {
	if s.refused += members; s.reason == nil {
		s.reason = refusal
	}
}

// placeSlice places members that start together, or none of them.
func (s *extraMembers) placeSlice(r *cycle, ask engine.Ask, slice []*model.Task) bool {
	s.drop(slice)
	if s.trial == nil || s.tried != s.job.Priority {
		s.trial, s.tried = place.New(ask, r.largest, &r.budget), s.job.Priority
	}
	refusal := r.session.Try(func(statement *engine.Statement) *model.Refusal {
		if refusal := s.trial.For(ask).PlaceSlice(statement, slice); refusal != nil {
			return refusal
		}
		return r.admit(s.job, slice)
	})
	if refusal == nil {
		return true
	}
	if s.trial.BudgetExhausted() {
		refusal = cutShort(r.session, refusal)
	}
	s.refuse(len(slice), refusal)
	return false
}

// explain says how many members wait.
func (s *extraMembers) explain() *model.Refusal {
	if len(s.reason.NodeReasons) == 0 {
		return s.reason
	}
	whole := *s.reason
	whole.Needs, whole.Has = 0, 0
	whole.Detail = fmt.Sprintf("members beyond the minimum that wait: %d", s.refused)
	return &whole
}
