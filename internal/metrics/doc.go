// Package metrics is the table of everything that the programs measure: names, labels and what they mean, in one place, from which
// docs/metrics.md is written and by which the dashboard and the alerts are checked. It measures nothing itself: whoever does makes
// the collectors of the rows here, and registers them.
//
// No label names a pod, a job or a user's namespace: a cluster has too many of them, and a series that is there once stays.
package metrics
