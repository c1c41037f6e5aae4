package remedy

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/start"
)

// highestPriority is the highest that a class of users may have.
const highestPriority = 1_000_000_000

// preemption returns what would let the job start at the cost of others: that it may evict at all, or the lowest priority that lets it
// evict enough of them. It counts on nobody whom a disruption budget covers.
func (q *question) preemption() *Change {
	if !q.options.Preempts {
		return nil
	}
	units, values := q.units()
	from := q.job.Priority
	able := q.startsAbove(units, from)
	switch {
	case q.job.Patient && able:
		return allowed()
	case q.job.Patient || able: // it may evict already, and something else keeps it
		return nil
	}
	values = slices.DeleteFunc(values, func(priority int32) bool { return priority < from || priority >= highestPriority })
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) == 0 || !q.startsAbove(units, values[len(values)-1]+1) {
		return nil
	}
	low, high := -1, len(values)-1 // to be above that one does not do, to be above this one does
	for low+1 < high {
		if middle := (low + high) / 2; q.startsAbove(units, values[middle]+1) {
			high = middle
		} else {
			low = middle
		}
	}
	return raised(from, values[high]+1)
}

// units returns the jobs that could be evicted whole for one of any priority, and all priorities that stand in somebody's way.
func (q *question) units() (units []framework.Unit, priorities []int32) {
	for _, job := range q.session.Snapshot.Jobs {
		q.left -= 1 + len(job.Tasks)/8
		if unit := (framework.Unit{Job: job, Whole: true}); job != q.job && q.evictable(&unit) {
			units, priorities = append(units, unit), append(priorities, unit.Priority())
		}
	}
	for _, hold := range q.session.Snapshot.Holds() {
		priorities = append(priorities, hold.Priority)
	}
	return units, priorities
}

// evictable fills in who would be evicted with a job, and tells whether nothing but its priority stands against it.
func (q *question) evictable(unit *framework.Unit) bool {
	for _, task := range unit.Job.Tasks {
		switch {
		case task.Status == model.Binding:
			return false
		case task.Status != model.Bound && task.Status != model.Running:
			continue
		case q.session.Snapshot.Spared[task.UID] != nil || q.covered(task):
			return false
		}
		unit.Tasks = append(unit.Tasks, task)
	}
	return len(unit.Tasks) > 0
}

func (q *question) covered(task *model.Task) bool {
	budgets := q.session.Snapshot.Budgets
	return slices.ContainsFunc(budgets, func(budget model.Budget) bool { return budget.Covers(task) })
}

// startsAbove tells whether the job would start with such a priority if all were evicted who could be then.
func (q *question) startsAbove(units []framework.Unit, priority int32) bool {
	job, from, patient := q.job, q.job.Priority, q.job.Patient
	defer func() { job.Priority, job.Patient = from, patient }()
	job.Priority, job.Patient = priority, false
	q.left -= len(units)
	if q.left <= 0 {
		return false
	}
	started := false
	q.suppose(func(statement *framework.Statement) {
		q.session.See(job)
		for _, unit := range q.session.Victims(framework.Preempt, job, units) {
			for _, task := range unit.Tasks {
				if statement.Evict(task) != nil {
					return
				}
			}
			q.left -= len(unit.Tasks)
		}
		started = start.New(q.session, job, q.options.Largest, &q.exact).Start(model.FutureRoom) == nil
	})
	return started
}
