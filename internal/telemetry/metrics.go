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

// Metrics are the loop's measurements. A nil *Metrics drops them. The loop's goroutine owns them.
type Metrics struct {
	cycle, action, plugin, bind, gangWait, podWait                 *prometheus.HistogramVec
	failing, leading, paused, restart, build                       *prometheus.GaugeVec
	refusals, decisions, outcomes, evictions, reclaimed, conflicts *prometheus.CounterVec
	panics                                                         *prometheus.CounterVec
	step, running, extender, prepare                               *prometheus.HistogramVec
	started, preferred, evictedGroups, searchCut                   *prometheus.CounterVec
	calls                                                          calls

	// cycles counts the cycles, for what is measured in some of them only. last is the address of the refusals that were counted
	// last: a cycle that had nothing to decide returns the same map.
	cycles uint64
	last   uintptr
}

// pluginInterval is in one cycle of how many plugins are measured: it costs two readings of the clock for each node evaluation.
const pluginInterval = 16

// New makes the measurements and registers them. It returns an error when a name is taken.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		cycle: metrics.NewHistogram(metrics.CycleSeconds), action: metrics.NewHistogram(metrics.ActionSeconds),
		plugin: metrics.NewHistogram(metrics.PluginSeconds), bind: metrics.NewHistogram(metrics.BindSeconds),
		gangWait: metrics.NewHistogram(metrics.GangWaitSeconds), podWait: metrics.NewHistogram(metrics.PodWaitSeconds),
		failing: metrics.NewGauge(metrics.CycleFailing),
		leading: metrics.NewGauge(metrics.Leading), paused: metrics.NewGauge(metrics.Paused),
		restart: metrics.NewGauge(metrics.RestartNeeded), build: metrics.NewGauge(metrics.Build),
		refusals: metrics.NewCounter(metrics.Refusals), decisions: metrics.NewCounter(metrics.Decisions),
		outcomes: metrics.NewCounter(metrics.Outcomes), evictions: metrics.NewCounter(metrics.Evictions), reclaimed: metrics.NewCounter(metrics.Reclaimed),
		conflicts: metrics.NewCounter(metrics.Conflicts), panics: metrics.NewCounter(metrics.Quarantined),
		step: metrics.NewHistogram(metrics.StepSeconds), running: metrics.NewHistogram(metrics.StartToRunning),
		extender: metrics.NewHistogram(metrics.ExtenderSeconds), prepare: metrics.NewHistogram(metrics.PrepareSeconds),
		started: metrics.NewCounter(metrics.StartedGangs), evictedGroups: metrics.NewCounter(metrics.EvictedGroups),
		searchCut: metrics.NewCounter(metrics.SearchCut), preferred: metrics.NewCounter(metrics.PreferredStarts),
		calls: newCalls(),
	}
	for _, collector := range m.all() {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	for _, gauge := range []*prometheus.GaugeVec{m.failing, m.leading, m.paused} { // there from the start
		gauge.WithLabelValues().Set(0)
	}
	for _, cause := range []string{"version", "device-taint-rules", "queues"} {
		m.RestartNeeded(cause, false)
	}
	m.build.WithLabelValues(version.Number()).Set(1)
	return m, nil
}

func (m *Metrics) all() []prometheus.Collector {
	return append(m.calls.all(),
		m.cycle, m.action, m.plugin, m.bind, m.gangWait, m.podWait, m.failing, m.leading, m.paused, m.restart, m.build, m.refusals, m.decisions,
		m.outcomes, m.evictions, m.reclaimed, m.conflicts, m.panics, m.step, m.running, m.extender, m.prepare, m.started, m.preferred, m.evictedGroups, m.searchCut,
	)
}

// Expect makes the counts of a profile's actions, plugins and levels, at zero: no alert fires on the first value of a series.
// It measures the calls of its plugins to other processes by that clock.
func (m *Metrics) Expect(profile *engine.Profile, now func() time.Time) {
	if m == nil {
		return
	}
	profile.MeasureCalls(&framework.CallTimer{Now: now, Observe: func(callee, verb, result string, took time.Duration) {
		m.extender.WithLabelValues(callee, verb, result).Observe(took.Seconds())
	}})
	for _, name := range profile.Names() {
		m.panics.WithLabelValues(name)
	}
	for _, tree := range profile.Topologies {
		for _, level := range tree.Levels {
			m.preferred.WithLabelValues(level.Name, resultMet)
			m.preferred.WithLabelValues(level.Name, resultUnmet)
		}
	}
}

// Stopwatch returns what measures the next session, nil when nothing does.
func (m *Metrics) Stopwatch(now func() time.Time) *engine.PluginTimer {
	if m == nil {
		return nil
	}
	watch := &engine.PluginTimer{Now: now}
	if m.cycles%pluginInterval == 0 {
		watch.Plugin = func(name, point string, took time.Duration) {
			m.plugin.WithLabelValues(name, point).Observe(took.Seconds())
		}
	}
	m.cycles++
	return watch
}

