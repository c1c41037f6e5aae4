package configuration

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tutti-sched/tutti/internal/metrics"
)

// The results of a new version.
const (
	outcomeActive  = "active"
	outcomeRefused = "refused"
)

// collectors are the metrics of the configuration. Methods of nil do nothing.
type collectors struct {
	active, since, refused, lastGood *prometheus.GaugeVec
	versions                         *prometheus.CounterVec
}

// newMeasured registers the metrics, none when there is no registry. It fails when a name is taken.
func newMeasured(registry prometheus.Registerer) (*collectors, error) {
	if registry == nil {
		return nil, nil
	}
	m := &collectors{
		active: metrics.NewGauge(metrics.ConfigurationActive), since: metrics.NewGauge(metrics.ConfigurationSince),
		refused: metrics.NewGauge(metrics.ConfigurationRefused), lastGood: metrics.NewGauge(metrics.ConfigurationLastGood),
		versions: metrics.NewCounter(metrics.ConfigurationVersions),
	}
	for _, collector := range []prometheus.Collector{m.active, m.since, m.refused, m.lastGood, m.versions} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *collectors) show(report Report) {
	if m == nil {
		return
	}
	m.active.Reset()
	m.active.WithLabelValues(report.Active.Source, report.Active.ResourceVersion, report.Active.Hash).Set(1)
	m.since.WithLabelValues().Set(float64(report.Since.Unix()))
	m.refused.WithLabelValues().Set(0)
	if report.Refused != nil {
		m.refused.WithLabelValues().Set(1)
	}
	m.lastGood.WithLabelValues().Set(0)
	if report.LastGood {
		m.lastGood.WithLabelValues().Set(1)
	}
}

func (m *collectors) count(outcome string) {
	if m != nil {
		m.versions.WithLabelValues(outcome).Inc()
	}
}
