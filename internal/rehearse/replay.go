package rehearse

import (
	"context"
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

// unanswered sends nothing.
type unanswered struct{}

func (unanswered) Send(commit.Call) {}
