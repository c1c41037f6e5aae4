package configuration

import "github.com/prometheus/client_golang/prometheus"

// What may become of a version.
const (
	outcomeActive  = "active"
	outcomeRefused = "refused"
)

// measured are the measurements of the configuration; nil drops them.
type measured struct {
	active   *prometheus.GaugeVec
	since    prometheus.Gauge
	refused  prometheus.Gauge
	versions *prometheus.CounterVec
}

// newMeasured registers the measurements, none when there is no registry. It fails when a name is taken.
func newMeasured(registry prometheus.Registerer) (*measured, error) {
	if registry == nil {
		return nil, nil
	}
	m := &measured{
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tutti_configuration_info",
			Help: "1 for the version of the configuration that schedules: where it was found, the ConfigMap's resourceVersion, " +
				"and the beginning of the SHA-256 of its text.",
		}, []string{"source", "resource_version", "hash"}),
		since: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tutti_configuration_active_since_seconds",
			Help: "Since when that version schedules, in seconds since 1970.",
		}),
		refused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tutti_configuration_refused",
			Help: "1 while the newest version of the configuration is not the one that schedules, because it was refused.",
		}),
		versions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tutti_configuration_versions_total",
			Help: "Versions of the configuration that became active, the first included, or were refused, by outcome.",
		}, []string{"outcome"}),
	}
	for _, collector := range []prometheus.Collector{m.active, m.since, m.refused, m.versions} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	for _, outcome := range []string{outcomeActive, outcomeRefused} {
		m.versions.WithLabelValues(outcome)
	}
	return m, nil
}

func (m *measured) show(report Report) {
	if m == nil {
		return
	}
	m.active.Reset()
	m.active.WithLabelValues(report.Active.Source, report.Active.ResourceVersion, report.Active.Hash).Set(1)
	m.since.Set(float64(report.Since.Unix()))
	m.refused.Set(0)
	if report.Refused != nil {
		m.refused.Set(1)
	}
}

func (m *measured) count(outcome string) {
	if m != nil {
		m.versions.WithLabelValues(outcome).Inc()
	}
}
