package shares

import "cmp"

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
		change := of(changes, r)
		if level := t.Level(queue, r, change); level.Compare(s.Level) > 0 {
			s.Level = level
		}
		p := &t.parts[t.at(queue, r)]
		if p.Floor == 0 || !t.Among(queue, r).Contended {
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
