package main

import (
	"fmt"
	"strings"

	"github.com/tutti-sched/tutti/internal/metrics"
)

// markdown returns docs/metrics.md.
func markdown() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Written by "make generate" from internal/metrics/table.go. -->

The scheduler and the agent serve them at ` + "`/metrics`" + `: the scheduler by HTTPS, to accounts in ` + "`metrics.readers`" + `; the agent
by HTTP, to every client that the network lets through. No label names a pod, a job or a namespace of users. The chart brings a
dashboard for Grafana, [alerts](operations.md#alerts), a ServiceMonitor and, for the agents, a PodMonitor; see ` + "`metrics`" + ` and
` + "`isolcpu.agent.podMonitor`" + ` in its values.

A histogram is scraped as ` + "`NAME_bucket`, `NAME_count` and `NAME_sum`" + `; the unit is in its name. Each replica of the scheduler
has numbers of its own. Only the one that leads counts decisions, and only it has the gauges of jobs, pods and held capacity,
which are counted when they are scraped.

Of the libraries they serve ` + "`go_*` and `process_*`" + ` too, the scheduler also ` + "`rest_client_*`" + `: its requests to the API server
by method, host and code.
`)
	section(&b, "The scheduler", metrics.Scheduler())
	section(&b, "The agent on nodes with isolated CPUs", metrics.Agent())
	return b.String()
}

func section(b *strings.Builder, title string, rows []metrics.Metric) {
	fmt.Fprintf(b, "\n## %s\n", title)
	for _, m := range rows {
		fmt.Fprintf(b, "\n### `%s`\n\n%s. %s\n", m.Name, strings.ToUpper(string(m.Kind[:1]))+string(m.Kind[1:]), m.Help)
		for i, label := range m.Labels {
			if i == 0 {
				b.WriteString("\nLabels:\n\n")
			}
			fmt.Fprintf(b, "- `%s`: %s\n", label.Name, label.Values)
		}
	}
}
