package metrics

import (
	"fmt"
	"strings"
)

// Markdown returns docs/metrics.md.
func Markdown() string {
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
	section(&b, "The scheduler", "", func(m *Metric) bool { return m.Program == Scheduler && m.Of == "" })
	section(&b, "Under kube-batch's names", `
For dashboards made for kube-batch or Volcano. They say what those above say; units and buckets are as the names promise. What
kube-batch labels with the names of jobs is left out.
`, func(m *Metric) bool { return m.Of != "" })
	section(&b, "The agent on nodes with isolated CPUs", "", func(m *Metric) bool { return m.Program == Agent })
	return b.String()
}

func section(b *strings.Builder, title, text string, belongs func(*Metric) bool) {
	fmt.Fprintf(b, "\n## %s\n%s\n| name | | labels | |\n|---|---|---|---|\n", title, text)
	for _, m := range Table() {
		if !belongs(&m) {
			continue
		}
		labels := make([]string, len(m.Labels))
		for i, label := range m.Labels {
			labels[i] = fmt.Sprintf("`%s`: %s", label.Name, label.Values)
		}
		says := m.Help
		if m.Of != "" {
			says += fmt.Sprintf(" See `%s`.", m.Of)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(labels, "; "), says)
	}
}
