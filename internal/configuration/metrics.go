package configuration

import "github.com/tutti-sched/tutti/internal/metrics"

// The results of a new version.
const (
	outcomeActive  = "active"
	outcomeRefused = "refused"
)

// measure shows a report in the metrics.
func measure(set metrics.Set, report Report) {
	set.Reset(metrics.ConfigurationActive)
	set.Show(metrics.ConfigurationActive, 1, report.Active.Source, report.Active.ResourceVersion, report.Active.Hash)
	set.Show(metrics.ConfigurationSince, float64(report.Since.Unix()))
	set.Show(metrics.ConfigurationRefused, metrics.Is(report.Refused != nil))
	set.Show(metrics.ConfigurationLastGood, metrics.Is(report.LastGood))
}
