// Package telemetry measures the scheduler's loop, for Prometheus. internal/metrics says what each measurement means; the
// loop says what happened. Nothing is decided by a measurement.
package telemetry

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/version"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Metrics are the loop's measurements, which its goroutine owns. The zero Metrics drop them.
type Metrics struct {
	metrics.Set
	// cycles counts the cycles, for what is measured in some of them only. last is the address of the refusals that were counted
	// last: a cycle that had nothing to decide returns the same map.
	cycles uint64
	last   uintptr
}

// pluginInterval is in one cycle of how many plugins are measured: it costs two readings of the clock for each node evaluation.
const pluginInterval = 16

// New makes the measurements and registers them. It returns an error when a name is taken.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{Set: metrics.Make(metrics.Loop())}
	m.Show(metrics.Build, 1, version.Number())
	for _, known := range []metrics.Name{metrics.CycleFailing, metrics.Leading, metrics.Paused} {
		m.Show(known, 0)
	}
	return m, registry.Register(m)
}

// Expect makes the counts of a profile's actions, plugins and levels, at zero: no alert fires on the first value of a series.
// It measures the calls of its plugins to other processes by that clock.
func (m *Metrics) Expect(profile *engine.Profile, now func() time.Time) {
	if m.Set == nil {
		return
	}
	profile.MeasureCalls(&framework.CallTimer{Now: now, Observe: func(callee, verb, result string, took time.Duration) {
		m.Observe(metrics.ExtenderSeconds, took.Seconds(), callee, verb, result)
	}})
	for _, name := range profile.Names() {
		m.Count(metrics.Quarantined, 0, name)
	}
	for _, tree := range profile.Topologies {
		for _, level := range tree.Levels {
			m.Count(metrics.PreferredStarts, 0, level.Name, resultMet)
			m.Count(metrics.PreferredStarts, 0, level.Name, resultUnmet)
		}
	}
}

// Stopwatch returns what measures the next session, nil when nothing does.
func (m *Metrics) Stopwatch(now func() time.Time) *engine.PluginTimer {
	if m.Set == nil {
		return nil
	}
	watch := &engine.PluginTimer{Now: now}
	if m.cycles%pluginInterval == 0 {
		watch.Plugin = func(name, point string, took time.Duration) {
			m.Observe(metrics.PluginSeconds, took.Seconds(), name, point)
		}
	}
	m.cycles++
	return watch
}

// Cycled counts a cycle, its actions and its refusals.
func (m *Metrics) Cycled(cycle *debugapi.Cycle, actions []engine.Action, refusals map[model.JobKey]*model.Refusal) {
	m.Observe(metrics.CycleSeconds, cycle.Took.Seconds())
	for _, part := range cycle.Parts {
		if slices.ContainsFunc(actions, func(action engine.Action) bool { return action.Name() == part.Name }) {
			m.Observe(metrics.ActionSeconds, part.Took.Seconds(), part.Name)
		}
	}
	address := reflect.ValueOf(refusals).Pointer()
	if address == m.last {
		return
	}
	m.last = address
	counts := map[model.Code]int{}
	for _, refusal := range refusals {
		counts[refusal.Code]++
	}
	for code, n := range counts {
		m.Count(metrics.Refusals, float64(n), string(code))
	}
}

// Decided counts what a decision consists of.
func (m *Metrics) Decided(decision *model.Decision) {
	count := func(kind string, n int) { m.Count(metrics.Decisions, float64(n), kind) }
	back := 0
	for _, nomination := range decision.Nominations {
		if nomination.Releases() {
			back++
		}
	}
	count("bind", len(decision.Binds))
	count("evict", len(decision.Evictions))
	count("nominate", len(decision.Nominations)-back)
	count("release-nomination", back)
	if decision.Reservation != nil {
		count("reserve", 1)
	}
}

