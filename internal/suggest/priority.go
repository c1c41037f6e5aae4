package suggest

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// highestPriority is the highest that a class of users may have.
const highestPriority = 1_000_000_000

// preemption returns what would let the job start at the cost of others: that it may evict at all, or the lowest priority
// that lets it evict enough of them. It counts on no pod that does not go without a disruption budget.
func (q *search) preemption() *Change {
	if !q.options.Preempts {
		return nil
	}
	from := q.job.Priority
	if q.job.NeverPreempts {
		if q.startsAbove(from) {
			return allowed()
		}
		return nil
	}
	values := q.priorities()
	if len(values) == 0 || !q.startsAbove(values[len(values)-1]+1) {
		return nil
	}
	low, high := -1, len(values)-1 // to be above that one does not do, to be above this one does
	for low+1 < high {
		if middle := (low + high) / 2; q.startsAbove(values[middle] + 1) {
			high = middle
		} else {
			low = middle
		}
	}
	return raised(from, values[high]+1)
}

// priorities returns those that stand in the job's way, from low to high: of jobs that could be evicted but for them, and of
// the jobs that capacity is held for.
func (q *search) priorities() []int32 {
	var values []int32
	units := q.units(highestPriority)
	for _, job := range q.session.Snapshot.Jobs {
		units = append(units, q.singles(job, highestPriority)...)
	}
	for _, unit := range units {
		values = append(values, unit.Priority())
	}
	for _, hold := range q.session.Snapshot.Held() {
		values = append(values, hold.Priority)
	}
	values = slices.DeleteFunc(values, func(priority int32) bool { return priority < q.job.Priority || priority >= highestPriority })
	slices.Sort(values)
	return slices.Compact(values)
}

// units returns the jobs that could be evicted whole for one of that priority.
func (q *search) units(priority int32) (units []framework.EvictionUnit) {
	for _, job := range q.session.Snapshot.Jobs {
		if job == q.job || job.Priority >= priority {
			continue
		}
		q.left -= 1 + len(job.Tasks)/8
		if unit := (framework.EvictionUnit{Job: job, WholeGang: true}); q.evictable(&unit) {
			units = append(units, unit)
		}
	}
	return units
}

// evictable fills in the tasks that would be evicted with a job, and reports whether nothing but its priority stands against it.
func (q *search) evictable(unit *framework.EvictionUnit) bool {
	for _, task := range unit.Job.Tasks {
		switch {
		case task.Status == model.Binding:
			return false
		case task.Status != model.Bound && task.Status != model.Running:
			continue
		case q.session.Snapshot.EvictionBackoff[task.UID] != nil || q.asksBudget(task):
			return false
		}
		unit.Tasks = append(unit.Tasks, task)
	}
	return len(unit.Tasks) > 0
}

func (q *search) asksBudget(task *model.Task) bool {
	return model.AskedBudget(q.session.Snapshot.Budgets, task) != model.Unasked
}

// startsAbove reports whether the job would start with such a priority if all tasks were evicted that could be then.
func (q *search) startsAbove(priority int32) (started bool) {
	job, from, neverPreempts := q.job, q.job.Priority, q.job.NeverPreempts
	defer func() { job.Priority, job.NeverPreempts = from, neverPreempts }()
	job.Priority, job.NeverPreempts = priority, false
	q.whatIf(func(statement *framework.Statement) {
		q.evict(statement, priority)
		started = q.isSchedulable()
	})
	return started
}

// evict supposes that all tasks have been evicted that could be for the job: no advice is needed for what preemption can do. None
// is while the job waits for a domain that it prefers.
// A member with affinity to one of these pods has then no place, although a plan would keep the pod: the change that is found
// can be larger than necessary.
func (q *search) evict(statement *framework.Statement, priority int32) {
	if !q.options.Preempts || q.job.NeverPreempts || place.AwaitsDomain(q.job, q.session.Snapshot.Now) {
		return
	}
	whole := q.units(priority)
	if q.left <= 0 {
		return
	}
	if len(whole) > 0 {
		q.evictUnits(statement, whole)
	}
	for _, job := range q.session.Snapshot.Jobs {
		if singles := q.singles(job, priority); len(singles) > 0 && q.left > 0 {
			q.evictUnits(statement, singles)
		}
	}
}

// evictUnits evicts those units that may be, as far as they leave their job its minimum, or nothing.
func (q *search) evictUnits(statement *framework.Statement, units []framework.EvictionUnit) {
	for _, unit := range q.session.Victims(q.job, units) {
		for _, task := range unit.Tasks {
			stays := func(t *model.Task) bool { return t != task && t.Status.CountsTowardMinimum() }
			if q.left--; unit.WholeGang || unit.Job.FirstUnmetMinimum(stays) == nil {
				statement.Evict(task) // a pod that cannot be evicted stays
			}
		}
	}
}

// singles returns the members of a job that has more than its minimum, each of which could go alone for one of that priority:
// the least important first.
func (q *search) singles(job *model.Job, priority int32) (units []framework.EvictionUnit) {
	if job == q.job || job.Count(func(t *model.Task) bool { return t.Status.CountsTowardMinimum() }) <= int(job.MinMember) {
		return nil
	}
	q.left -= 1 + len(job.Tasks)/8
	for _, task := range job.Tasks {
		up := task.Status == model.Bound || task.Status == model.Running
		if up && q.session.Snapshot.EvictionBackoff[task.UID] == nil && !q.asksBudget(task) {
			units = append(units, framework.EvictionUnit{Job: job, Tasks: []*model.Task{task}})
		}
	}
	slices.SortStableFunc(units, func(a, b framework.EvictionUnit) int { return cmp.Compare(a.Priority(), b.Priority()) })
	return units
}
