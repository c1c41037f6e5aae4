package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Name is the name of a metric in the table.
type Name string

// The metrics of the scheduler.
const (
	CycleSeconds    Name = "tutti_cycle_duration_seconds"
	ActionSeconds   Name = "tutti_action_duration_seconds"
	PluginSeconds   Name = "tutti_plugin_duration_seconds"
	BindSeconds     Name = "tutti_bind_duration_seconds"
	GangWaitSeconds Name = "tutti_gang_wait_seconds"
	PodWaitSeconds  Name = "tutti_pod_wait_seconds"
	WaitingJobs     Name = "tutti_waiting_jobs"
	Refusals        Name = "tutti_refusals_total"
	Decisions       Name = "tutti_decisions_total"
	Outcomes        Name = "tutti_outcomes_total"
	Evictions       Name = "tutti_evictions_total"
	Reclaimed       Name = "tutti_reclaimed_pods_total"
	Quarantined     Name = "tutti_quarantined_total"
	CycleFailing    Name = "tutti_cycle_failing"
	Leading         Name = "tutti_leading"
	Paused          Name = "tutti_paused"
	RestartNeeded   Name = "tutti_restart_needed"
	Build           Name = "tutti_build_info"
	Conflicts       Name = "isolcpu_conflicts_total"
)

// The metrics of the scheduler's configuration.
const (
	ConfigurationActive   Name = "tutti_configuration_info"
	ConfigurationSince    Name = "tutti_configuration_active_since_seconds"
	ConfigurationRefused  Name = "tutti_configuration_refused"
	ConfigurationLastGood Name = "tutti_configuration_last_good"
	ConfigurationVersions Name = "tutti_configuration_versions_total"
)

// The metrics of the agent on nodes with isolated CPUs.
const (
	AgentRefused        Name = "isolcpu_refused_total"
	AgentDrift          Name = "isolcpu_enforcement_drift_total"
	AgentHandlerSeconds Name = "isolcpu_handler_seconds"
	AgentContainers     Name = "isolcpu_containers"
	AgentHeldCPUs       Name = "isolcpu_held_cpus"
)

// Kind is the type of a metric.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Label is one label of a metric, and its values.
type Label struct {
	Name, Values string
	// Known are the values that exist from the start, at zero: to Prometheus a new series is no increase, and an alert on it
	// would miss the first.
	Known []string
}

// Metric is a row of the table.
type Metric struct {
	Name Name
	Kind Kind
	// Help describes the metric; the unit is in the name.
	Help   string
	Labels []Label
	// Buckets are the upper bounds of a histogram.
	Buckets []float64
}

// Table returns all metrics, those of the scheduler first.
func Table() []Metric {
	return slices.Concat(Scheduler(), Agent())
}

// Scheduler returns the metrics of the scheduler.
func Scheduler() []Metric { return slices.Concat(Loop(), Steps(), State(), Configuration()) }

// Loop returns the metrics of what the scheduler's loop does, measured when it does it.
func Loop() []Metric { return slices.Concat(durations(), decisions(), starts(), calls()) }

// State returns the metrics of the state of the cluster, counted when they are scraped. Only the leader has them: those of two
// replicas would add up.
func State() []Metric { return slices.Concat(cluster(), queues(), domains()) }

// durations are the metrics of how long things took.
func durations() []Metric {
	return []Metric{
		{
			Name: CycleSeconds, Kind: Histogram, Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
			Help: "How long a scheduling cycle took, from the snapshot to the last decision.",
		},
		{
			Name: StepSeconds, Kind: Histogram, Buckets: prometheus.ExponentialBuckets(0.00001, 4, 13),
			Help: "How long a step of the loop took: to take in events and replies, a cycle if one is due, and to send.",
		},
		{
			Name: ActionSeconds, Kind: Histogram, Buckets: prometheus.ExponentialBuckets(0.00001, 2, 20),
			Help:   "How long an action took in a cycle.",
			Labels: []Label{{Name: "action", Values: "an action of the configuration: allocate, backfill, reclaim, preempt"}},
		},
		{
			Name: PluginSeconds, Kind: Histogram, Buckets: prometheus.ExponentialBuckets(0.000001, 4, 13),
			Help: "How long all calls of a plugin at an extension point took together in a cycle; measured in one cycle of sixteen.",
			Labels: []Label{
				{Name: "plugin", Values: "a plugin of the configuration"},
				{Name: "point", Values: "openSession, jobValid, jobGate, nodeFilter, nodeScore, reserve, victims, closeSession"},
			},
		},
		{
			Name: BindSeconds, Kind: Histogram, Buckets: prometheus.ExponentialBuckets(0.001, 2, 17),
			Help: "How long it took from the decision to bind a pod until the API server had confirmed it.",
		},
		{
			Name: GangWaitSeconds, Kind: Histogram,
			Buckets: []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800, 43200, 86400},
			Help:    "How long a gang has waited when its minimum was bound, from when that many of its members were there.",
		},
		{
			Name: PodWaitSeconds, Kind: Histogram,
			Buckets: []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800, 43200, 86400},
			Help:    "How long a pod has waited when it was bound, from its creation.",
		},
	}
}

