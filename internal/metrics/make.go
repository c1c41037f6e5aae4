package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Find returns a row of the table; false when there is none of that name.
func Find(name Name) (Metric, bool) {
	table := Table()
	i := slices.IndexFunc(table, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return table[i], true
}

// NewCounter makes a counter of the table, at zero for the known values, and for a counter without labels.
func NewCounter(name Name) *prometheus.CounterVec {
	row, _ := Find(name)
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: string(name), Help: row.Help}, row.labels())
	switch len(row.Labels) {
	case 0:
		counter.WithLabelValues()
	case 1:
		for _, value := range row.Labels[0].Known {
			counter.WithLabelValues(value)
		}
	}
	return counter
}

// NewGauge makes a gauge of the table.
func NewGauge(name Name) *prometheus.GaugeVec {
	row, _ := Find(name)
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: string(name), Help: row.Help}, row.labels())
}

// NewHistogram makes a histogram of the table.
func NewHistogram(name Name) *prometheus.HistogramVec {
	row, _ := Find(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: string(name), Help: row.Help, Buckets: row.Buckets}, row.labels())
}

// labels are the names of the labels.
func (m *Metric) labels() []string {
	names := make([]string, len(m.Labels))
	for i, label := range m.Labels {
		names[i] = label.Name
	}
	return names
}

// Series returns the names under which the metric is scraped.
func (m *Metric) Series() []string {
	name := string(m.Name)
	if m.Kind == Histogram {
		return []string{name + "_bucket", name + "_count", name + "_sum"}
	}
	return []string{name}
}
