package metrics

import "github.com/prometheus/client_golang/prometheus"

// The metrics of the loop's steps.
const (
	StepSeconds   Name = "tutti_loop_step_seconds"
	StepRunning   Name = "tutti_loop_step_running_seconds"
	LastStep      Name = "tutti_loop_last_step_timestamp_seconds"
	MailboxLength Name = "tutti_mailbox_length"
)

// The metrics that a scrape counts.
const (
	OldestWaiting   Name = "tutti_oldest_waiting_seconds"
	BlockedJobs     Name = "tutti_preemption_blocked_jobs"
	PodGroups       Name = "tutti_podgroups"
	UnscheduledPods Name = "tutti_unscheduled_pods"
	Members         Name = "tutti_members"
	Nominated       Name = "tutti_nominated"
	Reservations    Name = "tutti_reservations"
	Reserved        Name = "tutti_reserved"
	StuckVictims    Name = "tutti_stuck_victims"
	SnapshotObjects Name = "tutti_snapshot_objects"
	Dimensions      Name = "tutti_dimensions"
	QueueUsed       Name = "tutti_queue_used"
	QueueDemand     Name = "tutti_queue_demand"
	QueueShare      Name = "tutti_queue_share"
	QueueGuarantee  Name = "tutti_queue_guarantee"
	QueueLimit      Name = "tutti_queue_limit"
	QueueJobs       Name = "tutti_queue_jobs"
	QueueOldestWait Name = "tutti_queue_oldest_wait_seconds"
	QueueUnmet      Name = "tutti_queue_guarantee_unmet"
	Domains         Name = "tutti_domains"
)

// The metrics of starts, searches and the calls of others.
const (
	StartedGangs    Name = "tutti_started_gangs_total"
	PreferredStarts Name = "tutti_preferred_starts_total"
	StartToRunning  Name = "tutti_start_to_running_seconds"
	EvictedGroups   Name = "tutti_evicted_groups_total"
	SearchCut       Name = "tutti_search_cut_total"
	CountsDisagree  Name = "tutti_device_counts_disagree_total"
	CopiesDiffer    Name = "tutti_rehearsal_differs_total"
	RehearsalTime   Name = "tutti_rehearsal_seconds_total"
	ExtenderSeconds Name = "tutti_extender_seconds"
	PrepareSeconds  Name = "tutti_prepare_seconds"
)

// Steps returns the metrics of the loop's steps, read when they are scraped. Each replica has them.
func Steps() []Metric {
	return []Metric{
		{
			Name: StepRunning, Kind: Gauge,
			Help: "For how long the present step of the loop has been under way; 0 between two steps.",
		},
		{
			Name: LastStep, Kind: Gauge,
			Help: "When the last step of the loop ended, in seconds since 1970. A loop without work takes no steps.",
		},
		{
			Name: MailboxLength, Kind: Gauge,
			Help: "Events and replies that the loop has not taken in yet.",
		},
	}
}

// cluster are the metrics of jobs, pods and nodes.
func cluster() []Metric {
	reason := Label{Name: "reason", Values: "a reason code, such as InsufficientResources"}
	return []Metric{
		{
			Name: WaitingJobs, Kind: Gauge,
			Help:   "Jobs that the last cycle refused, by reason code. A group without pods is not counted.",
			Labels: []Label{reason},
		},
		{
			Name: OldestWaiting, Kind: Gauge,
			Help: "For how long the job that has waited longest has waited to start, by reason code: since it has had all members that it " +
				"needs, else since its oldest pod without a node was created. A group without pods, or with its minimum bound, is not counted.",
			Labels: []Label{reason},
		},
		{
			Name: BlockedJobs, Kind: Gauge,
			Help:   "Jobs that the last cycle refused, and for which pods would be evicted if something did not forbid that.",
			Labels: []Label{{Name: "by", Values: "budget: PodDisruptionBudgets"}},
		},
		{
			Name: PodGroups, Kind: Gauge, Help: "PodGroups by the phase in their status.",
			Labels: []Label{{Name: "phase", Values: "Pending, Starting, Running, Degraded, Succeeded, Failed"}},
		},
		{
			Name: UnscheduledPods, Kind: Gauge,
			Help: "Pods without a node and without scheduling gates, of all jobs.",
		},
		{
			Name: Members, Kind: Gauge, Help: "Pods of PodGroups and of implicit groups, by state.",
			Labels: []Label{{Name: "state", Values: "gated, pending, nominated (to a node), binding, bound, running, terminating, succeeded, failed"}},
		},
		{
			Name: Nominated, Kind: Gauge,
			Help:   "Capacity that is nominated to pods for which others were evicted: cores, bytes, or pieces.",
			Labels: []Label{{Name: "resource", Values: "such as cpu or nvidia.com/gpu"}},
		},
		{
			Name: Reservations, Kind: Gauge, Help: "Gangs for which capacity is reserved.",
		},
		{
			Name: Reserved, Kind: Gauge,
			Help:   "Capacity that is reserved for them, whether it is free or in use: cores, bytes, or pieces.",
			Labels: []Label{{Name: "resource", Values: "such as cpu or nvidia.com/gpu"}},
		},
		{
			Name: StuckVictims, Kind: Gauge,
			Help: "Pods that are still there 30 s after the end of their grace period, or after maxGrace if that is shorter: no job counts on their capacity.",
		},
		{
			Name: SnapshotObjects, Kind: Gauge, Help: "What the scheduler keeps of the cluster: nodes, jobs and pods.",
			Labels: []Label{{Name: "kind", Values: "node, job, pod (of all schedulers)"}},
		},
		{
			Name: Dimensions, Kind: Gauge, Help: "Resource names that the accounting of each node has a place for.",
		},
	}
}

