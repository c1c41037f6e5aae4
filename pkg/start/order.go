package start

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// order returns the waiting members in the order to place them: first as many as the job is short of, the roles' minima
// before anyone else, whom others must be near before these, the hardest to place before the easy; then the rest, who step
// in where one of the first finds no room. Those whose binds were refused lately are among the rest if the job can do without them.
func order(session *framework.Session, job *model.Job, kinds *kinds, largest model.Resources) []*model.Task {
	waiting := slices.SortedFunc(slices.Values(job.Pending()), session.CompareTasks)
	if faulty := session.Snapshot.BindBackoff; len(faulty) > 0 {
		waiting = slices.Concat(those(waiting, func(task *model.Task) bool { return faulty[task.UID] == nil }),
			those(waiting, func(task *model.Task) bool { return faulty[task.UID] != nil }))
	}
	chosen, rest := choose(job, waiting)
	ranks := ranksOf(chosen, kinds)
	hardness := map[model.Shape]hardness{}
	for _, task := range chosen {
		if _, known := hardness[task.Shape]; !known {
			hardness[task.Shape] = hardnessOf(session, task, largest)
		}
	}
	if len(hardness) > 1 || len(ranks) > 0 {
		slices.SortStableFunc(chosen, func(a, b *model.Task) int {
			return cmp.Or(cmp.Compare(ranks[kinds.of(a)], ranks[kinds.of(b)]), hardness[a.Shape].compare(hardness[b.Shape]))
		})
	}
	return append(chosen, rest...)
}

// those returns the tasks that satisfy the condition, in their order.
func those(tasks []*model.Task, condition func(*model.Task) bool) (some []*model.Task) {
	for _, task := range tasks {
		if condition(task) {
			some = append(some, task)
		}
	}
	return some
}

// ranksOf returns how long a chain of siblings there is, by kind of member, of whom each must be near the one before: none
// of them has anywhere to go until that one stands. It is nil when nobody must be near anybody. In a circle all wait for all,
// and somebody has to begin.
func ranksOf(members []*model.Task, kinds *kinds) map[kind]int {
	if !slices.ContainsFunc(members, requiresPods) {
		return nil
	}
	first := kinds.first(members)
	ranks := map[kind]int{}
	for range first {
		for _, task := range first {
			if needs(task, task) {
				continue // the first of them may go anywhere
			}
			of := kinds.of(task)
			for _, sibling := range first {
				if needs(task, sibling) {
					ranks[of] = min(max(ranks[of], ranks[kinds.of(sibling)]+1), len(first))
				}
			}
		}
	}
	return ranks
}

// hardness is how hard a task is to place.
type hardness struct {
	size       int64
	candidates int
}

func hardnessOf(session *framework.Session, task *model.Task, largest model.Resources) hardness {
	return hardness{size: size(task.Request, largest), candidates: len(session.EligibleNodes(task))}
}

// compare is negative when a is harder.
func (a hardness) compare(b hardness) int {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.candidates, b.candidates))
}

// choose splits the waiting members, keeping their order, into those that make up the minimum and the others.
func choose(job *model.Job, waiting []*model.Task) (chosen, rest []*model.Task) {
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

// Largest returns the largest allocatable amount of every dimension: the measure of who is hard to place.
func Largest(snapshot *model.Snapshot) model.Resources {
	var largest model.Resources
	for _, node := range snapshot.Nodes {
		for i, amount := range node.Allocatable {
			if amount > largest.At(i) && amount != model.ProvidedByDRA {
				largest.Set(i, amount)
			}
		}
	}
	return largest
}
