// Package backfill keeps large gangs from starving, and lets small jobs run around them.
//
// A gang that has waited for long although it would fit the empty cluster gets a reservation: capacity on the nodes whose pods
// are expected to end first. No other job of the same or a lower priority is given that capacity any more. Until the gang is
// expected to start, it is lent to jobs that will be gone by then. In one period it gives way to jobs of other queues, where the
// gang would bring its own queue above its share and they do not.
//
// The package decides which job gets a reservation, where, and which jobs may borrow. That others see reserved capacity as taken
// is the snapshot's business (model.HeldCapacity); the status of the PodGroup keeps it across a restart. Tasks that request
// nothing are placed by allocate like all others.
//
// The files, in reading order:
//
//	arguments.go      what a configuration may say
//	backfill.go       a run of the action
//	limits.go         how much is reserved at most, for how long, for whom, and which gang is next
//	headroom.go       what is kept free below limits of queues
//	reserve.go        reservations for gangs whose time has come
//	plan.go           the search for capacity in the future, and what the accounting alone says about that
//	completions.go    when pods are expected to end
//	revalidate.go     which reservations still help
//	backfilljobs.go   lending
package backfill
