package rehearse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// maxWaiting is how many questions wait for their turn.
	maxWaiting = 8
	// maxTime is how long one question may take.
	maxTime = 15 * time.Second
	// maxCredit is how long questions may take together without a pause, and share what part of the time they may take on
	// average.
	maxCredit = 30 * time.Second
	share     = 10
	// roundEvery is how often it is checked whether a round is due, maxRound how long one may take, and failedRound how
	// long there is none after one that has failed. An answer older than answerLasts is looked for again once something
	// has changed.
	roundEvery, maxRound, answerLasts, failedRound = 2 * time.Second, 2 * time.Second, 10 * time.Second, time.Minute
)

// Loop is the live loop. Moment calls deliver on the loop's goroutine, which must not block.
type Loop interface {
	Moment(deliver func(*scheduler.Moment))
}

// Live is a loop for which rounds look for advice. Refused returns the version of the snapshot of its last cycle, and how many
// jobs that cycle refused; zero while it decides. Advise takes all findings, which are not changed afterwards.
type Live interface {
	Loop
	Refused() (version uint64, jobs int)
	Advise(findings map[model.JobKey]scheduler.Finding)
}

// Desk answers questions beside the loop, one at a time and within a tenth of a processor, and looks for advice in
// between. It is safe for concurrent use.
type Desk struct {
	loop    Loop
	setting *Setting
	clock   clock.PassiveClock
	// turn has one token while no question is answered; waiting counts those that want it.
	turn    chan struct{}
	waiting atomic.Int32
	// mu guards what follows: how long questions may still take, as of the moment filled.
	mu     sync.Mutex
	credit time.Duration
	filled time.Time
}

// rounds are what Run knows from one round to the next: the findings, the version of the snapshot of the last round, and
// when the next one is due although the version is the same; zero when none is.
type rounds struct {
	findings map[model.JobKey]scheduler.Finding
	version  uint64
	due      time.Time
}

// Run looks for advice in rounds until the context ends: while jobs wait, once something has changed, and within the upper
// half of what questions may take. It returns no error.
func (d *Desk) Run(ctx context.Context, live Live) error {
	r := &rounds{findings: map[model.JobKey]scheduler.Finding{}}
	wait.UntilWithContext(ctx, func(ctx context.Context) { d.round(ctx, live, r) }, roundEvery)
	return nil
}

// round looks for advice where it is due: for the jobs without an answer first, then for those whose answer is old.
func (d *Desk) round(ctx context.Context, live Live, r *rounds) {
	now := d.clock.Now()
	version, jobs := live.Refused()
	if jobs == 0 || version == r.version && (r.due.IsZero() || now.Before(r.due)) || d.balance() < maxCredit/2 {
		return
	}
	err := d.use(ctx, forRound, func(_ context.Context, moment *scheduler.Moment, setting *Setting) error {
		ask, next := r.questions(moment, now)
		until := d.clock.Now().Add(maxRound)
		advice, err := map[model.JobKey]*v1alpha1.Advice{}, error(nil)
		if len(ask) > 0 {
			advice, err = Advise(moment, setting, ask, func() bool { return d.clock.Now().After(until) || d.waiting.Load() > 1 })
		}
		if err != nil {
			return err
		}
		for _, of := range ask {
			if said, known := advice[of.Key]; known {
				next[of.Key] = scheduler.Finding{Subject: of.Subject, Advice: said, Version: moment.Version, At: now}
			} else {
				r.due = now // it is left for the next round
			}
		}
		r.findings, r.version = next, moment.Version
		live.Advise(maps.Clone(next))
		return nil
	})
	if err != nil {
		r.version, r.due = version, now.Add(failedRound)
		klog.FromContext(ctx).V(1).Info("No advice is looked for for a while", "pause", failedRound, "reason", err.Error())
	}
}

// questions returns the jobs to look at, and the findings that stay; it notes when the next one of these is old.
func (r *rounds) questions(moment *scheduler.Moment, now time.Time) (ask []scheduler.Refused, stays map[model.JobKey]scheduler.Finding) {
	var old []scheduler.Refused
	stays, r.due = map[model.JobKey]scheduler.Finding{}, time.Time{}
	for _, of := range moment.Refused {
		known, is := r.findings[of.Key]
		if !is || known.Subject != of.Subject {
			ask = append(ask, of)
			continue
		}
		if stays[of.Key] = known; known.Version == moment.Version {
			continue
		}
		if at := known.At.Add(answerLasts); now.Before(at) {
			r.due = model.Sooner(r.due, at)
		} else {
			old = append(old, of)
		}
	}
	slices.SortStableFunc(old, func(a, b scheduler.Refused) int { return r.findings[a.Key].At.Compare(r.findings[b.Key].At) })
	return append(ask, old...), stays
}

