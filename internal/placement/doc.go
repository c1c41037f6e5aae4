// Package placement finds places for the minimum of one job, all of it or nothing, on idle capacity or also on capacity that
// is being released. Actions decide which job is tried, on which capacity, and what happens when it fails; this package only
// decides where the members go.
//
// The files, in reading order:
//
//	placer.go              a try: member by member, and what is tried after that
//	order.go               the order of the members, and those that make up the minimum
//	classes.go, terms.go   members that are interchangeable; inter-pod affinity between members
//	colocated.go           one domain that members prefer to share
//	topology.go, ties.go   domains that the job says members share
//	pack.go                domains for parts that share no members, by numbers
//	divide.go              domains for all parts of members of one shape, every choice
//	sliced.go, cells.go    slices of members that share domains, and how many whole ones fit
//	sliceplace.go          how they are placed
//	rank.go                members that are alike, in the order of their indexes
//	nodomain.go            what they need, and which domains come nearest to it
//	nearest.go             how much the nearest of them lacks
//	confined.go            a domain that was chosen before
//	domain.go              domains that members must share
//	exhaustive.go          every combination, for few members
//	victims.go             the refusal of a job whose victims are terminating
package placement
