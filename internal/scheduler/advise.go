package scheduler

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/placement"
	"github.com/tutti-sched/tutti/internal/suggest"
	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds out, between two cycles, what would let waiting jobs start. It does a bounded bit of that each time there is
// something to report, so that the loop is never held up by it for long, however many jobs wait.

const (
	// searchBudget is about how many looks at nodes one turn takes; a question that has begun is finished.
	searchBudget = 60_000
	// refreshPeriod is how long an advice is believed while things change in the cluster.
	refreshPeriod = 10 * time.Second
	// maxLoopShare is the part of the time, one in so many, that turns take at most while questions are left: a backlog of
	// thousands takes a while to be told what would help, rather than a processor for itself.
	maxLoopShare = 10
	// maxStaleness is for how long a loop that has jobs to start puts questions off.
	maxStaleness = 5 * time.Second
)

// suggester remembers what would let waiting jobs start, for as long as nothing that matters has changed.
//
// Invariant: while nothing happens, every question is asked once.
type suggester struct {
	known map[model.JobKey]suggestion
	// sharedKey are the answers of this round, for jobs that are alike.
	sharedKey map[suggest.ShareKey]string
	// round counts the cycles before which something had happened.
	round uint64
	// queue are the jobs to ask about, in order. rebuild reports that it is out of date.
	queue   []model.JobKey
	rebuild bool
	// since is when a job began to wait to be asked about; zero when no job waits. refresh is when an advice gets too old.
	since, refresh time.Time
	// resume is when the next turn may be, since the last one has left questions.
	resume time.Time
}

// suggestion is the advice for one job.
type suggestion struct {
	asked queryKey
	round uint64
	at    time.Time
	text  string
	// reason is what the job was refused with.
	reason string
}

// queryKey is what a job was when it was asked about. When it is something else, what was said of it is not true any more.
type queryKey struct {
	uid              types.UID
	code             model.Code
	members, waiting int
	minimum          int32
}

func newAdvisor() *suggester {
	return &suggester{known: map[model.JobKey]suggestion{}, sharedKey: map[suggest.ShareKey]string{}}
}

func askedOf(job *model.Job, refusal *model.Refusal) queryKey {
	return queryKey{
		uid: job.UID, code: refusal.Code, members: len(job.Tasks), minimum: job.MinMember,
		waiting: job.Count(func(task *model.Task) bool { return task.Status == model.Pending && !task.SchedulingGated }),
	}
}

// message returns the advice for a job that waits; empty when nothing is known to help.
func (a *suggester) message(job *model.Job) string { return a.known[job.Key].text }

// cycle takes note of a cycle; happened reports that something had happened before it, or was decided in the one before.
func (a *suggester) cycle(happened bool) {
	a.rebuild = true
	if happened {
		a.round++
		clear(a.sharedKey)
	}
}

// plan lists the jobs to ask about: those of whom nothing is known that is true, and those of whom what is known is too old.
func (a *suggester) plan(snapshot *model.Snapshot, refusals map[model.JobKey]*model.Refusal, now time.Time) {
	a.rebuild, a.refresh, a.queue = false, time.Time{}, a.queue[:0]
	var old []model.JobKey
	for key, refusal := range refusals {
		job := snapshot.Job(key)
		if job == nil || !canSuggest(refusal) {
			delete(a.known, key)
			continue
		}
		known, ok := a.known[key]
		switch {
		case !ok || known.asked != askedOf(job, refusal):
			delete(a.known, key)
			a.queue = append(a.queue, key)
		case known.round == a.round && known.reason == refusal.String():
		case now.Sub(known.at) >= refreshPeriod:
			old = append(old, key)
		default:
			a.refresh = backoff.Sooner(a.refresh, known.at.Add(refreshPeriod))
		}
	}
	for key := range a.known {
		if refusals[key] == nil {
			delete(a.known, key)
		}
	}
	slices.SortFunc(a.queue, model.JobKey.Compare)
	slices.SortFunc(old, func(x, y model.JobKey) int {
		return cmp.Or(a.known[x].at.Compare(a.known[y].at), x.Compare(y))
	})
	a.queue = append(a.queue, old...)
}

// canSuggest reports whether a change could help the job, other than waiting.
func canSuggest(refusal *model.Refusal) bool {
	switch refusal.Code {
	case model.InsufficientResources, model.NodesFiltered, model.NotEnoughMembers, model.SchedulingGated, model.GroupNotFound:
		return true
	}
	return false
}

