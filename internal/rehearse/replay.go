package rehearse

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Replay runs one cycle of the real loop on a copy, as the loop would after the moment: nothing is confirmed first, and nothing
// is looked for again. It returns the decisions in their order, and why other jobs wait. configuration is that of the profile;
// nil is the one in force. at is when the cycle runs. It is called by one goroutine at a time, as the functions of the setting.
func Replay(
	ctx context.Context, moment *scheduler.Moment, setting *Setting, configuration []byte, at time.Time,
) (decisions []model.Decision, refusals map[model.JobKey]*model.Refusal, err error) {
	loop, err := goOn(moment, setting, configuration, at, func(decision model.Decision) {
		decision.Cycle = moment.Cycle + 1
		decisions = append(decisions, decision)
	})
	if err != nil {
		return nil, nil, err
	}
	defer setting.Reset()
	loop.Step(klog.NewContext(ctx, logr.Discard()))
	return decisions, loop.Refusals(), nil
}

// Inspect returns the documents that the loop would serve at the moment, without its cycles and its configuration. It is called
// by one goroutine at a time, as the functions of the setting.
func Inspect(ctx context.Context, moment *scheduler.Moment, setting *Setting) (debugapi.Source, error) {
	before := moment.Contents.At.Add(-time.Nanosecond) // the next cycle is not due
	loop, err := goOn(moment, setting, nil, before, func(model.Decision) {})
	ask := func(read debugapi.Inspection) {
		loop.Inspect(read)
		loop.Step(klog.NewContext(ctx, logr.Discard()))
	}
	return debugapi.NewSource(ask, &virtualClock{now: before}), err
}

// goOn makes a loop that goes on from a moment on a copy, and whose calls are not answered.
func goOn(
	moment *scheduler.Moment, setting *Setting, configuration []byte, at time.Time, decided func(model.Decision),
) (*scheduler.Scheduler, error) {
	profile, err := setting.Profile(configuration)
	if err != nil {
		return nil, err
	}
	state := cluster.Restore(moment.Contents, profile.Translators())
	if configuration != nil {
		state.Configure(profile.Translators(), profile.MaxGrace(), profile.SourcesOff...)
	}
	setting.Show(state)
	loop := scheduler.New(state, commit.New(commit.Options{}), profile, unanswered{}, scheduler.NewMailbox(), scheduler.Options{
		Clock: &virtualClock{now: at}, Decided: decided,
	})
	loop.GoOn(moment)
	return loop, nil
}

// Difference says in what a copy of the cluster decides otherwise than the loop has, at a moment at which the loop has nothing
// left to decide: a piece of its memory is then missing in the copy, or what the plugins read is newer there. It is empty where
// the copy decides the same, and where the moment does not tell.
func Difference(ctx context.Context, moment *scheduler.Moment, setting *Setting) (string, error) {
	if moment.Waiting == nil {
		return "", nil
	}
	decisions, refusals, err := Replay(ctx, moment, setting, nil, moment.Contents.At)
	if err != nil {
		return "", err
	}
	if len(decisions) > 0 {
		return decisions[0].Job.Describe() + " waits, and has its turn in the copy", nil
	}
	for _, refused := range []iter.Seq[model.JobKey]{maps.Keys(moment.Waiting), maps.Keys(refusals)} {
		for _, job := range slices.SortedFunc(refused, model.JobKey.Compare) {
			var inCopy model.Code
			if refusal := refusals[job]; refusal != nil {
				inCopy = refusal.Code
			}
			if live := moment.Waiting[job]; live != inCopy {
				return fmt.Sprintf("%s waits for %q, and in the copy for %q", job.Describe(), live, inCopy), nil
			}
		}
	}
	return "", nil
}

// unanswered sends nothing.
type unanswered struct{}

func (unanswered) Send(commit.Call) {}
