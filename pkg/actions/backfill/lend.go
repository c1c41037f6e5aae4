package backfill

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// lend starts jobs on reserved room that will be gone when it is needed, and tells those that could start there but for the
// reservation.
func (r *run) lend(waiting []*model.Job) {
	slices.SortFunc(waiting, r.session.CompareJobs)
	l := &backfiller{run: r, work: r.budget, seen: map[signature]*cacheEntry{}}
	for _, job := range waiting {
		if l.work <= 0 {
			return
		}
		if l.kept = r.blockingReservations(job); len(l.kept) > 0 && r.isBackfillable(job) && l.mayFit(job) {
			l.tryJob(job)
		}
	}
}

// mayFit tells whether a member of the job would fit on a node where room is reserved, were nobody to have it: a cheap look,
// since mostly those are there still who must leave.
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
				if holds(node.Idle, task.Request) {
					return true
				}
			}
		}
	}
	return false
}

func holds(room, request model.Resources) bool {
	for i, amount := range request {
		if amount > 0 && amount > room.At(i) {
			return false
		}
	}
	return true
}

// blockingReservations returns the reservations that the job must respect.
func (r *run) blockingReservations(job *model.Job) []*reservedJob {
	var kept []*reservedJob
	for _, holder := range r.holders {
		if holder.job != job && holder.job.Priority >= job.Priority {
			kept = append(kept, holder)
		}
	}
	return kept
}

// isBackfillable tells whether the job waits for nothing but room to start in.
func (r *run) isBackfillable(job *model.Job) bool {
	return waitsForRoom(r.session.Refusal(job)) && r.session.JobReady(job, framework.Ready) != nil &&
		r.session.ValidateJob(job) == nil
}

// backfiller looks for borrowers.
type backfiller struct {
	*run
	// work is what it may still look at, in nodes and members.
	work int
	// kept are the reservations that the job at hand must respect.
	kept []*reservedJob
	// seen is what was found for jobs whose members are alike; placed counts those that have started since.
	seen   map[signature]*cacheEntry
	placed int
}

// signature is what decides whether members that are alike, and ask for nothing but nodes and their room, could start.
type signature struct {
	shape    model.Shape
	priority int32
	// lent is how many of the reservations they may borrow from; fewer of them know less room.
	lent int
	look bool
}

// cacheEntry is up to how many of them could start, at the last count of the placed, and from how many on they cannot.
type cacheEntry struct{ fits, placed, fails int }

// tryJob starts the job on borrowed room, or tells it why not.
func (l *backfiller) tryJob(job *model.Job) {
	gone := l.completionTime(job)
	if lent := l.usableReservations(gone); lent > 0 && l.place(job, gone, signature{lent: lent}, func(refusal *model.Refusal) *model.Refusal {
		return refusal
	}) {
		l.placed++
		l.session.Refuse(job, surplus(job))
		return
	}
	if l.place(job, model.UnrestrictedViewpoint, signature{look: true}, func(*model.Refusal) *model.Refusal { return errWhatIf }) {
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

// completionTime returns when the job will be gone if it starts now, in seconds since 1970; zero when that is not known of all members.
func (l *backfiller) completionTime(job *model.Job) int64 {
	longest := int64(0)
	for _, task := range job.Pending() {
		seconds := int64(math.MaxInt64)
		if deadline := task.Pod.Spec.ActiveDeadlineSeconds; deadline != nil {
			seconds = *deadline
		}
		if job.Group != nil && job.Group.Spec.ExpectedRunSeconds != nil {
			seconds = min(seconds, *job.Group.Spec.ExpectedRunSeconds)
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

// usableReservations returns how many of the reservations a job may borrow from that will be gone then.
func (l *backfiller) usableReservations(gone int64) int {
	lent := 0
	for _, holder := range l.kept {
		if gone != 0 && gone <= holder.reservation.Until() {
			lent++
		}
	}
	return lent
}

// place tries the job where reserved room is free for who is gone by then, and tells whether it found room. What becomes of
// its start is for the last word to say: it is given nil, or why there was none.
func (l *backfiller) place(
	job *model.Job, gone int64, q signature, last func(*model.Refusal) *model.Refusal,
) (found bool) {
	known := l.lookup(job, &q)
	if known != nil {
		switch needs := int(job.MinMember); {
		case needs >= known.fails:
			return false
		case q.look && needs <= known.fits && known.placed == l.placed:
			return true
		}
	}
	l.work -= len(l.session.Snapshot.Nodes) + len(job.Tasks)
	l.session.UseReservedUntil(job, gone)
	defer l.session.UseReservedUntil(job, 0)
	trial := l.trial(job)
	l.session.Try(func(*framework.Statement) *model.Refusal {
		refusal := trial.Place(model.Idle)
		found = refusal == nil
		return last(refusal)
	})
	if known != nil {
		known.update(int(job.MinMember), found, l.placed)
	}
	return found
}

// lookup returns what is known of jobs like this one, nil when there are none.
func (l *backfiller) lookup(job *model.Job, q *signature) *cacheEntry {
	if len(job.Roles) > 0 || l.session.Uncached() {
		return nil
	}
	first := job.Tasks[0]
	for _, task := range job.Tasks {
		if task.Status != model.Pending || task.SchedulingGated || task.Invalid != nil || task.Role != "" || task.Shape != first.Shape {
			return nil
		}
	}
	if slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return !l.session.FitsByResourcesOnly(task) }) {
		return nil
	}
	q.shape, q.priority = first.Shape, job.Priority
	if l.seen[*q] == nil {
		l.seen[*q] = &cacheEntry{fails: math.MaxInt}
	}
	return l.seen[*q]
}

// update takes down how a try of so many ended.
func (a *cacheEntry) update(needs int, found bool, placed int) {
	switch {
	case !found:
		a.fails = min(a.fails, needs) // there will be less room, never more
	case a.placed != placed:
		a.fits, a.placed = needs, placed
	default:
		a.fits = max(a.fits, needs)
	}
}

// reservedRefusal returns the refusal of a job that could start were nothing reserved.
func (l *backfiller) reservedRefusal(job *model.Job, gone int64) *model.Refusal {
	first := l.kept[0]
	for _, holder := range l.kept[1:] {
		if cmp.Compare(holder.reservation.Until(), first.reservation.Until()) < 0 {
			first = holder
		}
	}
	before := l.session.Refusal(job)
	owner := model.NameList{Noun: "job", Reader: job.Key.Namespace}
	owner.Add(first.job.Key.Namespace, first.job.Key.String())
	detail := "there is room, and it is reserved for " + owner.String() + " " + first.reservation.Describe()
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
