package advisor

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/suggest"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// question is a job to ask about, and its answer as far as that is known before.
type question struct {
	key     model.JobKey
	refusal *model.Refusal
	answer  answer
}

// Answers are what a round has found out.
type Answers struct {
	known map[model.JobKey]answer
	// left reports that there are questions for another round, which must not begin before the pause has ended.
	left  bool
	pause time.Duration
	// Panic is the panic that has ended the round, with its Stack; empty when none did.
	Panic, Stack string
}

// round is one run of questions about a copy of the cluster, which it owns.
type round struct {
	options   Options
	copied    *cluster.Copy
	profile   *framework.Profile
	verify    bool
	questions []question
}

// run asks until the budget is spent; after that only the jobs get an answer that share one. A job over which the search panics
// has no advice until it changes, and ends the round, since what is left of the copy may be broken.
func (r *round) run(copying time.Duration) *Answers {
	answers := &Answers{known: map[model.JobKey]answer{}}
	began := r.options.Clock.Now()
	r.ask(answers)
	answers.left = len(answers.known) < len(r.questions)
	answers.pause = max(minPause, roundShare*r.options.Clock.Since(began), copyShare*copying)
	if len(answers.known) == 0 { // a panic has ended it before the first question
		answers.pause = max(answers.pause, refreshPeriod)
	}
	return answers
}

func (r *round) ask(answers *Answers) {
	current := -1
	defer func() {
		if r.verify { // a broken invariant is not to be caught
			return
		}
		if value := recover(); value != nil {
			answers.Panic, answers.Stack = fmt.Sprint(value), string(debug.Stack())
			if current >= 0 {
				answers.add(&r.questions[current], nil)
			}
		}
	}()
	if r.options.Follow != nil {
		r.options.Follow(r.copied)
	}
	snapshot, left := r.copied.Snapshot, r.options.Budget
	for current = range r.questions { // those that cost little
		if q := &r.questions[current]; q.refusal.Code == model.GroupNotFound && left > 0 {
			words, looks := suggest.Name(snapshot, q.key)
			left -= looks
			if words != "" {
				answers.add(q, &v1alpha1.Advice{Message: model.Clean(words, maxMessage)})
			} else {
				answers.add(q, nil)
			}
		}
	}
	current = -1
	session := framework.Open(snapshot, r.profile, framework.Options{Verify: r.verify})
	options := suggest.Options{
		Preempts: slices.ContainsFunc(r.profile.Actions, preempts), Budget: suggest.DefaultBudget,
		Largest: place.MaxAllocatable(snapshot),
	}
	found := map[string]*v1alpha1.Advice{} // by its words, by which the session remembers it
	for current = range r.questions {
		q := &r.questions[current]
		if q.refusal.Code == model.GroupNotFound {
			continue
		}
		job := snapshot.Job(q.key)
		if known, ok := session.Recall(questionAbout(job, q.refusal), job); ok {
			answers.add(q, found[known.Detail])
		} else if left > 0 {
			suggestions, looks := suggestOnce(session, job, q.refusal, options)
			left -= looks
			text := suggestions.String()
			found[text] = describe(suggestions, snapshot.Dimensions)
			answers.add(q, found[text])
		}
	}
	current = -1
	session.Close()
}

func preempts(action framework.Action) bool {
	_, is := action.(framework.Preemptor)
	return is
}

// questionAbout returns what the session remembers the advice for a job by. Jobs of one class, as many and refused with one
// code, share it where nothing but the class decides.
func questionAbout(job *model.Job, refusal *model.Refusal) framework.Question {
	question := framework.Question{Action: fmt.Sprintf("advice %s %d", refusal.Code, len(job.Tasks))}
	if job.Class.Uniform { // of others, the advice may name a member
		question.Class = job.Class
		question.Class.Uniform = false // it is for this minimum alone
	}
	return question
}

// suggestOnce returns the advice for one job, and what it has cost.
func suggestOnce(session *framework.Session, job *model.Job, refusal *model.Refusal, options suggest.Options) (advice suggest.Suggestions, looks int) {
	session.Verdict(questionAbout(job, refusal), job, func() (*model.Refusal, framework.Reach) {
		advice, looks = suggest.Suggest(session, job, refusal, options)
		return &model.Refusal{Detail: advice.String()}, framework.ForClass
	})
	return advice, looks + 1 + len(job.Tasks)/4
}

func (a *Answers) add(q *question, advice *v1alpha1.Advice) {
	q.answer.advice = advice
	a.known[q.key] = q.answer
}
