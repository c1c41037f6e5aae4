package shares

import (
	"cmp"
	"slices"
)

// World is the resources, by position, in which queues are compared for a job: the devices, or the others. The caller says which
// resource is in which world; one standing over all would let a queue that borrows idle CPUs lose its turn for devices.
type World []int

// Standing is where a queue is in the order of its siblings, in one world.
type Standing struct {
	// Level is the highest of the queue's levels, its dominant level.
	Level Level
	// Met is how much of its floors a queue has, at most 1/1: the highest fraction over the contended resources in which it has
	// one, 0/1 if there are none.
	Met Fraction
}

// Compare returns a negative number when s comes first: by level, then by how much of the floors is met, the lower first. Of
// equal ones the one comes first from which a job started longest ago, which the caller knows.
func (s Standing) Compare(o Standing) int {
	return cmp.Or(s.Level.Compare(o.Level), s.Met.Compare(o.Met))
}

// Rank returns the standing in two numbers, of which the first that differ order two queues: the level and what is met, each
// rounded down. Equal standings have equal ranks, and levels that differ by less than 2⁻⁴⁰ of the share may have.
func (s Standing) Rank() (level, met uint64) { return s.Level.number(), s.Met.number() }

// Standing returns that of a queue after its usage changes by so much of each resource; missing changes are 0.
func (t *Tree) Standing(queue int, world World, changes []int64) Standing {
	s := Standing{Met: Fraction{Q: 1}}
	for _, r := range world {
		if !t.among(queue, r).Contended {
			continue // at its floor
		}
		change := of(changes, r)
		if level := t.Level(queue, r, change); level.Compare(s.Level) > 0 {
			s.Level = level
		}
		p := &t.parts[t.at(queue, r)]
		if p.Floor == 0 {
			continue
		}
		if met := (Fraction{P: min(p.Floor, sum(p.Usage, change)), Q: p.Floor}); met.Compare(s.Met) > 0 {
			s.Met = met
		}
	}
	return s
}

func of(changes []int64, resource int) int64 {
	if resource < len(changes) {
		return changes[resource]
	}
	return 0
}

// levels appends the levels of a queue in a world to buffer, the highest first, after its usage changes by so much of each
// resource, times sign; missing changes are 0.
func (t *Tree) levels(buffer []Level, queue int, world World, changes []int64, sign int64) []Level {
	begin := len(buffer)
	for _, r := range world {
		buffer = append(buffer, t.Level(queue, r, sign*of(changes, r)))
	}
	slices.SortFunc(buffer[begin:], func(a, b Level) int { return b.Compare(a) })
	return buffer
}

// compareLevels compares the levels of two queues in one world, both from levels: by the highest that differ.
func compareLevels(a, b []Level) int {
	return slices.CompareFunc(a, b, func(x, y Level) int { return x.Compare(y) })
}

// Exchange is usage that ends in the subtree of one of two siblings, so that it can begin in that of the other.
type Exchange struct {
	// Taker and Giver have one parent.
	Taker, Giver int
	// Gain is what the taker will use more of each resource, Loss what the giver will use less: all that ends, not a part of
	// it. Missing amounts are 0.
	Gain, Loss []int64
}

// maxInPlace is for how many resources of a world no memory is allocated.
const maxInPlace = 8

// EndsNoHigher reports whether the taker rises and is not above the giver after the exchange: by its highest level if that rises,
// else by all levels. A taker that only has more of a floor rises, too, though its level stays the same. One that does not rise
// has no need of what another gives.
//
// Invariant: after an exchange that raises levels both are above where the taker was. What queues have of their floors rises, or
// stays the same and the sorted list of the levels of all siblings rises, the lowest first, with each exchange in which the giver
// stays at its floors: exchanges come to an end.
func (t *Tree) EndsNoHigher(e *Exchange, world World) bool {
	var before, after, giver [maxInPlace]Level
	was, is := t.levels(before[:0], e.Taker, world, nil, 1), t.levels(after[:0], e.Taker, world, e.Gain, 1)
	if rises := compareLevels(is, was); rises < 0 || rises == 0 && !t.fillsFloor(e, world) {
		return false
	}
	other := t.levels(giver[:0], e.Giver, world, e.Loss, -1)
	if is[0].Compare(was[0]) > 0 {
		return is[0].Compare(other[0]) <= 0
	}
	return compareLevels(is, other) <= 0
}

// fillsFloor reports whether the taker gains some of what it lacks of a floor.
func (t *Tree) fillsFloor(e *Exchange, world World) bool {
	return slices.ContainsFunc(world, func(r int) bool {
		p := &t.parts[t.at(e.Taker, r)]
		return of(e.Gain, r) > 0 && p.Usage < p.Floor && t.among(e.Taker, r).Contended
	})
}

// LowerInOne reports whether the taker is not above the giver after the exchange in at least one contended resource of the world
// of which it gains some and the unit, a part of the loss, has some.
func (t *Tree) LowerInOne(e *Exchange, world World, unit []int64) bool {
	return slices.ContainsFunc(world, func(r int) bool {
		if of(unit, r) <= 0 || of(e.Gain, r) <= 0 || !t.among(e.Taker, r).Contended {
			return false
		}
		taker, giver := t.Level(e.Taker, r, of(e.Gain, r)), t.Level(e.Giver, r, -of(e.Loss, r))
		return taker.Compare(giver) <= 0
	})
}
