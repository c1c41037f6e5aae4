package suggest

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// Options are what a search is made with.
type Options struct {
	// Preempts reports that the configuration evicts for jobs of higher priority.
	Preempts bool
	// Budget is how many looks at nodes one job is worth; what is not found within is not said.
	Budget int
	// Largest is what place.MaxAllocatable returns for the snapshot.
	Largest model.Resources
}

// DefaultBudget is enough for a small gang on 5,000 nodes, and for a gang of 1,000 on a few hundred.
const DefaultBudget = 120_000

// exactBudget is what exact searches of places may look at for one job.
const exactBudget = 60_000

// search is the search for one job.
type search struct {
	session *framework.Session
	job     *model.Job
	options Options
	// left is what may still be looked at, exact what the exact searches of trials may.
	left, exact int
	// placed is how many of the job's members the last trial that failed has found capacity for, with those that have it.
	placed int64
}

// largest returns what Options have.
func (q *search) largest() model.Resources { return q.options.Largest }

// Suggest returns what would let the job start, which the last cycle has refused; none when nothing small is known to. The
// session must be open on the snapshot as that cycle left it, and is as before when Suggest returns. looks is what it has cost,
// in nodes.
func Suggest(session *framework.Session, job *model.Job, refusal *model.Refusal, options Options) (advice Suggestions, looks int) {
	q := &search{session: session, job: job, options: options, left: options.Budget, exact: exactBudget}
	q.whatIf(func(statement *framework.Statement) {
		if refusal.Code == model.NotEnoughMembers || refusal.Code == model.SchedulingGated {
			advice = q.complete(statement)
			return
		}
		switch q.evict(statement, q.job.Priority); refusal.Code {
		case model.InsufficientResources, model.NodesFiltered:
			if q.isApplicable() && !q.isSchedulable() {
				advice = q.suggestPlacement()
			}
		case model.NoDomainFits:
			if q.isApplicable() && !q.isSchedulable() {
				advice = q.suggestDomain()
			}
		case model.QueueLimit:
			if q.membersAnswerable() && q.session.JobReady(q.job, framework.Ready) != nil {
				advice = q.suggestLimit()
			}
		}
	})
	return advice, options.Budget - q.left
}

// isApplicable reports whether trying to start the job says anything: it waits for its minimum, its members can be placed at
// all, and no component outside the scheduler, which would have to be asked, keeps them from a node for now.
func (q *search) isApplicable() bool {
	if q.session.JobReady(q.job, framework.Ready) == nil || q.session.ValidateJob(q.job) != nil {
		return false
	}
	return !slices.ContainsFunc(q.job.Pending(), func(task *model.Task) bool { return task.Invalid != nil || q.session.HasTransientRefusal(task) })
}

// suggestPlacement returns what would help a job for whose members there is no place. What gives capacity comes first, since it
// takes nothing from the job, and before all what takes nothing from any job; but where no node that is there would do,
// however empty, a wish that is in the way does.
func (q *search) suggestPlacement() Suggestions {
	placed := q.placed
	free := q.verified(q.uncordon)
	if free == nil {
		free = q.verified(q.freeResources)
	}
	drop := q.verified(q.drop)
	switch {
	case free == nil && drop != nil:
		return Suggestions{{drop}}
	case free == nil:
		free = q.verified(q.addNodes(placed))
	}
	own := drop
	if own == nil {
		own = q.first(q.lowerMinimum(placed), q.lowerRole, q.preemption)
	}
	return alternatives(free, own)
}

// first returns what the first of them finds.
func (q *search) first(finds ...func() *Change) *Change {
	for _, find := range finds {
		if change := q.verified(find); change != nil {
			return change
		}
	}
	return nil
}

// alternatives returns those changes that were found.
func alternatives(changes ...*Change) (advice Suggestions) {
	for _, change := range changes {
		if change != nil {
			advice = append(advice, Suggestion{change})
		}
	}
	return advice
}

// verified returns what was found, nil when the budget came to an end over it: a try that was not made looks like one that
// has failed.
func (q *search) verified(find func() *Change) *Change {
	if q.left <= 0 {
		return nil
	}
	if change := find(); q.left > 0 {
		return change
	}
	return nil
}

// whatIf does something that is taken back immediately, also when a plugin panics: before what is supposed of the job is taken
// back.
func (q *search) whatIf(body func(*framework.Statement)) {
	ended := false
	defer func() {
		if !ended {
			q.session.Abandon()
		}
	}()
	q.session.Try(func(statement *framework.Statement) *model.Refusal {
		body(statement)
		return &model.Refusal{} // it was only a question
	})
	ended = true
}

// isSchedulable reports whether the job would start, on capacity that is idle or about to be.
func (q *search) isSchedulable() bool {
	waiting := q.job.Pending()
	q.left -= 1 + len(waiting)
	for _, first := range kindsOf(waiting) {
		q.left -= len(q.session.EligibleNodes(first))
	}
	if q.left <= 0 {
		return false
	}
	var refusal *model.Refusal
	q.whatIf(func(*framework.Statement) {
		before := q.exact
		refusal = place.New(q.session, q.job, q.largest, &q.exact).Place(q.capacity())
		q.left -= before - max(0, q.exact)
	})
	if refusal == nil {
		return true
	}
	q.placed = refusal.Has
	return false
}

// capacity returns what the job is tried on: capacity that is being released counts where there is any. Without it, isolated
// CPUs are placed as in a start, which knows which CPUs each member gets.
func (q *search) capacity() model.CapacityKind {
	if slices.ContainsFunc(q.session.Snapshot.Nodes, (*model.Node).HasReleasing) {
		return model.FutureIdle
	}
	return model.Idle
}

// kind is what members that the search treats alike have in common.
type kind struct {
	role  string
	shape model.Shape
}

func kindOf(task *model.Task) kind { return kind{role: task.Role, shape: task.Shape} }

// kindsOf returns the first task of each kind.
func kindsOf(tasks []*model.Task) []*model.Task {
	seen := map[kind]bool{}
	var firsts []*model.Task
	for _, task := range tasks {
		if k := kindOf(task); !seen[k] {
			seen[k] = true
			firsts = append(firsts, task)
		}
	}
	return firsts
}

// lowerMinimum returns what finds the largest minimum with which the job would start. It looks first at how many found capacity
// before.
func (q *search) lowerMinimum(placed int64) func() *Change {
	return func() *Change {
		job, from, priority := q.job, q.job.MinMember, q.job.Priority
		if job.Stated != nil { // its group states another minimum, which is not what it waits for
			return nil
		}
		defer func() { job.MinMember, job.Priority = from, priority }()
		can := func(minimum int32) bool {
			job.MinMember = minimum
			job.SetPriority()
			return q.isSchedulable()
		}
		least := int32(1)
		for _, role := range job.Roles {
			least = max(least, role.MinMember)
		}
		var roles int64
		for _, role := range job.Roles {
			roles += int64(role.MinMember)
		}
		least = int32(max(int64(least), min(roles, int64(from))))
		low, high := least-1, from // low will do, unless it is none; high will not
		for guess := int32(min(max(placed, int64(least)), int64(from)-1)); low+1 < high; guess = low + (high-low)/2 {
			if guess = max(guess, low+1); !can(guess) {
				high = guess
				continue
			}
			if low = guess; low+1 < high && !can(low+1) {
				high = low + 1
			}
		}
		if low < least {
			return nil
		}
		return lowered(from, low)
	}
}
