package backfill

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// lend starts jobs on reserved capacity that will be gone when it is needed, and explains the reservation to those that could
// start there without it.
func (r *run) lend(waiting []*model.Job) {
	l := &backfiller{run: r, work: r.budget, preempting: r.preempting(waiting)}
	for job := range r.session.InOrder(waiting) {
		if l.work <= 0 {
			l.continueNextCycle()
			return
		}
		if l.kept = r.blockingReservations(job); len(l.kept) > 0 && r.isBackfillable(job) && l.mayFit(job) {
			l.tryJob(job)
		}
	}
}

// mayFit reports whether a member of the job would fit on a node where capacity is reserved, were it not held: a cheap look,
// since mostly the pods that must leave are there still.
func (l *backfiller) mayFit(job *model.Job) bool {
	seen := map[model.Shape]bool{}
	for _, task := range job.Pending() {
		if seen[task.Shape] {
			continue
		}
		seen[task.Shape] = true
		for _, holder := range l.kept {
			l.work -= len(holder.reservation.Nodes)
			for _, node := range holder.usableNodes(l.session.Snapshot) {
				if node.FitsUnheld(task.Request) {
					return true
				}
			}
		}
	}
	return false
}

// blockingReservations returns the reservations that the job must respect.
func (r *run) blockingReservations(job *model.Job) []*reservedJob {
	var kept []*reservedJob
	for _, holder := range r.holders {
		if r.session.Respects(job, holder.job) {
			kept = append(kept, holder)
		}
	}
	return kept
}

// isBackfillable reports whether the job waits for nothing but capacity to start in.
func (r *run) isBackfillable(job *model.Job) bool {
	return r.session.Refusal(job).LacksPlace() && r.session.JobReady(job, framework.Ready) != nil &&
		r.session.ValidateJob(job) == nil
}

// backfiller looks for borrowers.
type backfiller struct {
	*run
	// work is what it may still look at, in nodes and members.
	work int
	// kept are the reservations that the job at hand must respect.
	kept []*reservedJob
	// preempting is the highest priority of the waiting jobs for which pods may be evicted.
	preempting int64
}

// preempting returns the highest priority of the jobs that wait and for which a later action may evict pods.
func (r *run) preempting(waiting []*model.Job) int64 {
	highest := int64(math.MinInt64)
	for _, job := range waiting {
		refusal := r.session.Refusal(job)
		if int64(job.Priority) > highest && refusal.Evictable && refusal.Code != model.WaitingForVictims && r.session.MayPreempt(job) {
			highest = int64(job.Priority)
		}
	}
	return highest
}

// defers reports whether the job must wait until eviction has been planned for the jobs above it, or a deferred job has had its
// turn: what it borrows would be taken from them.
func (l *backfiller) defers(job *model.Job) bool {
	highest, any := l.session.HighestDeferred()
	return l.preempting > int64(job.Priority) || any && highest >= job.Priority
}

// tryJob starts the job on borrowed capacity, or on capacity that gives way to it, or explains why not.
func (l *backfiller) tryJob(job *model.Job) {
	gone := l.completionTime(job)
	borrows := l.usableReservations(gone)
	takes := slices.ContainsFunc(l.kept, func(holder *reservedJob) bool { return l.session.GivesWay(holder.job, job) })
	if (borrows || takes) && l.defers(job) {
		l.session.Defer(job)
		l.session.Refuse(job, engine.Deferred)
		return
	}
	starts := func(refusal *model.Refusal) *model.Refusal { return refusal }
	ask := l.session.Ask(job, model.Idle)
	if borrows && l.place(ask.Supposing(engine.Supposed{GoneBy: gone}), starts) ||
		takes && ask.TakeReserved(func(ask engine.Ask) bool { return l.place(ask, starts) }) {
		l.session.Refuse(job, surplus(job))
		return
	}
	anywhere := ask.Supposing(engine.Supposed{GoneBy: model.UnrestrictedViewpoint})
	if l.place(anywhere, func(*model.Refusal) *model.Refusal { return errWhatIf }) {
		l.session.Refuse(job, l.reservedRefusal(job, gone))
	}
}