// Outcome counts what has become final of a decision; created is when its pod was created, zero when that is not known.
func (m *Metrics) Outcome(outcome *commit.Outcome, created, now time.Time) {
	m.Count(metrics.Outcomes, 1, outcome.Kind.String())
	switch outcome.Kind {
	case commit.Bound:
		m.Observe(metrics.BindSeconds, outcome.Duration.Seconds())
		if !created.IsZero() {
			m.Observe(metrics.PodWaitSeconds, max(0, now.Sub(created)).Seconds())
		}
	case commit.Evicted:
		if !outcome.PodGone {
			m.Count(metrics.Evictions, 1, causeOf(outcome.Right))
			if outcome.Right != "" {
				m.Count(metrics.Reclaimed, 1, string(outcome.Right))
			}
		}
	case commit.VictimsGone:
		cause := causePreemption
		if len(outcome.Victims) > 0 {
			cause = causeOf(outcome.Victims[0].Right)
		}
		m.Count(metrics.EvictedGroups, float64(groupsOf(outcome.Victims)), cause)
	}
}

// Why pods are evicted for a job, as metrics name it: one of their queue, or of another one.
const (
	causePreemption = "preemption"
	causeReclaim    = "reclaim"
)

func causeOf(right model.Right) string {
	if right != "" {
		return causeReclaim
	}
	return causePreemption
}

// groupsOf returns of how many groups pods are evicted.
func groupsOf(victims []model.Eviction) int {
	groups := map[model.JobKey]bool{}
	for i := range victims {
		if job := victims[i].Job; job != (model.JobKey{}) && !job.IsPod() {
			groups[job] = true
		}
	}
	return len(groups)
}

// Preparer returns a Preparer that measures another one by that clock.
func (m *Metrics) Preparer(preparer commit.Preparer, clock clock.PassiveClock) commit.Preparer {
	return measuredPreparer{preparer, m, clock}
}

type measuredPreparer struct {
	commit.Preparer
	metrics *Metrics
	clock   clock.PassiveClock
}

// Prepare measures how long the writing of what is reserved takes, whatever comes of it.
func (p measuredPreparer) Prepare(ctx context.Context, pod types.UID) error {
	defer p.observe("prepare", p.clock.Now())
	return p.Preparer.Prepare(ctx, pod)
}

// Release measures how long the release takes.
func (p measuredPreparer) Release(ctx context.Context, pod types.UID) error {
	defer p.observe("release", p.clock.Now())
	return p.Preparer.Release(ctx, pod)
}

func (p measuredPreparer) observe(kind string, began time.Time) {
	p.metrics.Observe(metrics.PrepareSeconds, p.clock.Since(began).Seconds(), kind)
}

// Started counts a gang whose minimum is bound for the first time.
func (m *Metrics) Started(job *model.Job, now time.Time) {
	m.Count(metrics.StartedGangs, 1)
	since := job.Created
	if needed := int(job.MinMember) - 1; needed >= 0 && needed < len(job.Tasks) && job.Tasks[needed].Created.After(since) {
		since = job.Tasks[needed].Created // tasks are in the order in which they were created
	}
	m.Observe(metrics.GangWaitSeconds, max(0, now.Sub(since)).Seconds())
}

// Preferred counts a gang whose minimum is bound for the first time, and that prefers to be in one domain of a level: met reports
// that it is.
func (m *Metrics) Preferred(level string, met bool) {
	result := resultUnmet
	if met {
		result = resultMet
	}
	m.Count(metrics.PreferredStarts, 1, level, result)
}

// The results of a preference.
const (
	resultMet   = "met"
	resultUnmet = "unmet"
)

// Calls counts what the commit machine has done since the last call, and shows what it has to do.
func (m *Metrics) Calls(machine *commit.Machine) {
	if m.Set == nil {
		return
	}
	counts := machine.TakeCounts()
	for answer, n := range counts.Answers {
		m.Count(metrics.APICalls, float64(n), answer.Kind.String(), answer.Code)
	}
	m.Count(metrics.APICallsPaused, counts.Paused.Seconds(), "all")
	m.Count(metrics.APICallsPaused, counts.WritesPaused.Seconds(), "writes")
	m.Count(metrics.EventsDropped, float64(counts.DroppedEvents))
	m.Show(metrics.APICallsInFlight, float64(counts.InFlight))
	for kind, length := range counts.Queued {
		m.Show(metrics.APICallsQueued, float64(length), commit.Kind(kind).String())
	}
}
