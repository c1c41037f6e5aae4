// Package isolated holds the types of isolated CPUs (isolcpus=) that the scheduler and the node agent share: sets of CPU ids,
// a node's topology, a pod's request and its assignment.
//
// Invariant: an id is assigned to one pod at a time. Both sides check it, and neither relies on the other.
//
// It has no state and no client. pkg/plugins/isolcpu decides which pod gets which ids, the agent enforces it.
//
// The files, in reading order:
//
//	set.go, topology.go              CPU ids, and what a node has of them
//	marks.go, policy.go, request.go  what a pod asks for
//	pick.go                          which ids it is given
//	assignment.go, held.go           what it holds
package isolated

// Annotations and names of objects.
const (
	// RequestAnnotation is on pods: "true" takes the CPU of all application containers from the isolated pool; container
	// names, separated by commas, that of these containers.
	RequestAnnotation = "isolcpu.tutti.dev/cpus"
	// AssignedAnnotation is on bound pods: an Assignment, written with the binding and never changed.
	AssignedAnnotation = "isolcpu.tutti.dev/assigned"
	// SMTAnnotation is on pods: how threads of one core are treated, an SMT.
	SMTAnnotation = "isolcpu.tutti.dev/smt"
	// NUMAAnnotation is on pods: whether all of the ids must be of one NUMA node, a NUMA.
	NUMAAnnotation = "isolcpu.tutti.dev/numa"
	// TopologyAnnotation is on nodes: a Topology, written by the agent.
	TopologyAnnotation = "isolcpu.tutti.dev/topology"
	// LeasePrefix is the prefix of a node's Lease, the heartbeat of its agent; the node's name follows.
	LeasePrefix = "isolcpu-"
)
