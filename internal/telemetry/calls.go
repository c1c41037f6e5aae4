package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/metrics"
)

// calls are the measurements of calls to the API server.
type calls struct {
	answers, paused, dropped *prometheus.CounterVec
	inFlight, queued         *prometheus.GaugeVec
}

func newCalls() calls {
	return calls{
		answers: metrics.NewCounter(metrics.APICalls), paused: metrics.NewCounter(metrics.APICallsPaused),
		dropped:  metrics.NewCounter(metrics.EventsDropped),
		inFlight: metrics.NewGauge(metrics.APICallsInFlight), queued: metrics.NewGauge(metrics.APICallsQueued),
	}
}

func (c *calls) all() []prometheus.Collector {
	return []prometheus.Collector{c.answers, c.paused, c.dropped, c.inFlight, c.queued}
}

// Calls counts what the commit machine has done since the last call, and shows what it has to do.
func (m *Metrics) Calls(machine *commit.Machine) {
	if m == nil {
		return
	}
	counts := machine.TakeCounts()
	for answer, n := range counts.Answers {
		m.calls.answers.WithLabelValues(answer.Kind.String(), answer.Code).Add(float64(n))
	}
	m.calls.paused.WithLabelValues("all").Add(counts.Paused.Seconds())
	m.calls.paused.WithLabelValues("writes").Add(counts.WritesPaused.Seconds())
	m.calls.dropped.WithLabelValues().Add(float64(counts.DroppedEvents))
	m.calls.inFlight.WithLabelValues().Set(float64(counts.InFlight))
	for kind, length := range counts.Queued {
		m.calls.queued.WithLabelValues(commit.Kind(kind).String()).Set(float64(length))
	}
}