// NewDesk returns a desk for the questions about one loop.
func NewDesk(loop Loop, setting *Setting, clock clock.PassiveClock) *Desk {
	d := &Desk{loop: loop, setting: setting, clock: clock, turn: make(chan struct{}, 1), credit: maxCredit, filled: clock.Now()}
	d.turn <- struct{}{}
	return d
}

// Ask answers a question. Its errors are those of Use, BadRequest for a mistake in the question, all of them at once, and
// Timeout for a play that is too long.
func (d *Desk) Ask(ctx context.Context, question *debugapi.Question) (answer *debugapi.Answer, err error) {
	configuration, err := configurationOf(question)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	err = d.Use(ctx, func(ctx context.Context, moment *scheduler.Moment, setting *Setting) (err error) {
		answer, err = answerTo(ctx, question, configuration, moment, setting)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Use calls do with the present moment, in its turn, and within what all questions may take. Its errors are those of do, and of
// apimachinery: TooManyRequests, ServiceUnavailable where the loop does not lead, Timeout where others have their turn, and
// InternalError after a panic, which is one of the rehearsal alone.
func (d *Desk) Use(ctx context.Context, do func(context.Context, *scheduler.Moment, *Setting) error) (err error) {
	return d.use(ctx, forQuestion, do)
}

// What the time is measured for.
const (
	forQuestion = "question"
	forRound    = "advice"
)

func (d *Desk) use(ctx context.Context, purpose string, do func(context.Context, *scheduler.Moment, *Setting) error) (err error) {
	defer d.waiting.Add(-1)
	if d.waiting.Add(1) > maxWaiting {
		return apierrors.NewTooManyRequests("too many questions wait", 1)
	}
	select {
	case <-d.turn:
		defer func() { d.turn <- struct{}{} }()
	case <-ctx.Done():
		return apierrors.NewTimeoutError("other questions are answered", 1)
	}
	if wait := d.overdrawn(); wait > 0 {
		return apierrors.NewTooManyRequests("questions have taken their part of the processor", int(wait/time.Second)+1)
	}
	began := d.clock.Now()
	defer func() {
		took := d.clock.Since(began)
		d.pay(took)
		if d.setting.Took != nil {
			d.setting.Took(purpose, took)
		}
		if value := recover(); value != nil {
			err = apierrors.NewInternalError(fmt.Errorf("something panicked in the rehearsal, not in the scheduler: %s", model.OneLine(value)))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	moments := make(chan *scheduler.Moment, 1)
	d.loop.Moment(func(moment *scheduler.Moment) { moments <- moment })
	select {
	case moment := <-moments:
		if !moment.Leading {
			return apierrors.NewServiceUnavailable("this scheduler does not lead")
		}
		return do(ctx, moment, d.setting)
	case <-ctx.Done():
		return apierrors.NewServiceUnavailable("the scheduler is busy")
	}
}

// answerTo plays the cluster as it is and, where the question supposes changes, with them.
func answerTo(
	ctx context.Context, question *debugapi.Question, configuration []byte, moment *scheduler.Moment, setting *Setting,
) (*debugapi.Answer, error) {
	answer := debugapi.NewAnswer(moment.Contents.At, setting.Inexact)
	answer.Cycle = moment.Cycle
	difference, err := Difference(ctx, moment, setting)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if difference != "" {
		setting.Differs()
		answer.Notes = append(answer.Notes, "the copy decides otherwise than the scheduler has: "+difference)
	}
	var changed *rehearsal
	if len(question.Changes) > 0 {
		var err error
		if changed, err = newRehearsal(moment, setting, configuration); err == nil {
			answer.Supposed, err = changed.suppose(question)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	unchanged, err := newRehearsal(moment, setting, nil)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	now, err := unchanged.play(ctx, question.For.Duration)
	if err != nil {
		return nil, apierrors.NewTimeoutError(err.Error()+"; use a shorter --for", 0)
	}
	if answer.Until = now.until; changed == nil {
		forecast(now, answer)
		return answer, nil
	}
	then, err := changed.play(ctx, question.For.Duration)
	if err != nil {
		return nil, apierrors.NewTimeoutError(err.Error()+"; use a shorter --for", 0)
	}
	compare(now, then, answer)
	return answer, nil
}

// overdrawn returns how long no question may be answered.
func (d *Desk) overdrawn() time.Duration { return max(0, -d.balance()*share) }

// balance returns how long questions may still take.
func (d *Desk) balance() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	d.credit, d.filled = min(maxCredit, d.credit+now.Sub(d.filled)/share), now
	return d.credit
}

func (d *Desk) pay(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.credit -= took
}