// decisions are the scheduler's metrics of decisions and their outcomes.
func decisions() []Metric {
	return []Metric{
		{
			Name: Refusals, Kind: Counter,
			Help:   "Refusals of jobs, by reason code: one for each job that waits at the end of a cycle in which something was decided or had changed.",
			Labels: []Label{{Name: "reason", Values: "a reason code, such as InsufficientResources"}},
		},
		{
			Name: Decisions, Kind: Counter,
			Help:   "What was decided about pods and jobs, before it is carried out.",
			Labels: []Label{{Name: "kind", Values: "bind, evict, nominate, release-nomination (pods), reserve (jobs)", Known: []string{"bind", "evict", "nominate", "release-nomination", "reserve"}}},
		},
		{
			Name: Outcomes, Kind: Counter,
			Help:   "What became of decisions and writes, by outcome; Committed and VictimsGone count whole decisions, the others single pods.",
			Labels: []Label{{Name: "outcome", Values: "Bound, BindFailed, BindUncertain, Committed, Evicted, EvictFailed, VictimsGone, Nominated, NominationFailed, NominationReleased, WriteFailed, Obsolete (a preparation that is no longer needed), Released, StartUndone, UndoFailed", Known: []string{"Bound", "BindFailed", "Evicted", "EvictFailed", "WriteFailed"}}},
		},
		{
			Name: Evictions, Kind: Counter,
			Help:   "Pods that were evicted or deleted, by cause.",
			Labels: []Label{{Name: "cause", Values: "preemption, reclaim (for a job of another queue), undo (of an interrupted start), restart (of a gang that lost members)", Known: []string{"preemption", "reclaim", "undo", "restart"}}},
		},
		{
			Name: Quarantined, Kind: Counter,
			Help: "Panics that were caught, by the plugin or action they came from; cluster is for objects that could not be read, " +
				"the six after it for what the loop does beside sessions.",
			Labels: []Label{{
				Name: "where", Values: "a plugin, an action, engine, cluster, inspection, outcomes, reports, reservations or starts",
				Known: []string{"engine", "cluster", "inspection", "outcomes", "reports", "reservations", "starts"},
			}},
		},
		{
			Name: CycleFailing, Kind: Gauge,
			Help: "1 when the last cycle ended before all jobs had their turn, because of a panic that could not be attributed to one job.",
		},
		{
			Name: Leading, Kind: Gauge,
			Help: "1 when this replica leads and decides, else 0.",
		},
		{
			Name: Paused, Kind: Gauge,
			Help: "1 while the configuration says pause: no job starts that has not begun, and no pod is evicted.",
		},
		{
			Name: RestartNeeded, Kind: Gauge,
			Help: "1 when the API server serves something else than when the process started, which it takes into account after a " +
				"restart only; looked at every hour.",
			Labels: []Label{{Name: "cause", Values: "version, device-taint-rules, queues", Known: []string{"version", "device-taint-rules", "queues"}}},
		},
		{
			Name: Build, Kind: Gauge, Help: "1, for the version of the program.",
			Labels: []Label{{Name: "version", Values: "such as 0.1.0"}},
		},
		{
			Name: Conflicts, Kind: Counter,
			Help:   "Bound pods that came to hold isolated CPUs which they should not have, or lack those they asked for, by kind.",
			Labels: []Label{{Name: "kind", Values: "overlap, outside-set, mismatch, unassigned, resized", Known: []string{"overlap", "outside-set", "mismatch", "unassigned", "resized"}}},
		},
	}
}

// Configuration returns the metrics of the versions of the scheduler's configuration.
func Configuration() []Metric {
	return []Metric{
		{
			Name: ConfigurationActive, Kind: Gauge,
			Help: "1 for the version of the configuration that decides.",
			Labels: []Label{
				{Name: "source", Values: "where it was found"}, {Name: "resource_version", Values: "that of the ConfigMap"},
				{Name: "hash", Values: "how the SHA-256 of its text begins"},
			},
		},
		{
			Name: ConfigurationSince, Kind: Gauge, Help: "Since when that version decides, in seconds since 1970.",
		},
		{
			Name: ConfigurationRefused, Kind: Gauge,
			Help: "1 while the newest version of the configuration is not the one that decides, because it was refused.",
		},
		{
			Name: ConfigurationLastGood, Kind: Gauge,
			Help: "1 while the scheduler runs with the last good version, which was kept beside the ConfigMap, since the present one was " +
				"refused when it started.",
		},
		{
			Name: ConfigurationVersions, Kind: Counter,
			Help:   "Versions of the configuration, the first included, by what became of them.",
			Labels: []Label{{Name: "outcome", Values: "active, refused", Known: []string{"active", "refused"}}},
		},
	}
}

// Agent returns the metrics of a node's agent.
func Agent() []Metric {
	return []Metric{
		{
			Name: AgentRefused, Kind: Counter,
			Help:   "Containers that may not run on the isolated CPUs they name, by reason.",
			Labels: []Label{{Name: "reason", Values: "why"}},
		},
		{
			Name: AgentDrift, Kind: Counter,
			Help: "Containers that were found on other CPUs than they had been put on.",
		},
		{
			Name: AgentHandlerSeconds, Kind: Histogram, Buckets: []float64{.00001, .0001, .001, .005, .02, .1, .5, 2},
			Help:   "How long the container runtime waited for an answer, by call.",
			Labels: []Label{{Name: "call", Values: "a call of the node resource interface"}},
		},
		{
			Name: AgentContainers, Kind: Gauge, Help: "Containers of the node that may run.",
		},
		{
			Name: AgentHeldCPUs, Kind: Gauge, Help: "Isolated CPUs that pods of the node hold.",
		},
	}
}
