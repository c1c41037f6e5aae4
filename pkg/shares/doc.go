// Package shares computes what the queues of a tree may count on of each resource, and how far above it they are: exact, in
// integers, with the same results for every order of the queues.
//
// The rules and where they come from. Guarantees first, the rest by weight among those that ask for it, each capped: weighted
// max-min fairness, computed by progressive filling (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2), for each
// resource by itself and one set of siblings after the other. The order of queues by their highest level: dominant resource
// fairness (Ghodsi and others, NSDI 2011), but above floors, and within one set of siblings at a time, since dominant shares
// summed over a hierarchy starve siblings. A taker that ends no higher than its giver: the final state is what is compared, so
// that two queues do not take the same amount from each other again and again.
//
// Which units a guarantee covers is a rule of our own: whole units, since rights that hold for one resource of a unit and not for
// another make cycles of evictions; in the devices where there are some, so that a guarantee of CPUs covers no device.
//
// It does not know Kubernetes, jobs, pods, or which queue a job is in, and it decides nothing: whether a job starts or a pod is
// evicted is up to its callers. It does not read a clock and has no state but what Tree keeps to be computed again without
// allocations.
package shares
