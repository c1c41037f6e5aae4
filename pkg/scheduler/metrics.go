package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tutti-sched/tutti/pkg/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Metrics are the loop's measurements. A nil *Metrics drops them.
type Metrics struct {
	cycles   prometheus.Histogram
	waiting  *prometheus.GaugeVec
	outcomes *prometheus.CounterVec
	// conflicts has the name that the agent's measurements begin with, too.
	conflicts *prometheus.CounterVec
	panics    *prometheus.CounterVec
	failing   prometheus.Gauge
}

// NewMetrics makes the measurements and registers them. It returns an error when a name is taken.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		cycles: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tutti_cycle_duration_seconds",
			Help:    "How long a scheduling cycle took, from the snapshot to the last decision.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tutti_waiting_jobs",
			Help: "Jobs that the last cycle refused, by reason code.",
		}, []string{"reason"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tutti_outcomes_total",
			Help: "What became of decisions and writes, by outcome; Committed and Cleared count whole decisions, the others single pods.",
		}, []string{"outcome"}),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isolcpu_conflicts_total",
			Help: "Bound pods that came to hold isolated CPUs which they should not have, or lack those they asked for, by kind.",
		}, []string{"kind"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tutti_quarantined_total",
			Help: "Panics that were caught, by the plugin or action they came from; cluster is for objects that could not be read.",
		}, []string{"where"}),
		failing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tutti_cycle_failing",
			Help: "1 when the last cycle ended before all jobs had their turn, because of a panic that could not be laid on one job.",
		}),
	}
	for _, collector := range []prometheus.Collector{m.cycles, m.waiting, m.outcomes, m.panics, m.failing, m.conflicts} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) cycle(took time.Duration, refusals map[model.JobKey]*model.Refusal) {
	if m == nil {
		return
	}
	m.cycles.Observe(took.Seconds())
	m.waiting.Reset()
	for _, refusal := range refusals {
		m.waiting.WithLabelValues(string(refusal.Code)).Inc()
	}
}

func (m *Metrics) conflict(kind string) {
	if m == nil {
		return
	}
	m.conflicts.WithLabelValues(kind).Inc()
}

func (m *Metrics) outcome(outcome commit.Outcome) {
	if m == nil {
		return
	}
	m.outcomes.WithLabelValues(outcome.Kind.String()).Inc()
}

func (m *Metrics) panicked(where string) {
	if m != nil {
		m.panics.WithLabelValues(where).Inc()
	}
}

func (m *Metrics) failed(failing bool) {
	switch {
	case m == nil:
	case failing:
		m.failing.Set(1)
	default:
		m.failing.Set(0)
	}
}
