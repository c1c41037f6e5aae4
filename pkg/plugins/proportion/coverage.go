package proportion

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/shares"
)

// coverage is which units guarantees cover, at one moment.
type coverage struct {
	*sharing
	// units are those of the queue itself and of all below it, once they were asked for; by index.
	units [][]coveredUnit
	// by are the queues whose own guarantees cover the unit of a task.
	by map[*model.Task]map[*model.Queue]bool
	// surplus are the tasks that can go alone.
	surplus map[*model.Task]bool
}

// coveredUnit is a unit with what orders it.
type coveredUnit struct {
	framework.EvictionUnit
	shares.Unit
	priority int32
	began    int64
}

// coverageOf divides all jobs into units, and finds the covered ones; the victims are taken as if they were not marked for
// eviction.
func (s *sharing) coverageOf(victims []framework.EvictionUnit) *coverage {
	if revision := s.view.Snapshot().Journal.Revision(); victims == nil && !s.view.Uncached() {
		if s.covered == nil || s.coveredRevision != revision {
			s.covered, s.coveredRevision = s.newCoverage(nil), revision
		}
		return s.covered
	}
	return s.newCoverage(victims)
}

func (s *sharing) newCoverage(victims []framework.EvictionUnit) *coverage {
	c := &coverage{
		sharing: s, units: make([][]coveredUnit, len(s.queues)), by: map[*model.Task]map[*model.Queue]bool{}, surplus: map[*model.Task]bool{},
	}
	evicted := map[*model.Task]bool{}
	for _, unit := range victims {
		for _, task := range unit.Tasks {
			evicted[task] = true
		}
	}
	snapshot := s.view.Snapshot()
	below := make([][]*model.Queue, len(s.queues))
	for i, queue := range s.queues {
		if above := queue.Above(); above != nil && s.numbers[i] != absent {
			below[above.Index] = append(below[above.Index], queue)
		}
	}
	guaranteed := s.tree.Guaranteed()
	for _, job := range snapshot.Jobs {
		if !guaranteed && len(job.Tasks) <= int(job.MinMember) {
			continue // nothing is covered, and the job can spare nothing
		}
		if queue := job.InQueue(); queue != nil && s.numbers[queue.Index] != absent {
			c.units[queue.Index] = append(c.units[queue.Index], c.unitsOf(job, evicted)...)
		}
	}
	if !guaranteed {
		return c
	}
	var cover func(queue *model.Queue)
	cover = func(queue *model.Queue) {
		for _, child := range below[queue.Index] {
			cover(child)
			c.units[queue.Index] = append(c.units[queue.Index], c.units[child.Index]...)
		}
		c.cover(queue)
	}
	for i, queue := range s.queues {
		if s.numbers[i] != absent && queue.Above() == nil {
			cover(queue)
		}
	}
	return c
}

