// Package place finds places for the minimum of one job, all of it or nothing, on idle capacity or also on capacity that
// is being released. Actions decide which job is tried, on which capacity, and what happens when it fails; this package only
// decides where the members go.
//
// # The question
//
// Placer.Place asks: is there a node for each of as many waiting members as the gates of the session need? Each placed member has
// passed the real filters, so whatever is found is valid. The counts below only choose which nodes the filters are asked about,
// and say early where there is no place.
//
// A job without a topology: the domain that members prefer by their affinity; then each member on its best node; then domains
// that members must share by affinity, as those of a topology; then every combination, for at most eight members.
//
// A job with a topology (placeByTopology): first within domains that it prefers and requires, then within those that it requires,
// then in those that were found for its parts, then as above. The filters of the session keep members together all the time.
// Before that, numbers may show that no start is possible, or leave few choices. How many members of a shape, which is a request
// with its static filters, fit on each node is counted once and follows the journal (engine.Fits). These numbers are used by
//
//	tables (ties.go)    members that share one domain, a tie: the sum by domain. Of several shapes it is an upper bound
//	cells (cells.go)    slices of one shape, with sizes that divide each other: whole slices, from the smallest sizes upwards
//	packing (pack.go)   ties of one shape and one level that have no member in common: best fit, then every choice (divide.go)
//	parts (divide.go)   members of one shape in up to eight parts of any kind, where none of the others decides: every choice of
//	                    domains, each with a flow of members to the nodes that are in the same domains
//
// Which of several domains is taken says domainSet.compare (topology.go) for members that share one, cell.deal (cells.go) for
// slices of one shape, and Placer.tightest (sliceplace.go) for other slices; docs/topology.md, "Which domain", says it in words.
//
// Ties of any other kind are tried one inside the other, and slices of members that differ one after the other.
//
// # What is exact
//
// A job that could start does, as far as capacity and static filters decide, in these classes, which TestTopologyIsExact in
// pkg/actions/allocate compares with an oracle:
//
//   - one shape, all members in the same ties and slices: always, in domains of several trees within the budget; and with a
//     preference in the fewest domains of one tree, as long as one wide domain has capacity
//   - up to eight members of any kind on few nodes, with any filter: every combination, within the budget
//   - up to eight parts of one shape, where all of the members are needed: every choice, within the budget
//
// All else is bounded: 32 domains are always tried, and more within a budget of looks at nodes, of each job
// (searchBudget) and of all jobs of an action in a cycle (Budget). A refusal NoDomainFits without the note "not all possibilities
// were tried" is exact (triedAll).
//
// # The files, in reading order
//
//	placer.go                a try: member by member, and what is tried after that
//	order.go                 the order of the members, and those that make up the minimum
//	classes.go, terms.go     members that are interchangeable; inter-pod affinity between members
//	region.go                the nodes to which choices of domains confine members
//	colocated.go, domain.go  one domain that members prefer to share by affinity; ties of those that must, and bounds of tries
//	beside.go                replacements in the domains that their gang prefers
//	exhaustive.go            every combination, for few members
//	topology.go, ties.go     domains that the job says members share; who shares them, and how many fit
//	pack.go, divide.go       domains for several ties or parts together
//	sliced.go, cells.go      slices of members that share domains, and how many whole ones fit
//	sliceplace.go            how they are placed, also beyond the minimum
//	rank.go                  members that are alike, in the order of their indexes
//	nodomain.go              what members lack, and which domains come nearest to it
//	confined.go              for a domain that another package chooses
//	reserved.go, victims.go  whether reserved capacity suffices; the refusal of a job whose victims are terminating
package place
