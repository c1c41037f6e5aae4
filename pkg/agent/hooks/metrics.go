package hooks

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what the hooks count.
type Metrics struct {
	refused          *prometheus.CounterVec
	drift            prometheus.Counter
	handler          *prometheus.HistogramVec
	containers, held prometheus.Gauge
}

// NewMetrics returns metrics that are registered; an error means that their names are taken.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "isolcpu_refused_total",
			Help: "Containers that may not run on the isolated CPUs they name, by reason.",
		}, []string{"reason"}),
		drift: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "isolcpu_enforcement_drift_total",
			Help: "Containers that were found on other CPUs than they had been put on.",
		}),
		handler: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "isolcpu_handler_seconds",
			Help:    "How long the container runtime waited for an answer, by call.",
			Buckets: []float64{.00001, .0001, .001, .005, .02, .1, .5, 2},
		}, []string{"call"}),
		containers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "isolcpu_containers", Help: "Containers of the node that may run.",
		}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "isolcpu_held_cpus", Help: "Isolated CPUs that pods of the node hold.",
		}),
	}
	var errs []error
	for _, metric := range []prometheus.Collector{m.refused, m.drift, m.handler, m.containers, m.held} {
		errs = append(errs, registry.Register(metric))
	}
	return m, errors.Join(errs...)
}
