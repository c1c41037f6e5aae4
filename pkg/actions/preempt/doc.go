// Package preempt makes room for jobs that found none: it evicts pods of lower priority, as few and as unimportant ones as
// will do, and only when the whole minimum of a job can then start.
//
// A plan is made as a whole, over all nodes, on idle room, on room that is being released and on that of victims together.
// What is freed stays promised to whom it was freed for. The package decides whom to evict for whom; whether a job fits is for
// internal/placement to say, who may be evicted at all for the engine and the victim pickers.
//
// The files, in the order of the algorithm:
//
//	arguments.go          what a configuration may say
//	preempt.go            whose turn it is: the jobs that were refused, by priority
//	memory.go             jobs for which there is no plan, while nothing changes
//	nominations.go        nominations of this cycle that cost nothing are taken back for those above
//	equals.go             jobs of one priority whose nominations do not suffice any more
//	pool.go               who may be evicted, in units: a member that its gang can spare, or a whole gang
//	order.go              the order of victims and its invariant
//	budget.go             what plans take from disruption budgets
//	plan.go               a set of units that may go together
//	search.go             how a plan is looked for, and carried out
//	search_exhaustive.go  all sets, in small clusters
//	search_greedy.go      member by member, where it costs least
//	onnode.go             the victims on one node for one member
//	nodecost.go           the cheapest node for one more member
//	search_cluster.go     all over the cluster, for members that depend on each other
//	reprieve.go           what is not needed is released
//	resume.go             a search that was cut short continues in the next cycle
//	review.go             what extenders say of a plan
//	explain.go            why there is no plan
package preempt