// queues are the metrics of queues.
func queues() []Metric {
	queue := Label{Name: "queue", Values: "the name of a Queue, or default; of more than 2,000 only those without a parent, the first 2,000 by name"}
	amounts := []Label{queue, {Name: "resource", Values: "such as cpu or nvidia.com/gpu"}}
	return []Metric{
		{
			Name: QueueUsed, Kind: Gauge, Labels: amounts,
			Help: "What the jobs of a queue, and of those below it, hold, as its limit counts it: cores, bytes, or pieces.",
		},
		{
			Name: QueueDemand, Kind: Gauge, Labels: amounts,
			Help: "What the jobs of a queue, and of those below it, hold, and what those ask for that wait and could start in an empty " +
				"cluster, at most the limits of the queues below it. It takes the plugin proportion.",
		},
		{
			Name: QueueShare, Kind: Gauge, Labels: amounts,
			Help: "What a queue can count on of the resources of which it and its siblings ask for more than there is.",
		},
		{Name: QueueGuarantee, Kind: Gauge, Labels: amounts, Help: "The guarantee of a queue."},
		{Name: QueueLimit, Kind: Gauge, Labels: amounts, Help: "The limit of a queue."},
		{
			Name: QueueJobs, Kind: Gauge, Help: "Jobs of a queue, and of those below it.",
			Labels: []Label{queue, {Name: "state", Values: "running (holds capacity), waiting"}},
		},
		{
			Name: QueueOldestWait, Kind: Gauge, Labels: []Label{queue},
			Help: "For how long that job of a queue, or of one below it, has waited to start that has waited longest; none while no job waits.",
		},
		{
			Name: QueueUnmet, Kind: Gauge,
			Help:   "1 while jobs wait that are within the guarantee of a queue, as its condition GuaranteeMet says; none while it is met.",
			Labels: []Label{queue, {Name: "reason", Values: "those of the condition"}},
		},
	}
}

// domains are the metrics of the domains of levels.
func domains() []Metric {
	return []Metric{
		{
			Name: Domains, Kind: Gauge,
			Help: "Domains of the levels that the configuration declares.",
			Labels: []Label{
				{Name: "level", Values: "a level of the configuration"},
				{Name: "state", Values: "whole (no member of a job holds a device in it, or anything on nodes without devices), broken"},
			},
		},
	}
}

// starts are the metrics of starts and evictions of whole groups, of evictions across queues, of searches, and of the calls of
// others.
func starts() []Metric {
	waits := []float64{.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
	return []Metric{
		{
			Name: StartedGangs, Kind: Counter, Help: "Groups whose minimum was bound for the first time.",
		},
		{
			Name: PreferredStarts, Kind: Counter,
			Help: "Groups whose minimum was bound for the first time, once for each entry of their topology with mode Preferred.",
			Labels: []Label{
				{Name: "level", Values: "a level of the configuration, host, or label for all keys of labels"},
				{Name: "result", Values: "met (all bound members of the entry are in one domain of the level), unmet"},
			},
		},
		{
			Name: StartToRunning, Kind: Histogram, Buckets: waits,
			Help: "How long a PodGroup took from when its minimum was bound until its minimum ran.",
		},
		{
			Name: EvictedGroups, Kind: Counter,
			Help:   "Groups of which pods were evicted or deleted, by cause; each is counted once for each decision.",
			Labels: []Label{{Name: "cause", Values: "preemption, reclaim (for a job of another queue), undo (of an interrupted start), restart (of a gang that lost members)", Known: []string{"preemption", "reclaim", "undo", "restart"}}},
		},
		{
			Name: Reclaimed, Kind: Counter,
			Help:   "Pods that were evicted or deleted for jobs of other queues, by the right of the queue that takes.",
			Labels: []Label{{Name: "right", Values: "guarantee, share", Known: []string{"guarantee", "share"}}},
		},
		{
			Name: SearchCut, Kind: Counter,
			Help:   "Searches for nodes or victims of one job that ended because the work of the cycle, or its time for devices, was used up; they go on in a later cycle.",
			Labels: []Label{{Name: "action", Values: "allocate, backfill, reclaim, preempt", Known: []string{"allocate", "backfill", "reclaim", "preempt"}}},
		},
		{
			Name: CountsDisagree, Kind: Counter,
			Help: "Nodes whose number of devices was enough for a pod, and of which the allocator gave it none: the pod is tried on other nodes. " +
				"A few are slices or claims that have just changed; many are classes that overlap, or a defect.",
		},
		{
			Name: CopiesDiffer, Kind: Counter,
			Help: "Questions whose copy of the cluster decided otherwise than the scheduler had, when it had nothing left to decide. " +
				"A few are claims, volumes or devices that have just changed; more are a defect.",
		},
		{
			Name: RehearsalTime, Kind: Counter,
			Help:   "How long rehearsals have taken beside the loop, in seconds of the clock. Together they take at most a tenth of the time on average.",
			Labels: []Label{{Name: "for", Values: "question (of kubectl tutti what-if, when and capture), advice (in the status of groups)", Known: []string{"question", "advice"}}},
		},
		{
			Name: ExtenderSeconds, Kind: Histogram, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
			Help: "How long a call of an extender took.",
			Labels: []Label{
				{Name: "extender", Values: "its urlPrefix, without credentials"}, {Name: "verb", Values: "filter, prioritize, preempt, bind, as configured"},
				{Name: "result", Values: "ok, error, timeout"},
			},
		},
		{
			Name: PrepareSeconds, Kind: Histogram, Buckets: prometheus.ExponentialBuckets(0.005, 2, 17),
			Help:   "How long it took to write the volumes and devices of a pod before its bind, or to release them.",
			Labels: []Label{{Name: "kind", Values: "prepare, release"}},
		},
	}
}