// Cycled counts a cycle, its actions and its refusals.
func (m *Metrics) Cycled(cycle *debugapi.Cycle, actions []engine.Action, refusals map[model.JobKey]*model.Refusal) {
	if m == nil {
		return
	}
	m.cycle.WithLabelValues().Observe(cycle.Took.Seconds())
	for _, part := range cycle.Parts {
		if slices.ContainsFunc(actions, func(action engine.Action) bool { return action.Name() == part.Name }) {
			m.action.WithLabelValues(part.Name).Observe(part.Took.Seconds())
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
		m.refusals.WithLabelValues(string(code)).Add(float64(n))
	}
}

// Decided counts what a decision consists of.
func (m *Metrics) Decided(decision *model.Decision) {
	if m == nil {
		return
	}
	count := func(kind string, n int) {
		if n > 0 {
			m.decisions.WithLabelValues(kind).Add(float64(n))
		}
	}
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

// Conflict counts pods that hold isolated CPUs which they should not.
func (m *Metrics) Conflict(kind string) {
	if m == nil {
		return
	}
	m.conflicts.WithLabelValues(kind).Inc()
}

// Outcome counts what has become final of a decision; created is when its pod was created, zero when that is not known.
func (m *Metrics) Outcome(outcome *commit.Outcome, created, now time.Time) {
	if m == nil {
		return
	}
	m.outcomes.WithLabelValues(outcome.Kind.String()).Inc()
	switch outcome.Kind {
	case commit.Bound:
		m.bind.WithLabelValues().Observe(outcome.Duration.Seconds())
		if !created.IsZero() {
			m.podWait.WithLabelValues().Observe(max(0, now.Sub(created)).Seconds())
		}
	case commit.Evicted:
		if !outcome.PodGone {
			m.evictions.WithLabelValues(causeOf(outcome.Right)).Inc()
			if outcome.Right != "" {
				m.reclaimed.WithLabelValues(string(outcome.Right)).Inc()
			}
		}
	case commit.VictimsGone:
		cause := causePreemption
		if len(outcome.Victims) > 0 {
			cause = causeOf(outcome.Victims[0].Right)
		}
		m.evictedGroups.WithLabelValues(cause).Add(float64(groupsOf(outcome.Victims)))
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

// Undone counts a group of which so many pods are deleted.
func (m *Metrics) Undone(cause string, pods int) {
	if m != nil {
		m.evictions.WithLabelValues(cause).Add(float64(pods))
		m.evictedGroups.WithLabelValues(cause).Inc()
	}
}

// Running counts a PodGroup whose minimum runs, so long after it was bound.
func (m *Metrics) Running(after time.Duration) {
	if m != nil {
		m.running.WithLabelValues().Observe(max(0, after).Seconds())
	}
}

// Stepped counts a step of the loop.
func (m *Metrics) Stepped(took time.Duration) {
	if m != nil {
		m.step.WithLabelValues().Observe(took.Seconds())
	}
}

// SearchCut counts a search of an action that ended because the work of the cycle was used up.
func (m *Metrics) SearchCut(action string) {
	if m != nil {
		m.searchCut.WithLabelValues(action).Inc()
	}
}

// Preparer returns a Preparer that measures another one by that clock.
func (m *Metrics) Preparer(preparer commit.Preparer, clock clock.PassiveClock) commit.Preparer {
	return measuredPreparer{preparer, m.prepare, clock}
}

type measuredPreparer struct {
	commit.Preparer
	seconds *prometheus.HistogramVec
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
	p.seconds.WithLabelValues(kind).Observe(p.clock.Since(began).Seconds())
}

// Started counts a gang whose minimum is bound for the first time.
func (m *Metrics) Started(job *model.Job, now time.Time) {
	if m == nil {
		return
	}
	m.started.WithLabelValues().Inc()
	since := job.Created
	if needed := int(job.MinMember) - 1; needed >= 0 && needed < len(job.Tasks) && job.Tasks[needed].Created.After(since) {
		since = job.Tasks[needed].Created // tasks are in the order in which they were created
	}
	m.gangWait.WithLabelValues().Observe(max(0, now.Sub(since)).Seconds())
}

// Preferred counts a gang whose minimum is bound for the first time, and that prefers to be in one domain of a level: met reports
// that it is.
func (m *Metrics) Preferred(level string, met bool) {
	if m == nil {
		return
	}
	if met {
		m.preferred.WithLabelValues(level, resultMet).Inc()
	} else {
		m.preferred.WithLabelValues(level, resultUnmet).Inc()
	}
}

// The results of a preference.
const (
	resultMet   = "met"
	resultUnmet = "unmet"
)

// Panicked counts a recovered panic, by where it happened.
func (m *Metrics) Panicked(where string) {
	if m != nil {
		m.panics.WithLabelValues(where).Inc()
	}
}

// Lead records that this replica leads.
func (m *Metrics) Lead() {
	if m != nil {
		m.leading.WithLabelValues().Set(1)
	}
}

// Paused records whether the scheduler is paused.
func (m *Metrics) Paused(paused bool) {
	if m != nil {
		m.paused.WithLabelValues().Set(number(paused))
	}
}

// RestartNeeded records whether a restart is needed for that cause. Any goroutine may call it.
func (m *Metrics) RestartNeeded(cause string, needed bool) {
	m.restart.WithLabelValues(cause).Set(number(needed))
}

// number is 1 for true.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Failing records whether the last cycle failed as a whole.
func (m *Metrics) Failing(failing bool) {
	if m != nil {
		m.failing.WithLabelValues().Set(number(failing))
	}
}
