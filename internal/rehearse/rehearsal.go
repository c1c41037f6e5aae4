package rehearse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// longest is how long a play without a horizon is at most, and settles how long nothing must have moved before it ends: longer
	// than most delays after a failure.
	longest, settles = 10 * time.Minute, time.Minute
	// maxSteps is how many steps a play has at most. In most of them the loop finds that nothing is due.
	maxSteps = 200_000
)

// ErrTooLong is why a play was given up; it wraps with how far it came.
var ErrTooLong = errors.New("the play is too long")

// Setting is what the rehearsals of one process share. Its functions are called by one goroutine at a time.
type Setting struct {
	// Profile returns the profile that a configuration makes, nil the one in force, over the plugins of rehearsals.
	Profile func(configuration []byte) (*engine.Profile, error)
	// Show lets these plugins read the pods and nodes of a state from now on.
	Show func(*cluster.State)
	// Reset drops what the plugins have reserved in memory.
	Reset func()
	// BindDeadline is that of the loop.
	BindDeadline time.Duration
	// Inexact says what rehearsals never show exactly.
	Inexact []string
	// Differs counts an answer whose copy of the cluster has a Difference.
	Differs func()
	// Took measures how long a use of the desk took, for a question or for advice; nil measures nothing.
	Took func(purpose string, took time.Duration)
}

// rehearsal is the real loop on a copy of a cluster. One goroutine owns it.
type rehearsal struct {
	setting *Setting
	profile *engine.Profile
	state   *cluster.State
	loop    *scheduler.Scheduler
	clock   *virtualClock
	stage   *stage
	began   time.Time
	// removed are the jobs that a change has taken away.
	removed []model.JobKey
}

// virtualClock shows what it is set to. Only the functions that a loop calls which is stepped are there.
type virtualClock struct {
	clock.WithTicker
	now time.Time
}

func (c *virtualClock) Now() time.Time                   { return c.now }
func (c *virtualClock) Since(at time.Time) time.Duration { return c.now.Sub(at) }

// newRehearsal makes a loop that takes over as a new leader does, except that it knows what the live one has assumed and delayed.
// configuration is that of the profile; nil is the one in force.
func newRehearsal(moment *scheduler.Moment, setting *Setting, configuration []byte) (*rehearsal, error) {
	profile, err := setting.Profile(configuration)
	if err != nil {
		return nil, err
	}
	state := cluster.Restore(moment.Contents, profile.Translators())
	if configuration != nil {
		state.Configure(profile.Translators(), profile.MaxGrace(), profile.SourcesOff...)
	}
	r := &rehearsal{setting: setting, profile: profile, state: state, began: moment.Contents.At, clock: &virtualClock{now: moment.Contents.At}}
	mailbox := scheduler.NewMailbox()
	r.stage = newStage(state, mailbox, r.clock)
	r.loop = scheduler.New(state, commit.New(commit.Options{BindDeadline: setting.BindDeadline}), profile, r.stage, mailbox, scheduler.Options{
		Clock: r.clock, BindDeadline: setting.BindDeadline, Delays: moment.Delays.Clone(), Resync: time.Hour,
	})
	setting.Show(state)
	state.Snapshot(r.began)
	r.stage.confirm()
	mailbox.Lead()
	return r, nil
}

// play moves time from one thing that happens to the next: for so long, or, where that is zero, until nothing moves. It returns
// an error when the context ends, or after maxSteps.
func (r *rehearsal) play(ctx context.Context, horizon time.Duration) (*course, error) {
	quiet := klog.NewContext(ctx, logr.Discard()) // no line of a rehearsal is to be taken for a decision
	r.setting.Show(r.state)
	c := newCourse(r.state, r.profile)
	for _, job := range r.removed {
		delete(c.fates, keyOf(job))
	}
	defer r.setting.Reset()
	if r.stage.endsPods = horizon > 0; r.stage.endsPods {
		r.stage.planEnds(r.state.Snapshot(r.began).Nodes)
	}
	end, moved := r.began.Add(horizon), r.began
	if horizon == 0 {
		end = r.began.Add(longest)
	}
	for steps := 0; ; steps++ {
		if err := ctx.Err(); err != nil || steps == maxSteps {
			return nil, fmt.Errorf("%w: after %d steps it had come to %s", ErrTooLong, steps, r.clock.now.UTC().Format(time.RFC3339))
		}
		r.loop.Step(quiet)
		happened := r.stage.take()
		c.follow(happened, r.state.Snapshot(r.clock.now), r.stage)
		if len(happened) > 0 {
			moved = r.clock.now
		}
		if r.stage.answered() || len(happened) > 0 {
			continue // the mailbox wakes the loop
		}
		next, due := r.stage.next()
		if wake, wakes := r.loop.NextWake(); wakes && (!due || wake.Before(next)) {
			next, due = wake, true
		}
		settled := horizon == 0 && !r.stage.busy() && next.Sub(moved) > settles
		if !due || settled || next.After(end) {
			c.close(r.loop.Refusals(), r.state.Snapshot(r.clock.now), end)
			return c, nil
		}
		if next.After(r.clock.now) {
			r.clock.now = next
		}
		r.stage.advance()
	}
}