// surplus says that members beyond the minimum wait, which is a matter of the next cycle; nil when none do.
func surplus(job *model.Job) *model.Refusal {
	waiting := len(job.Pending())
	if waiting == 0 {
		return nil
	}
	return &model.Refusal{
		Code: model.InsufficientResources, Detail: fmt.Sprintf("members beyond the minimum that wait: %d", waiting), Evictable: true,
	}
}

// maxLent is for how long, in seconds, capacity is lent to a job on its word alone.
const maxLent = 24 * 60 * 60

// completionTime returns when the job will be gone if it starts now, in seconds since 1970; zero when that is not known of
// all members. What the group says is believed up to maxLent, and not once it was found to be wrong, nor of a member that
// needs no group: without it nothing would be left of what was said.
func (l *backfiller) completionTime(job *model.Job) int64 {
	longest := int64(0)
	for _, task := range job.Pending() {
		seconds := int64(math.MaxInt64)
		if deadline := task.Pod.Spec.ActiveDeadlineSeconds; deadline != nil {
			seconds = *deadline
		}
		if said := job.ExpectedRunSeconds; said != nil && *said <= maxLent && job.OverrunSince.IsZero() && !task.MayDoWithoutGroup {
			seconds = min(seconds, *job.ExpectedRunSeconds)
		}
		if seconds < 1 || seconds > math.MaxInt64-l.now {
			return 0
		}
		longest = max(longest, seconds)
	}
	if longest == 0 {
		return 0
	}
	return l.now + longest
}

// usableReservations reports whether a job may borrow from any of the reservations that will be gone then.
func (l *backfiller) usableReservations(gone int64) bool {
	return gone != 0 && slices.ContainsFunc(l.kept, func(holder *reservedJob) bool { return gone <= holder.reservation.LentUntil() })
}

// place tries the job as it is asked about, and reports whether it found capacity. What becomes of its start is for last to
// decide: it is given nil, or why there was none.
func (l *backfiller) place(ask engine.Ask, last func(*model.Refusal) *model.Refusal) bool {
	job := ask.Job
	question := engine.Question{Action: Name + " lent", Class: job.Class.Placement()}
	return ask.Remember(question, func(ask engine.Ask) (refusal *model.Refusal, reach engine.Reach) {
		l.work -= len(l.session.Snapshot.Nodes) + len(job.Tasks)
		trial := l.trial(ask)
		l.session.Try(func(*engine.Statement) *model.Refusal {
			refusal = trial.Place()
			return last(refusal)
		})
		switch {
		case trial.BudgetExhausted():
			return refusal, engine.ForNow
		case refusal != nil && len(refusal.NodeReasons) == 0:
			return refusal, engine.ForJob
		}
		return refusal, engine.ForClass
	}) == nil
}

// reservedRefusal returns the refusal of a job that could start were nothing reserved.
func (l *backfiller) reservedRefusal(job *model.Job, gone int64) *model.Refusal {
	first := l.kept[0]
	for _, holder := range l.kept[1:] {
		if cmp.Compare(holder.reservation.LentUntil(), first.reservation.LentUntil()) < 0 {
			first = holder
		}
	}
	before := l.session.Refusal(job)
	owner := model.NameList{Noun: "job", Reader: job.Key.Namespace}
	owner.Add(first.job.Key.Namespace, first.job.Key.String())
	detail := "would fit, but the capacity is reserved for " + owner.String() + " " + first.reservation.Describe()
	switch {
	case len(l.kept) > 1:
		detail += ", and for others"
	case first.reservation.ExpectedStart.IsZero():
	case gone == 0:
		detail += "; how long this job runs is not known"
	default:
		detail += "; this job would run for longer"
	}
	return &model.Refusal{Code: model.Reserved, Detail: detail + "; " + before.String(), Evictable: before.Evictable}
}