// unitsOf returns the units of a job: its surplus, the least important first, and the rest.
func (c *coverage) unitsOf(job *model.Job, evicted map[*model.Task]bool) []coveredUnit {
	var tasks []*model.Task
	for _, task := range job.Tasks {
		if task.Status.Occupies() && (task.Status != model.Releasing || evicted[task]) {
			tasks = append(tasks, task)
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	now := c.view.Snapshot().Now.Unix()
	unit := func(tasks []*model.Task, whole bool) coveredUnit {
		u := coveredUnit{EvictionUnit: framework.EvictionUnit{Job: job, Tasks: tasks, WholeGang: whole}, priority: job.Priority, began: now}
		for _, task := range tasks {
			u.began = min(u.began, task.RunsSince(now))
		}
		if !whole {
			u.priority = job.PriorityOf(tasks[0])
		}
		u.Amounts = c.amountsOf(&u.EvictionUnit)
		return u
	}
	var units []coveredUnit
	surplus := model.Surplus(job, tasks)
	for _, task := range surplus {
		c.surplus[task] = true
	}
	rest := slices.DeleteFunc(tasks, func(task *model.Task) bool { return c.surplus[task] })
	if len(rest) > 0 {
		units = append(units, unit(rest, true))
	}
	for _, task := range surplus {
		units = append(units, unit([]*model.Task{task}, false))
	}
	return units
}

// cover finds what the own guarantee of a queue covers. Surplus is not covered where the rest of its job is not: it would be left
// without.
func (c *coverage) cover(queue *model.Queue) {
	all := c.units[queue.Index]
	slices.SortStableFunc(all, func(a, b coveredUnit) int {
		whole := func(u *coveredUnit) int {
			if u.WholeGang {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.began, b.began), cmp.Compare(whole(&a), whole(&b)),
			a.Job.Key.Compare(b.Job.Key))
	})
	units := make([]shares.Unit, len(all))
	for i := range all {
		units[i] = all[i].Unit
	}
	c.tree.Cover(c.numbers[queue.Index], units, c.worlds())
	whole := map[*model.Job]bool{}
	for i := range all {
		if all[i].WholeGang {
			whole[all[i].Job] = units[i].Covered
		}
	}
	for i := range all {
		covered, minimum := units[i].Covered, whole[all[i].Job]
		if _, has := whole[all[i].Job]; has && !minimum {
			covered = false
		}
		if all[i].Covered = covered; !covered {
			continue
		}
		for _, task := range all[i].Tasks {
			if c.by[task] == nil {
				c.by[task] = map[*model.Queue]bool{}
			}
			c.by[task][queue] = true
		}
	}
}

// covers reports whether the guarantee of a queue covers a unit, or that of one between it and the job's. The whole of a job is
// covered if a part of it is: surplus is not where the rest is not. Which members are surplus is a choice among those that are
// alike: another one that goes alone is covered if any of them is, and if it is like none.
func (c *coverage) covers(unit *framework.EvictionUnit, upTo *model.Queue) bool {
	return slices.ContainsFunc(unit.Tasks, func(task *model.Task) bool {
		if unit.WholeGang || c.surplus[task] {
			return c.coversTask(task, unit.Job, upTo)
		}
		alike := false
		for _, other := range unit.Job.Tasks {
			if c.surplus[other] && other.Role == task.Role && other.Request.Equal(task.Request) {
				if alike = true; c.coversTask(other, unit.Job, upTo) {
					return true
				}
			}
		}
		return !alike
	})
}

func (c *coverage) coversTask(task *model.Task, job *model.Job, upTo *model.Queue) bool {
	for at := job.InQueue(); at != nil; at = at.Above() {
		if c.by[task][at] {
			return true
		}
		if at == upTo {
			break
		}
	}
	return false
}

// partsOf returns what a unit asks for: one member, or the parts of the whole of a job, its minimum and the members beyond it.
// Parts that ask for the same are one.
func (c *coverage) partsOf(unit *framework.EvictionUnit) (parts [][]int64) {
	var rest framework.EvictionUnit
	for _, task := range unit.Tasks {
		if c.surplus[task] {
			parts = append(parts, c.amountsOf(&framework.EvictionUnit{Tasks: []*model.Task{task}}))
		} else {
			rest.Tasks = append(rest.Tasks, task)
		}
	}
	if len(rest.Tasks) > 0 {
		parts = append(parts, c.amountsOf(&rest))
	}
	return slices.CompactFunc(parts, slices.Equal[[]int64])
}

// likeness is the same for units of a queue that ask for the same in the same parts.
type likeness struct {
	queue           int
	shape           model.Shape
	members, beyond int
}

// likenessOf returns that of a unit; ok is false when its members differ.
func (c *coverage) likenessOf(unit *framework.EvictionUnit) (l likeness, ok bool) {
	l = likeness{queue: unit.Job.InQueue().Index, shape: unit.Tasks[0].Shape, members: len(unit.Tasks)}
	for _, task := range unit.Tasks {
		if task.Shape != l.shape {
			return l, false
		}
		if c.surplus[task] {
			l.beyond++
		}
	}
	return l, true
}
