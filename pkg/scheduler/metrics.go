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
	}
	for _, collector := range []prometheus.Collector{m.cycles, m.waiting, m.outcomes, m.conflicts} {
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
