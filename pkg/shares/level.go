package shares

import (
	"cmp"
	"fmt"
)

// Level is how far a queue is above its floor in one resource, compared with its siblings, relative to its weight. The zero Level
// is that of a queue at or below its floor, and of one in a resource that is not contended. Levels of several resources and
// several sets of siblings can be compared.
type Level struct {
	rank rank
	// amount/unit is the level among those of one rank. Invariant: both are zero for atFloor, else unit is positive.
	amount, unit wide
}

// rank orders levels that no fraction can express.
type rank uint8

const (
	// atFloor has no fraction.
	atFloor rank = iota
	// aboveFloor is relative to what each unit of weight may have: 1 is a queue that uses its share, before it is rounded.
	aboveFloor
	// beyond is above the floor where only floors can be had: relative to the supply and the weight.
	beyond
	// weightless is at or above the floor with weight 0: relative to the supply. It includes the floor, or the last unit of such a
	// queue could not be taken.
	weightless
	// aboveLimit is of a queue that held more than limits allow, and would hold at least what they do: relative to the supply. What
	// is beyond a limit is part of no share, and is given first, up to the last unit.
	aboveLimit
)

// Compare returns a negative number when l is the lower level, zero when they are equal.
func (l Level) Compare(o Level) int {
	if l.rank != o.rank || l.rank == atFloor {
		return cmp.Compare(l.rank, o.rank)
	}
	return compareFractions(l.amount, l.unit, o.amount, o.unit)
}

// number is larger for a higher level, in fixed point: the rank in the upper two bits, and below them the level, at most what
// they can hold. The lowest two ranks share those bits: only that of a queue at its floor is 0.
func (l Level) number() uint64 {
	switch l.rank {
	case atFloor:
		return 0
	case aboveFloor:
		return max(1, l.amount.fixed(l.unit, 40))
	}
	return uint64(l.rank-aboveFloor)<<62 | l.amount.fixed(l.unit, 61)
}

// String is for people, with three digits: "0.250", "weight 0: 0.250".
func (l Level) String() string {
	if l.rank == atFloor {
		return "0"
	}
	prefix := ""
	switch l.rank {
	case beyond:
		prefix = "above what is left: "
	case weightless:
		prefix = "weight 0: "
	case aboveLimit:
		prefix = "above the limit: "
	}
	return fmt.Sprintf("%s%.3f", prefix, l.Float())
}

// Float is for people: the fraction without what orders it before others, rounded.
func (l Level) Float() float64 {
	if l.rank == atFloor {
		return 0
	}
	return l.amount.float() / l.unit.float()
}

// Level returns the level of a queue in a resource after its usage changes by so much.
func (t *Tree) Level(queue, resource int, change int64) Level {
	division := t.among(queue, resource)
	if !division.Contended {
		return Level{}
	}
	p := &t.parts[t.at(queue, resource)]
	usage, weight, supply := sum(p.Usage, change), uint64(t.queues[queue].weight), uint64(max(1, division.Supply))
	if p.AboveLimit && usage >= p.Ceiling {
		return Level{rank: aboveLimit, amount: wide{low: uint64(usage - p.Ceiling)}, unit: wide{low: supply}}
	}
	if usage < p.Floor || usage == p.Floor && weight > 0 {
		return Level{}
	}
	above := uint64(usage - p.Floor)
	switch {
	case weight == 0:
		return Level{rank: weightless, amount: wide{low: above}, unit: wide{low: supply}}
	case division.Rate.P == 0:
		return Level{rank: beyond, amount: wide{low: above}, unit: product(weight, supply)}
	}
	return Level{
		rank: aboveFloor, amount: product(above, uint64(division.Rate.Q)), unit: product(weight, uint64(division.Rate.P)),
	}
}
