package framework

import (
	"time"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Stopwatch measures the plugins of a session. Nothing is decided by what it reads, and neither plugins nor actions see it.
type Stopwatch struct {
	// Now reads the time.
	Now func() time.Time
	// Plugin receives, when the session closes, how long all calls of one plugin at one extension point took together, looks at
	// single nodes included. That costs a look at the clock with each of them: it is for one session in many. Nil measures no
	// plugin.
	Plugin func(name, point string, took time.Duration)
}

// lap is what is measured of plugins.
type lap struct {
	plugin string
	point  config.ExtensionPoint
}

// reservePoint is where plugins set things aside, at which none can be disabled.
const reservePoint config.ExtensionPoint = "reserve"

// laps returns an empty table when plugins are measured, else nil.
func (w *Stopwatch) laps() map[lap]time.Duration {
	if w == nil || w.Plugin == nil {
		return nil
	}
	return map[lap]time.Duration{}
}

// start returns when a plugin began to answer; zero when nobody measures it.
func (s *Session) start() time.Time {
	if s.laps == nil {
		return time.Time{}
	}
	return s.options.Stopwatch.Now()
}

// stop counts the time since the start.
func (s *Session) stop(plugin Plugin, point config.ExtensionPoint, start time.Time) {
	if s.laps != nil {
		s.laps[lap{plugin.Name(), point}] += s.options.Stopwatch.Now().Sub(start)
	}
}

// tellLaps hands over what was measured of plugins.
func (s *Session) tellLaps() {
	for lap, took := range s.laps {
		s.options.Stopwatch.Plugin(lap.plugin, string(lap.point), took)
	}
}

// timedChecks makes checks count the time that they take. They hold until the session closes, as those that they are made of.
func (s *Session) timedChecks(filter NodeFilter, checks []NodeCheck) []NodeCheck {
	if s.laps == nil {
		return checks
	}
	timed := make([]NodeCheck, len(checks))
	for i, check := range checks {
		timed[i] = func(node *model.Node) *model.Refusal {
			start := s.start()
			refusal := check(node)
			s.stop(filter, config.NodeFilter, start)
			return refusal
		}
	}
	return timed
}

// timedScores is timedChecks for scores.
func (s *Session) timedScores(scorer NodeScorer, scores []NodeScore) []NodeScore {
	if s.laps == nil {
		return scores
	}
	timed := make([]NodeScore, len(scores))
	for i, score := range scores {
		timed[i] = score
		timed[i].Raw = func(node *model.Node) int64 {
			start := s.start()
			raw := score.Raw(node)
			s.stop(scorer, config.NodeScore, start)
			return raw
		}
	}
	return timed
}

// timedPicker is a picker that counts the time it takes.
type timedPicker struct {
	VictimPicker
	session *Session
}

// PickVictims asks the picker.
func (p timedPicker) PickVictims(preemptor *model.Job, units []Unit) (picked []Unit, decided bool) {
	start := p.session.start()
	picked, decided = p.VictimPicker.PickVictims(preemptor, units)
	p.session.stop(p, config.Victims, start)
	return picked, decided
}

// pickers are who is asked for victims.
func (s *Session) pickers() [][]VictimPicker {
	if s.laps == nil {
		return s.slots.victims
	}
	tiers := make([][]VictimPicker, len(s.slots.victims))
	for i, tier := range s.slots.victims {
		for _, picker := range tier {
			tiers[i] = append(tiers[i], timedPicker{picker, s})
		}
	}
	return tiers
}
