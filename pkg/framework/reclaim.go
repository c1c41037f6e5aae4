package framework

import "github.com/tutti-sched/tutti/pkg/model"

// This file is what a job may take from other queues. Priorities are no matter there: a plugin says which pods may go by which
// right, and the engine asks it about each statement as a whole.

// Reclaimer says which pods may be evicted for jobs of other queues. Combined: the first one answers; without one no pod may.
type Reclaimer interface {
	Plugin
	// Claims returns what the job may take as the session stands, a claim for each of its rights, the one to be tried first
	// first, and why it has no others; none when it may take nothing. Claims hold until something is decided.
	Claims(taker *model.Job) (claims []Claim, why string)
	// JudgeReclaim returns the right by which the units may have been evicted for the job, or why not. It is asked at the end of
	// each statement that evicts pods of other queues: they are marked for eviction, and the members have their capacity.
	JudgeReclaim(taker *model.Job, victims []EvictionUnit) (model.Right, *model.Refusal)
	// GuaranteeFor returns the first queue, from the job's up, that is within its guarantee with the minimum of the job, as the
	// session stands; nil when none is.
	GuaranteeFor(job *model.Job) *model.Queue
	// GivesWay reports whether what is kept for a job gives way to a job of another queue, as the session stands: with the minimum
	// of each, its own queue would hold more than its share and that of the other no more than its own.
	GivesWay(holder, job *model.Job) bool
}

// Claim is what a job may take by one right.
type Claim interface {
	// Right is that right.
	Right() model.Right
	// From reports whether a job of the queue can have a unit that the claim takes.
	From(queue *model.Queue) bool
	// Takes reports whether a unit may go in addition to what is lost by then, by the queues of the jobs that lose it.
	//
	// Invariant: what may go in addition to some units may go in addition to a part of them.
	Takes(unit *EvictionUnit, lost map[*model.Queue]model.Resources) bool
	// Keeps says what the queues hold that the job could have units of, and why none of these goes: it names queues and amounts, no
	// job. stays has, for each unit that the claim takes, why it stays.
	Keeps(units []EvictionUnit, stays []string) string
	// Price orders units by how much their queues can spare them.
	Price(unit *EvictionUnit) Price
	// Allows reports whether all of the units may go, and no others, as the session stands: they are marked for eviction, and the
	// members have their capacity.
	Allows(victims []EvictionUnit) bool
}

// Price is what it costs the other queues that units go: the lower is preferred. The zero Price is that of victims of the job's
// own queue.
type Price struct {
	// BelowShare is 1 when a queue would be below its share without the unit alone, else 0.
	BelowShare int
	// Gangs is how many gangs end that have their minimum.
	Gangs int
	// Rank is the place of the unit's queue among those that may give, from 1; the one that is most above its share comes first.
	Rank int
}
