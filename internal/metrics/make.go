package metrics

import "github.com/prometheus/client_golang/prometheus"

// Set is metrics of the table, by name: one collector for a registry. The nil Set drops what it is given. Another one panics at a
// name that it does not have, or a value for another kind of metric: a mistake in the code.
type Set map[Name]prometheus.Collector

// Make makes metrics of the table: counters and gauges at zero for the known values of their label. A counter without labels
// starts at zero, too; such a gauge has no series before its first value, since its value is not known.
func Make(rows []Metric) Set {
	set := Set{}
	for i := range rows {
		row := &rows[i]
		names := make([]string, len(row.Labels))
		for i, label := range row.Labels {
			names[i] = label.Name
		}
		switch row.Kind {
		case Counter:
			counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: string(row.Name), Help: row.Help}, names)
			if len(names) == 0 {
				counter.WithLabelValues()
			}
			row.eachKnown(func(value string) { counter.WithLabelValues(value) })
			set[row.Name] = counter
		case Gauge:
			gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: string(row.Name), Help: row.Help}, names)
			row.eachKnown(func(value string) { gauge.WithLabelValues(value) })
			set[row.Name] = gauge
		case Histogram:
			set[row.Name] = prometheus.NewHistogramVec(
				prometheus.HistogramOpts{Name: string(row.Name), Help: row.Help, Buckets: row.Buckets}, names)
		}
	}
	return set
}

// eachKnown calls a function with each value of the label that exists from the start.
func (m *Metric) eachKnown(begin func(value string)) {
	for _, label := range m.Labels {
		for _, value := range label.Known {
			begin(value)
		}
	}
}

// Count adds to a counter.
func (s Set) Count(name Name, n float64, labels ...string) {
	if s != nil {
		s[name].(*prometheus.CounterVec).WithLabelValues(labels...).Add(n)
	}
}

// Show sets a gauge.
func (s Set) Show(name Name, value float64, labels ...string) {
	if s != nil {
		s[name].(*prometheus.GaugeVec).WithLabelValues(labels...).Set(value)
	}
}

// Observe adds a value to a histogram.
func (s Set) Observe(name Name, value float64, labels ...string) {
	if s != nil {
		s[name].(*prometheus.HistogramVec).WithLabelValues(labels...).Observe(value)
	}
}

// Reset takes all values out of a gauge.
func (s Set) Reset(name Name) {
	if s != nil {
		s[name].(*prometheus.GaugeVec).Reset()
	}
}

// Describe is for the registry.
func (s Set) Describe(out chan<- *prometheus.Desc) {
	for _, collector := range s {
		collector.Describe(out)
	}
}

// Collect is for the registry.
func (s Set) Collect(out chan<- prometheus.Metric) {
	for _, collector := range s {
		collector.Collect(out)
	}
}

// Is returns the value of a gauge that is 1 or 0.
func Is(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
