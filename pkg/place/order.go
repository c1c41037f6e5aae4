package place

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// order returns the waiting members in the order to place them. First come as many as the job is short of: the roles' minima
// before the others, members that others must be near before these, the hardest to place before the easy. The rest replace
// those that do not fit; members below the job's priority do not, see model.Job.Candidates. Members whose binds were refused
// lately are among the rest if the job can do without them. Under a limit those come first to which capacity is nominated: it
// counts in the queue already, and may be all that the limit leaves.
func order(session *engine.Session, job *model.Job, kinds *equivalenceClasses, largest func() model.Resources) []*model.Task {
	waiting := slices.SortedFunc(slices.Values(job.Candidates()), session.CompareTasks)
	if faulty := session.Snapshot.BindBackoff; len(faulty) > 0 {
		waiting = slices.Concat(filterTasks(waiting, func(task *model.Task) bool { return faulty[task.UID] == nil }),
			filterTasks(waiting, func(task *model.Task) bool { return faulty[task.UID] != nil }))
	}
	if job.InQueue().Limited() {
		waiting = slices.Concat(filterTasks(waiting, isNominated),
			filterTasks(waiting, func(task *model.Task) bool { return !isNominated(task) }))
	}
	if slicing(job) != nil {
		waiting = byIndex(session, job, waiting)
	}
	chosen, rest := splitMinimum(job, waiting)
	ranks := affinityDepth(chosen, kinds)
	if len(ranks) == 0 && sameShape(chosen) {
		return append(chosen, rest...)
	}
	hardness := map[model.Shape]difficulty{}
	for _, task := range chosen {
		if _, known := hardness[task.Shape]; !known {
			hardness[task.Shape] = difficultyOf(session, task, largest())
		}
	}
	slices.SortStableFunc(chosen, func(a, b *model.Task) int {
		return cmp.Or(cmp.Compare(ranks[kinds.of(a)], ranks[kinds.of(b)]), hardness[a.Shape].compare(hardness[b.Shape]))
	})
	return append(chosen, rest...)
}

// slicing returns an entry of the job's topology with slices; nil when there is none.
func slicing(job *model.Job) *model.TopologyConstraint {
	for i := range job.Topology {
		if shared := &job.Topology[i]; shared.SliceSize > 0 && !shared.Preferred {
			return shared
		}
	}
	return nil
}

// byIndex orders members by the entry with slices that covers them, and by their index, so that those that make up the minimum
// are in whole slices; members that none covers stay before them.
func byIndex(session *engine.Session, job *model.Job, tasks []*model.Task) []*model.Task {
	type ranked struct {
		task         *model.Task
		entry, index int
	}
	all := make([]ranked, len(tasks))
	for at, task := range tasks {
		all[at] = ranked{task, -1, -1}
		for i := range job.Topology {
			shared := &job.Topology[i]
			if n, ok := session.Index(job, shared, task); ok && !shared.Preferred && shared.Covers(task) {
				all[at] = ranked{task, i, n}
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.entry, b.entry), cmp.Compare(a.index, b.index))
	})
	for i := range all {
		tasks[i] = all[i].task
	}
	return tasks
}

// filterTasks returns the tasks that satisfy the condition, in their order.
func filterTasks(tasks []*model.Task, condition func(*model.Task) bool) (some []*model.Task) {
	for _, task := range tasks {
		if condition(task) {
			some = append(some, task)
		}
	}
	return some
}

func isNominated(task *model.Task) bool { return task.Nominated != "" }

// affinityDepth returns by kind of member the length of the chain of siblings in which each must be near the one before: a
// member has no candidate node until the one before is placed. It is nil when no member must be near another. In a cycle the
// first member may go anywhere.
func affinityDepth(members []*model.Task, kinds *equivalenceClasses) map[equivalenceClass]int {
	if !slices.ContainsFunc(members, hasRequiredAffinity) {
		return nil
	}
	first := kinds.first(members)
	ranks := map[equivalenceClass]int{}
	for range first {
		for _, task := range first {
			if Requires(task, task) {
				continue // the first of them may go anywhere
			}
			of := kinds.of(task)
			for _, sibling := range first {
				if Requires(task, sibling) {
					ranks[of] = min(max(ranks[of], ranks[kinds.of(sibling)]+1), len(first))
				}
			}
		}
	}
	return ranks
}

// difficulty is how hard a task is to place.
type difficulty struct {
	size       int64
	candidates int
}

func difficultyOf(session *engine.Session, task *model.Task, largest model.Resources) difficulty {
	return difficulty{size: size(task.Request, largest), candidates: len(session.EligibleNodes(task))}
}

// compare is negative when a is harder to place.
func (a difficulty) compare(b difficulty) int {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.candidates, b.candidates))
}

// splitMinimum splits the waiting members, keeping their order, into those that make up the minimum and the others.
func splitMinimum(job *model.Job, waiting []*model.Task) (chosen, rest []*model.Task) {
	missing := map[string]int{}
	for _, role := range job.Roles {
		has := job.Count(func(task *model.Task) bool { return task.Role == role.Name && task.Status.CountsTowardMinimum() })
		missing[role.Name] = int(role.MinMember) - has
	}
	short := int(job.MinMember) - job.Count(func(task *model.Task) bool { return task.Status.CountsTowardMinimum() })
	var others []*model.Task
	for _, task := range waiting {
		if missing[task.Role] > 0 {
			missing[task.Role]--
			chosen = append(chosen, task)
			continue
		}
		others = append(others, task)
	}
	more := min(max(0, short-len(chosen)), len(others))
	return append(chosen, others[:more]...), others[more:]
}

// size is how much of the largest node a request takes, in thousandths, in its scarcest dimension.
func size(request, largest model.Resources) int64 {
	var size int64
	for i, amount := range request {
		if amount > 0 {
			size = max(size, 1000*amount/max(1, largest.At(i)))
		}
	}
	return size
}

// Largest returns the largest allocatable amount of every dimension, as a scale for the size of requests. It is found when it
// is asked for first: only members of several shapes need it.
func Largest(snapshot *model.Snapshot) func() model.Resources {
	return sync.OnceValue(func() model.Resources {
		var largest model.Resources
		for _, node := range snapshot.Nodes {
			for i, amount := range node.Allocatable() {
				if amount > largest.At(i) && amount != model.ProvidedByDRA {
					largest.Set(i, amount)
				}
			}
		}
		return largest
	})
}