// advise asks a few of the questions there are, and returns when to go on; zero when there is nothing to ask for now.
func (s *Scheduler) advise(ctx context.Context, now time.Time) (again time.Time) {
	a := s.advisor
	if s.last.changed { // there is a cycle first
		return time.Time{}
	}
	if !a.rebuild && len(a.queue) == 0 && (a.refresh.IsZero() || now.Before(a.refresh)) {
		return a.refresh
	}
	snapshot := s.state.Snapshot(now)
	if a.rebuild || len(a.queue) == 0 {
		a.plan(snapshot, s.refusals, now)
	}
	left := s.adviseNames(ctx, snapshot, now)
	switch {
	case len(a.queue) == 0:
		a.since = time.Time{}
		return a.refresh
	case a.since.IsZero():
		a.since = now
	}
	if wait := a.since.Add(maxStaleness); s.last.decided && now.Before(wait) {
		return wait
	}
	if now.Before(a.resume) {
		return a.resume
	}
	began := s.options.Clock.Now()
	s.adviseSome(ctx, snapshot, left, now)
	if len(a.queue) > 0 {
		ended := s.options.Clock.Now()
		a.resume = ended.Add(max(reportEvery, (maxLoopShare-1)*ended.Sub(began)))
		return a.resume
	}
	a.since = time.Time{}
	return a.refresh
}

// adviseNames answers for pods whose group does not exist, which costs little, and returns what is left of the turn.
func (s *Scheduler) adviseNames(ctx context.Context, snapshot *model.Snapshot, now time.Time) (left int) {
	a := s.advisor
	left = searchBudget
	a.queue = slices.DeleteFunc(a.queue, func(key model.JobKey) bool {
		refusal := s.refusals[key]
		if refusal == nil || refusal.Code != model.GroupNotFound || left <= 0 {
			return false
		}
		var words string
		s.recoverPanic(ctx, partAdvice, func() {
			var looks int
			words, looks = suggest.Name(snapshot, key)
			left -= 4 * looks
		})
		left--
		a.note(snapshot.Job(key), refusal, words, now)
		return true
	})
	return left
}

func (a *suggester) note(job *model.Job, refusal *model.Refusal, text string, now time.Time) {
	if job != nil {
		a.known[job.Key] = suggestion{asked: askedOf(job, refusal), round: a.round, at: now, text: text, reason: refusal.String()}
	}
}

// adviseSome asks about jobs until the turn is over. A job over which the search panics is not asked about again until it has
// changed.
func (s *Scheduler) adviseSome(ctx context.Context, snapshot *model.Snapshot, left int, now time.Time) {
	a := s.advisor
	options := suggest.Options{
		Preempts: slices.ContainsFunc(s.profile.Actions, func(action framework.Action) bool { return action.Name() == preempt.Name }),
		Budget:   suggest.DefaultBudget, Largest: placement.MaxAllocatable(snapshot),
	}
	left -= len(snapshot.Nodes) / 4
	ask := func() {
		suggest.OpenSession(snapshot, s.profile, framework.Options{Verify: s.options.Verify, Memory: &s.memory}, func(session *framework.Session) {
			for left > 0 && len(a.queue) > 0 {
				job, refusal := snapshot.Job(a.queue[0]), s.refusals[a.queue[0]]
				a.queue = a.queue[1:]
				if job == nil || refusal == nil {
					continue
				}
				a.note(job, refusal, "", now)
				text, looks := a.ask(session, job, refusal, options)
				left -= looks
				a.note(job, refusal, text, now)
			}
		})
	}
	if s.options.Verify { // a broken invariant is not to be caught
		ask()
		return
	}
	s.recoverPanic(ctx, partAdvice, ask)
}

// ask returns the advice for one job, and what it has cost.
func (a *suggester) ask(
	session *framework.Session, job *model.Job, refusal *model.Refusal, options suggest.Options,
) (text string, looks int) {
	same, alike := suggest.ShareKeyOf(session, job, refusal.Code)
	each := 3 * len(job.Tasks) // of each the filters are asked, in two scopes, whether it is plain
	if known, ok := a.sharedKey[same]; alike && ok {
		return known, each
	}
	advice, looks := suggest.Suggest(session, job, refusal, options)
	if alike {
		a.sharedKey[same] = advice.String()
	}
	return advice.String(), looks + each
}
