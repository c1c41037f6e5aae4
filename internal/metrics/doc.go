// Package metrics is the table of all metrics of the programs: names, labels and what they mean, in one place, from which
// docs/metrics.md is generated and by which the dashboard and the alerts are checked. It measures nothing itself: the
// packages that do make the collectors of the rows here, and register them.
//
// No label names a pod, a job or a user's namespace: a cluster has too many of them, and a series stays once it exists. Of queues
// there are fewer, and only of so many are there series.
package metrics
