package engine

import (
	"time"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// PluginTimer measures the plugins of a session. Nothing is decided by what it reads, and neither plugins nor actions see it.
type PluginTimer struct {
	// Now reads the time.
	Now func() time.Time
	// Plugin receives, when the session closes, how long all calls of one plugin at one extension point took together, looks at
	// single nodes included. That costs a look at the clock with each of them: it is for one session in many. Nil measures no
	// plugin.
	Plugin func(name, point string, took time.Duration)
}

// pluginPoint is what is measured of plugins.
type pluginPoint struct {
	plugin string
	point  config.ExtensionPoint
}

// reservePoint is where plugins set things aside, at which none can be disabled.
const reservePoint config.ExtensionPoint = "reserve"

// newTimings returns an empty table when plugins are measured, else nil.
func (w *PluginTimer) newTimings() map[pluginPoint]time.Duration {
	if w == nil || w.Plugin == nil {
		return nil
	}
	return map[pluginPoint]time.Duration{}
}

// start returns when a plugin began to answer; zero when it is not measured.
func (s *Session) start() time.Time {
	if s.pluginTimings == nil {
		return time.Time{}
	}
	return s.options.Stopwatch.Now()
}

// stop counts the time since the start.
func (s *Session) stop(plugin framework.Plugin, point config.ExtensionPoint, start time.Time) {
	if s.pluginTimings != nil {
		s.pluginTimings[pluginPoint{plugin.Name(), point}] += s.options.Stopwatch.Now().Sub(start)
	}
}

// reportTimings hands over what was measured of plugins.
func (s *Session) reportTimings() {
	for lap, took := range s.pluginTimings {
		s.options.Stopwatch.Plugin(lap.plugin, string(lap.point), took)
	}
}

// timedChecks makes checks count the time that they take. They hold until the session closes, as those that they are made of.
func (s *Session) timedChecks(filter framework.NodeFilter, checks []framework.NodeFilterFunc) []framework.NodeFilterFunc {
	if s.pluginTimings == nil {
		return checks
	}
	timed := make([]framework.NodeFilterFunc, len(checks))
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
func (s *Session) timedScores(scorer framework.NodeScorer, scores []framework.NodeScore) []framework.NodeScore {
	if s.pluginTimings == nil {
		return scores
	}
	timed := make([]framework.NodeScore, len(scores))
	for i, score := range scores {
		timed[i] = score
		timed[i].Score = func(node *model.Node) int64 {
			start := s.start()
			raw := score.Score(node)
			s.stop(scorer, config.NodeScore, start)
			return raw
		}
	}
	return timed
}

// timedPicker is a picker that counts the time it takes.
type timedPicker struct {
	framework.VictimFilter
	session *Session
}

// FilterVictims asks the picker.
func (p timedPicker) FilterVictims(preemptor *model.Job, units []framework.EvictionUnit) (picked []framework.EvictionUnit, decided bool) {
	start := p.session.start()
	picked, decided = p.VictimFilter.FilterVictims(preemptor, units)
	p.session.stop(p, config.Victims, start)
	return picked, decided
}

// pickers are the plugins that are asked for victims.
func (s *Session) pickers() [][]framework.VictimFilter {
	if s.pluginTimings == nil {
		return s.slots.victims
	}
	tiers := make([][]framework.VictimFilter, len(s.slots.victims))
	for i, tier := range s.slots.victims {
		for _, picker := range tier {
			tiers[i] = append(tiers[i], timedPicker{picker, s})
		}
	}
	return tiers
}
