package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	sigsyaml "sigs.k8s.io/yaml"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/actions"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// moment is where the story stands, for rehearsals.
func (s *environment) moment() *scheduler.Moment {
	snapshot, delays := s.state.Snapshot(s.world.now), backoff.NewDelays()
	gangs := lifecycle.New(0, delays)
	gangs.Lead(snapshot, snapshot.Now)
	return &scheduler.Moment{
		Contents: s.state.Contents(), Delays: delays, Gangs: gangs, Leading: true, Version: snapshot.Version,
		Refused: scheduler.RefusedOf(snapshot, s.refusals),
	}
}

// Moment hands over where the story stands.
func (s *environment) Moment(deliver func(*scheduler.Moment)) { deliver(s.moment()) }

// setting lets rehearsals have the plugins of the story, which does not play meanwhile.
func (s *environment) setting() *rehearse.Setting {
	return &rehearse.Setting{
		Profile: func(text []byte) (*engine.Profile, error) {
			if text == nil {
				text = s.configuration
			}
			catalogue := engine.Registry{Actions: actions.BuiltIn(), Plugins: append(plugins.BuiltIn(s.kube), s.extra...)}
			configuration, _, err := config.Decode("what-if", text, catalogue.Names())
			if err != nil {
				return nil, err
			}
			return catalogue.Build(configuration)
		},
		Show:  func(state *cluster.State) { s.view.SharedLister = state.View() },
		Reset: s.focus,
	}
}

// ask answers a question, which is written as the endpoint reads it, in YAML.
func (s *environment) ask(text string) (string, error) {
	if err := s.open(); err != nil {
		return "", err
	}
	var question debugapi.Question
	if err := sigsyaml.UnmarshalStrict([]byte(text), &question); err != nil {
		return "", err
	}
	before := s.state.Snapshot(s.world.now).Digest()
	answer, err := rehearse.NewDesk(s, s.setting(), stillClock{}).Ask(context.Background(), &question)
	if after := s.state.Snapshot(s.world.now).Digest(); after != before {
		return "", fmt.Errorf("the question has changed the cluster: %s, and %s before", after, before)
	}
	if err != nil {
		return "refused: " + err.Error(), nil
	}
	var b strings.Builder
	table := answer.Table()
	for _, row := range table.Rows {
		for i, cell := range row.Cells {
			if i > 0 {
				b.WriteString(" | ")
			}
			fmt.Fprint(&b, cell)
		}
		b.WriteByte('\n')
	}
	b.WriteString(strings.Join(table.Notes, "\n"))
	return b.String(), nil
}

// advise looks for what would let the jobs start that the last cycle refused.
func (s *environment) advise() (string, error) {
	before, moment := s.state.Snapshot(s.world.now).Digest(), s.moment()
	advice, err := rehearse.Advise(moment, s.setting(), moment.Refused, func() bool { return false })
	if err != nil {
		return "", err
	}
	if after := s.state.Snapshot(s.world.now).Digest(); after != before {
		return "", fmt.Errorf("advice has changed the cluster: %s, and %s before", after, before)
	}
	var b strings.Builder
	for _, of := range moment.Refused {
		if known := advice[of.Key]; known != nil {
			fmt.Fprintf(&b, "%s: %s\n", of.Key.Describe(), known.Message)
		} else {
			fmt.Fprintf(&b, "%s: nothing is known\n", of.Key.Describe())
		}
	}
	return b.String(), nil
}

// stillClock is one in which questions take no time.
type stillClock struct{}

func (stillClock) Now() time.Time                { return time.Unix(0, 0) }
func (stillClock) Since(time.Time) time.Duration { return 0 }
