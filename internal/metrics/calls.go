package metrics

// The metrics of the scheduler's calls to the API server.
const (
	APICalls         Name = "tutti_api_calls_total"
	APICallsInFlight Name = "tutti_api_calls_inflight"
	APICallsQueued   Name = "tutti_api_calls_queue_length"
	APICallsPaused   Name = "tutti_api_calls_paused_seconds_total"
	EventsDropped    Name = "tutti_events_dropped_total"
)

// calls are the scheduler's metrics of its calls to the API server, and of those to what prepares volumes and devices.
func calls() []Metric {
	const kind = "Bind, Undo (the deletion of a bound pod), Read, Nominate, Evict, DisruptionTarget (the condition of a victim) and Delete (of a " +
		"victim), Prepare and Release (volumes and devices), GroupStatus, ForeignStatus, QueueStatus, PodCondition, Event, DeleteGroup (of a PodGroup " +
		"that has ended)"
	return []Metric{
		{
			Name: APICalls, Kind: Counter,
			Help: "Answers to calls to the API server, by kind of call and code.",
			Labels: []Label{
				{Name: "kind", Values: kind},
				{Name: "code", Values: "ok, the HTTP status of a failure such as 409, unsent (no Lease, or no connection), error (no answer)"},
			},
		},
		{
			Name: APICallsInFlight, Kind: Gauge,
			Help: "Calls without an answer yet, those included that a worker has yet to send.",
		},
		{
			Name: APICallsQueued, Kind: Gauge,
			Help:   "Calls that wait for their turn, by kind; Bind counts Undo too, which has the same turns.",
			Labels: []Label{{Name: "kind", Values: kind}},
		},
		{
			Name: APICallsPaused, Kind: Counter,
			Help: "For how long nothing was sent because the API server had said that it is busy (429): all calls after it said so of a " +
				"decision, else writes alone. A pause counts as a whole when it begins.",
			Labels: []Label{{Name: "calls", Values: "all, writes (status, conditions, events and deletions of PodGroups)", Known: []string{"all", "writes"}}},
		},
		{
			Name: EventsDropped, Kind: Counter,
			Help: "Events that were given up: too many waited to be sent, or no attempt succeeded.",
		},
	}
}
