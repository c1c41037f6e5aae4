// Package topology counts pods by topology domain, and answers from the counts what inter-pod (anti-)affinity and topology
// spread ask: which nodes they rule out for a pod, and which they prefer.
//
// The semantics are exactly kube-scheduler's with its default arguments; its own plugins are the oracle of the tests. What
// differs is the cost: they read every pod of the cluster for every pod they schedule, while the Index keeps its counts from
// task to task and from session to session, and updates them from the snapshot's journal. A query costs what has changed
// since the last one; the answer for one node is an array access.
//
// How it counts: a pod on a node belongs to a class, defined by those of its labels that some selector names, and may have
// terms: its inter-pod affinity. For every query in use there is a table with one number per domain. Each class and each set
// of terms has a list of the tables that count it, so that a pod added or removed changes a few numbers. As long as no query
// selects by labels, no label is read.
//
// It decides nothing, places nothing and knows no session; the plugins predicates and nodeorder query it.
//
// The files, in reading order:
//
//	index.go                        the counts, and how they follow the snapshot
//	terms.go, write.go, spread.go   what pods ask: terms and constraints
//	keys.go                         the topology keys that are known
//	class.go, domain.go, slot.go    which pods count as equal, the domains of nodes, the pods on each node
//	filter.go, score.go             the answers
package topology
