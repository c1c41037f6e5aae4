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
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Replay runs one cycle of the real loop on a copy, as the loop would after the moment: nothing is confirmed first, and nothing
// is looked for again. It returns the decisions in their order, and why other jobs wait. configuration is that of the profile;
// nil is the one in force. at is when the cycle runs. It is called by one goroutine at a time, as the functions of the setting.
func Replay(
	ctx context.Context, moment *scheduler.Moment, setting *Setting, configuration []byte, at time.Time,
) (decisions []model.Decision, refusals map[model.JobKey]*model.Refusal, err error) {
	profile, err := setting.Profile(configuration)
	if err != nil {
		return nil, nil, err
	}
	state := cluster.Restore(moment.Contents, profile.Translators())
	if configuration != nil {
		state.Configure(profile.Translators(), profile.MaxGrace(), profile.SourcesOff...)
	}
	setting.Show(state)
	defer setting.Reset()
	loop := scheduler.New(state, commit.New(commit.Options{}), profile, unanswered{}, scheduler.NewMailbox(), scheduler.Options{
		Clock: &virtualClock{now: at},
		Decided: func(decision model.Decision) {
			decision.Cycle = moment.Cycle + 1
			decisions = append(decisions, decision)
		},
	})
	loop.GoOn(moment)
	loop.Step(klog.NewContext(ctx, logr.Discard()))
	return decisions, loop.Refusals(), nil
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
