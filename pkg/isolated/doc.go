// Package isolated holds the nouns of CPUs that the kernel keeps its own work off (isolcpus=), as the scheduler and the node
// agent both read and write them: sets of CPU ids, what a node offers, what a pod asks for and what it was given.
//
// Invariant: an id is given to one pod at a time. Both sides check it, and neither believes the other.
//
// It has no state and no client. Whom to give which ids is for pkg/plugins/isolcpu to say, enforcing it for the agent.
package isolated

// What stands on objects.
const (
	// RequestAnnotation is on pods: "true" takes the CPU of all application containers from the isolated pool, a list of
	// container names, separated by commas, that of those.
	RequestAnnotation = "isolcpu.tutti.dev/cpus"
	// AssignedAnnotation is on bound pods: an Assignment, written with the binding and never changed.
	AssignedAnnotation = "isolcpu.tutti.dev/assigned"
	// SMTAnnotation is on pods: how threads of one core are treated, an SMT.
	SMTAnnotation = "isolcpu.tutti.dev/smt"
	// NUMAAnnotation is on pods: whether all of the ids must be of one NUMA node, a NUMA.
	NUMAAnnotation = "isolcpu.tutti.dev/numa"
	// TopologyAnnotation is on nodes: a Topology, written by the agent.
	TopologyAnnotation = "isolcpu.tutti.dev/topology"
	// LeasePrefix is how the name of a node's Lease begins, by which its agent shows that it is there; the rest is the node's.
	LeasePrefix = "isolcpu-"
)
