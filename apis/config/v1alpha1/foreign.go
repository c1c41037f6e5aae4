package v1alpha1

// nothingLike is what users of Volcano read where nothing here does the same.
const nothingLike = "nothing here does the same"

// volcanos are Volcano's actions, plugins and switches of plugins that there are not here, by what they are. Each has what its
// users write in its place, or why nothing. kube-batch's nine switches are none of them: see switches.
var volcanos = map[string]map[string]string{
	"action": {
		"enqueue":     "no job holds anything while it waits, so that none is kept from waiting",
		"reserve":     "capacity is reserved by backfill",
		"elect":       "capacity is reserved by backfill",
		"shuffle":     "no pod is evicted to run elsewhere",
		"gangpreempt": "write preempt, which plans for whole gangs",
		"gangreclaim": "write reclaim, which plans for whole gangs",
	},
	"plugin": {
		"binpack":                "give nodeorder the arguments {leastrequested.weight: 0, mostrequested.weight: 1}",
		"capacity":               "name proportion, and write guarantees and limits into the Queues",
		"cdp":                    "give reclaim the argument minRunSeconds",
		"deviceshare":            nothingLike,
		"network-topology-aware": "declare topologies in the configuration, and name levels in spec.topology of PodGroups",
		"nodegroup":              nothingLike,
		"numaaware":              "see isolcpu",
		"overcommit":             "it belongs to enqueue: no job holds anything while it waits",
		"pdb":                    "PodDisruptionBudgets are heeded without it",
		"rescheduling":           nothingLike,
		"reservation":            "capacity is reserved by backfill",
		"resource-strategy-fit":  "give nodeorder the argument leastrequested.resources, or mostrequested.resources",
		"resourcequota":          "the API server holds to ResourceQuotas; a limit of a Queue counts what jobs hold",
		"sla":                    "capacity is reserved by backfill, after reserveAfter",
		"task-topology":          "give the pods an affinity to each other",
		"tdm":                    nothingLike,
		"usage":                  nothingLike,
	},
	"switch": {
		"enableHierarchy":        "queues are a tree by themselves: a Queue names its parent",
		"enableNamespaceOrder":   "drf compares namespaces unless it has the argument label",
		"enableJobEnqueued":      "no job holds anything while it waits, so that none is kept from waiting",
		"enabledOverused":        "shares keep no job from idle capacity",
		"enabledAllocatable":     "the limits of Queues hold in any configuration",
		"enablePreemptive":       nothingLike,
		"enabledVictim":          nothingLike,
		"enableJobStarving":      nothingLike,
		"enableTargetJob":        nothingLike,
		"enableReservedNodes":    nothingLike,
		"enableBestNode":         nothingLike,
		"enabledClusterOrder":    nothingLike,
		"enabledHyperNodeOrder":  nothingLike,
		"enabledSubJobReady":     nothingLike,
		"enabledSubJobPipelined": nothingLike,
		"enabledSubJobOrder":     nothingLike,
	},
}
