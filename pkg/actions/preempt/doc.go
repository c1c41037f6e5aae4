// Package preempt frees capacity for jobs that found none: it evicts pods of lower priority, as few and as unimportant ones as
// will do, and only when the whole minimum of a job can then start.
//
// A plan is made as a whole, over all nodes, on idle capacity, on capacity that is being released and on that of victims
// together. What is freed stays nominated to the job that it was freed for. The package decides which pods are evicted for
// which job; whether a job fits is for pkg/place to say, which pods may be evicted at all for the engine and the victim
// pickers.
//
// The files, in the order of the algorithm:
//
//	arguments.go          what a configuration may say
//	preempt.go            the turns of the jobs that were refused
//	claims.go             the policy of an action that evicts pods of other queues: their turns, which pods go, and what it says
//	nominations.go        capacity that was nominated to jobs before their turn
//	verdict.go            what the session remembers refusals by
//	pool.go               which pods may be evicted, in units: a member that its gang can spare, or a whole gang
//	order.go              the order of victims and its invariant
//	budget.go             what plans take from disruption budgets
//	plan.go               a set of units that may go together
//	search.go             how a plan is looked for, and carried out
//	search_domains.go     domain by domain, for members that share one
//	domaincost.go         the least that victims in a domain can cost
//	search_greedy.go      member by member, where it costs least
//	nodecost.go           the cheapest node for one more member
//	onnode.go             the victims on one node for one member
//	search_cluster.go     all over the cluster, for members that depend on each other
//	near.go               pods that stay near members which must be near one
//	reprieve.go           what is not needed is given back, and units are exchanged
//	review.go             what extenders say of a plan
//	explain.go            why there is no plan
package preempt
