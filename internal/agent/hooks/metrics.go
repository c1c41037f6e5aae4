package hooks

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tutti-sched/tutti/internal/metrics"
)

// Metrics are what the hooks count.
type Metrics struct {
	refused, drift   *prometheus.CounterVec
	handler          *prometheus.HistogramVec
	containers, held *prometheus.GaugeVec
}

// NewMetrics returns metrics that are registered; an error means that their names are taken.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		refused: metrics.NewCounter(metrics.AgentRefused), drift: metrics.NewCounter(metrics.AgentDrift),
		handler:    metrics.NewHistogram(metrics.AgentHandlerSeconds),
		containers: metrics.NewGauge(metrics.AgentContainers), held: metrics.NewGauge(metrics.AgentHeldCPUs),
	}
	var errs []error
	for _, metric := range []prometheus.Collector{m.refused, m.drift, m.handler, m.containers, m.held} {
		errs = append(errs, registry.Register(metric))
	}
	m.drift.WithLabelValues().Add(0) // it exists from the start, or an alert would miss its first increase
	return m, errors.Join(errs...)
}
