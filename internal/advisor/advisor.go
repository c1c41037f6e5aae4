package advisor

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// refreshPeriod is how long an answer is believed while things change in the cluster.
	refreshPeriod = 10 * time.Second
	// minPause is the shortest time between two rounds. roundShare and copyShare are how many times as long as the last one, and as
	// its copy, it is at least: rounds take a tenth of one processor, copies a fiftieth of the loop's time.
	minPause   = 200 * time.Millisecond
	roundShare = 9
	copyShare  = 49
)

// Options are how rounds run.
type Options struct {
	// Clock measures what a round costs.
	Clock clock.PassiveClock
	// Deliver hands the answers of a round to the loop, which calls Take. The round's goroutine calls it.
	Deliver func(*Answers)
	// Follow makes the plugins of the rounds' profile read a copy; nil for plugins that read nothing but the session's snapshot.
	Follow func(*cluster.Copy)
	// Budget is about how many looks at nodes a round takes; a question that has begun is finished. Zero is one million.
	Budget int
}

// Source is what a round is about, and is only read by Ask.
type Source struct {
	State   *cluster.State
	Profile *framework.Profile
	// Refusals are those of the last cycle; nothing may have happened since.
	Refusals map[model.JobKey]*model.Refusal
	Now      time.Time
	// Verify checks the invariants after every statement, and lets panics through; for tests.
	Verify bool
}

// Advisor has what would let waiting jobs start. The loop's goroutine owns it.
//
// Invariant: while nothing happens, every question is asked once. At most one round is under way.
type Advisor struct {
	options Options
	known   map[model.JobKey]answer
	// changes counts the cycles before which something had happened.
	changes uint64
	// replan reports that there may be other questions than before, asking that a round is under way.
	replan, asking bool
	// resume is when the next round may begin, refresh when an answer gets too old; zero when none does.
	resume, refresh time.Time
}

// subject is what a job was when it was asked about. When it is something else, the answer is not true any more.
type subject struct {
	uid              types.UID
	code             model.Code
	members, waiting int
	minimum          int32
}

// answer is the advice for one job; nil when nothing small would help.
type answer struct {
	subject subject
	// reason is what the job was refused with, changes the advisor's count when it was asked about, at that time.
	reason  string
	changes uint64
	at      time.Time
	advice  *v1alpha1.Advice
}

// New returns an advisor that knows nothing.
func New(options Options) *Advisor {
	if options.Budget == 0 {
		options.Budget = 1_000_000
	}
	return &Advisor{options: options, known: map[model.JobKey]answer{}}
}

// Advice returns the advice for a job that waits, never to be changed; nil when nothing is known to help.
func (a *Advisor) Advice(job *model.Job) *v1alpha1.Advice { return a.known[job.Key].advice }

// Cycled takes note of a cycle; happened reports that something had happened before it, or was decided in the one before.
func (a *Advisor) Cycled(happened bool) {
	a.replan = true
	if happened {
		a.changes++
	}
}

// Ask begins a round if there are questions and none is under way. It runs on a goroutine of its own; with a profile that has no
// replica in place, as under virtual time, and the answers are returned.
func (a *Advisor) Ask(from Source) (answers *Answers) {
	now := from.Now
	if a.asking || now.Before(a.resume) || !a.replan && (a.refresh.IsZero() || now.Before(a.refresh)) {
		return nil
	}
	questions := a.questions(from.State.Snapshot(now), from.Refusals, now)
	if a.replan = false; len(questions) == 0 {
		return nil
	}
	began := a.options.Clock.Now()
	r := &round{
		options: a.options, copied: from.State.Copy(now), profile: cmp.Or(from.Profile.Replica, from.Profile), verify: from.Verify,
		questions: questions,
	}
	copying := a.options.Clock.Since(began)
	a.asking = true
	if from.Profile.Replica == nil {
		return r.run(copying)
	}
	go func() { a.options.Deliver(r.run(copying)) }()
	return nil
}

// Next returns when to call Ask again; zero when there are no questions before the next cycle, or before the answers of a round.
func (a *Advisor) Next() time.Time {
	switch {
	case a.asking || !a.replan && a.refresh.IsZero():
		return time.Time{}
	case a.replan || a.refresh.Before(a.resume):
		return a.resume
	}
	return a.refresh
}

// Take takes in the answers of a round. Those about jobs that are not what they were are dropped.
func (a *Advisor) Take(answers *Answers, state *cluster.State, refusals map[model.JobKey]*model.Refusal) {
	a.asking, a.resume = false, a.options.Clock.Now().Add(answers.pause)
	a.replan = a.replan || answers.left
	for key, answer := range answers.known {
		job, refusal := state.Job(key), refusals[key]
		if job == nil || refusal == nil || subjectOf(job, refusal) != answer.subject {
			continue
		}
		a.known[key] = answer
		if answer.changes != a.changes { // something has happened meanwhile
			a.refresh = backoff.Sooner(a.refresh, answer.at.Add(refreshPeriod))
		}
	}
}

// questions lists the jobs to ask about: those of which nothing is known that is true, and those of which what is known is too
// old.
func (a *Advisor) questions(snapshot *model.Snapshot, refusals map[model.JobKey]*model.Refusal, now time.Time) []question {
	a.refresh = time.Time{}
	var fresh, old []question
	for key, refusal := range refusals {
		job := snapshot.Job(key)
		if job == nil || !canSuggest(refusal) {
			delete(a.known, key)
			continue
		}
		asked := question{key: key, refusal: refusal, answer: answer{
			subject: subjectOf(job, refusal), reason: refusal.String(), changes: a.changes, at: now,
		}}
		known, ok := a.known[key]
		switch {
		case !ok || known.subject != asked.answer.subject:
			delete(a.known, key)
			fresh = append(fresh, asked)
		case known.changes == a.changes && known.reason == asked.answer.reason:
		case now.Sub(known.at) >= refreshPeriod:
			old = append(old, asked)
		default:
			a.refresh = backoff.Sooner(a.refresh, known.at.Add(refreshPeriod))
		}
	}
	for key := range a.known {
		if refusals[key] == nil {
			delete(a.known, key)
		}
	}
	slices.SortFunc(fresh, func(x, y question) int { return x.key.Compare(y.key) })
	slices.SortFunc(old, func(x, y question) int {
		return cmp.Or(a.known[x.key].at.Compare(a.known[y.key].at), x.key.Compare(y.key))
	})
	return append(fresh, old...)
}

// canSuggest reports whether a change could help the job, other than waiting.
func canSuggest(refusal *model.Refusal) bool {
	switch refusal.Code {
	case model.InsufficientResources, model.NodesFiltered, model.NotEnoughMembers, model.SchedulingGated, model.GroupNotFound,
		model.QueueLimit, model.NoDomainFits:
		return true
	}
	return false
}

func subjectOf(job *model.Job, refusal *model.Refusal) subject {
	return subject{
		uid: job.UID, code: refusal.Code, members: len(job.Tasks), minimum: job.MinMember,
		waiting: job.Count(func(task *model.Task) bool { return task.Status == model.Pending && !task.SchedulingGated }),
	}
}
