package proportion

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/shares"
)

// guaranteeClaim takes any unit that no guarantee covers, from all that meet the job above the queue whose guarantee has room for
// the minimum. A gang that straddles the share of its queue goes: the guarantee could not be had otherwise.
type guaranteeClaim struct {
	*claim
	// lowest is the place in the path of the lowest queue that has room.
	lowest int
	// spares reports that no queue loses so much that it is below its share, but for what is left of gangs below their minimum, which
	// is of no use there: that is tried first.
	spares bool
}

// byGuarantee returns the claim, nil when there is none, and why not where a guarantee is asked for.
func (c *claim) byGuarantee() (found *guaranteeClaim, why string) {
	for place, queue := range c.path {
		number := c.numbers[queue.Index]
		if c.tree.WithinGuarantee(number, c.needs, c.needs, c.worlds()) {
			return &guaranteeClaim{claim: c, lowest: place}, ""
		}
		var buffer [8]int
		for _, r := range c.tree.Deciding(buffer[:0], number, c.needs, c.worlds()) {
			if with := c.tree.Part(number, r).Usage + c.needs.At(r); why == "" && with > c.tree.Kept(number, r) {
				why = fmt.Sprintf("with it queue %q would hold %s", queue.Name, c.ofGuarantee(queue, r, with))
			}
		}
	}
	return nil, why
}

// ofWhat says of how much a resource something is: "4 of ... 2 cpu", in which the words come between.
func (s *sharing) ofWhat(r int, amount int64, words string, whole int64) string {
	number, _, _ := strings.Cut(s.view.Snapshot().Dimensions.FormatAmount(r, amount), " ")
	return number + words + s.view.Snapshot().Dimensions.FormatAmount(r, whole)
}

// Right returns model.ByGuarantee.
func (*guaranteeClaim) Right() model.Right { return model.ByGuarantee }

// From reports whether the queue meets the job's above the one that has room.
func (c *guaranteeClaim) From(queue *model.Queue) bool {
	meeting := c.meet(queue)
	return meeting.ok && meeting.place >= c.lowest
}

// Takes depends on what else is lost only where shares are spared: it is the job that decides, and what guarantees cover.
func (c *guaranteeClaim) Takes(unit *framework.EvictionUnit, lost map[*model.Queue]model.Resources) bool {
	meeting := c.meet(unit.Job.InQueue())
	amounts := c.amountsOf(unit)
	return meeting.ok && meeting.place >= c.lowest && c.needs.Overlaps(amounts) && !c.isCovered(unit) &&
		!(c.spares && !unit.Job.BelowMinimum && c.goesBelowShare(meeting, amounts, lost))
}

// goesBelowShare reports whether a queue that meets the job's would be below its share without these amounts and what is lost.
func (c *claim) goesBelowShare(m meeting, amounts []int64, lost map[*model.Queue]model.Resources) bool {
	loses := c.lossOf(m.giving, lost)
	for r, amount := range amounts {
		part := c.tree.Part(m.giver, r)
		if amount > 0 && c.needs.At(r) > 0 && c.tree.Division(m.parent, r).Contended && part.Usage-loses[r]-amount < part.Share {
			return true
		}
	}
	return false
}

// Allows reports whether it takes each of the units, beside those before it.
func (c *guaranteeClaim) Allows(victims []framework.EvictionUnit) bool {
	lost := map[*model.Queue]model.Resources{}
	for i := range victims {
		if !c.Takes(&victims[i], lost) {
			return false
		}
		c.lose(lost, &victims[i])
	}
	return true
}

// lose adds what a unit holds to what its queue loses.
func (c *claim) lose(lost map[*model.Queue]model.Resources, unit *framework.EvictionUnit) {
	sum := lost[unit.Job.InQueue()]
	sum.Add(c.amountsOf(unit))
	lost[unit.Job.InQueue()] = sum
}

// shareClaim takes units of queues that the job's does not end above.
type shareClaim struct {
	*claim
	// first is what Takes has found of units that would be the first to go.
	first map[likeness]obstacle
}

// byShare returns the claim, nil and why not when the job's queue would end above all others.
func (c *claim) byShare() (found *shareClaim, why string) {
	why = "no resource that it needs is contended among queues"
	for place, x := range c.path {
		taker, parent := c.numbers[x.Index], shares.Root
		if above := x.Above(); above != nil {
			parent = c.numbers[above.Index]
		}
		for i, world := range []shares.World{c.devices, c.ordinary} {
			r := c.contendedNeed(parent, world)
			if r < 0 {
				continue
			}
			after := c.tree.Standing(taker, world, c.needs)
			if highest, any := c.highestAmong(parent, i, world, taker); any && after.Level.Compare(highest) <= 0 {
				return &shareClaim{claim: c, first: map[likeness]obstacle{}}, ""
			}
			part := c.tree.Part(taker, r)
			why = fmt.Sprintf("with it queue %q would hold %s, and no other queue beside it holds more of its share",
				c.path[place].Name, c.ofWhat(r, part.Usage+c.needs.At(r), " of its share of ", part.Share))
		}
	}
	return nil, why
}

// contendedNeed returns a resource of the world that the job needs and that is contended below a queue, -1 when there is none.
func (c *claim) contendedNeed(parent int, world shares.World) int {
	for _, r := range world {
		if c.needs.At(r) > 0 && c.tree.Division(parent, r).Contended {
			return r
		}
	}
	return -1
}

// standingOf is a queue with its level.
type standingOf struct {
	number int
	level  shares.Level
}

// highestKey names a set of siblings and a world.
type highestKey struct{ parent, world int }

// highestAmong returns the highest level among the children of a queue that hold something of a world, one of them left out; any
// is false when there is no other.
func (s *sharing) highestAmong(parent, which int, world shares.World, but int) (highest shares.Level, any bool) {
	known, ok := s.highest[highestKey{parent, which}]
	if !ok {
		known = [2]standingOf{{number: absent}, {number: absent}}
		for i, queue := range s.queues {
			number := s.numbers[i]
			holds := func(r int) bool { return s.tree.Part(number, r).Usage > 0 }
			if number == absent || s.parentOf(queue) != parent || !slices.ContainsFunc(world, holds) {
				continue
			}
			one := standingOf{number, s.tree.Standing(number, world, nil).Level}
			switch {
			case known[0].number == absent || one.level.Compare(known[0].level) > 0:
				known = [2]standingOf{one, known[0]}
			case known[1].number == absent || one.level.Compare(known[1].level) > 0:
				known[1] = one
			}
		}
		if s.highest == nil {
			s.highest = map[highestKey][2]standingOf{}
		}
		s.highest[highestKey{parent, which}] = known
	}
	if known[0].number == but {
		return known[1].level, known[1].number != absent
	}
	return known[0].level, known[0].number != absent
}

func (s *sharing) parentOf(queue *model.Queue) int {
	if above := queue.Above(); above != nil {
		return s.numbers[above.Index]
	}
	return shares.Root
}

// Right returns model.ByShare.
func (*shareClaim) Right() model.Right { return model.ByShare }

// From reports whether the job's queue would not end above the one that meets it, before that loses anything.
func (c *shareClaim) From(queue *model.Queue) bool {
	meeting := c.meet(queue)
	if !meeting.ok {
		return false
	}
	return slices.ContainsFunc([]shares.World{c.devices, c.ordinary}, func(world shares.World) bool {
		return c.contendedNeed(meeting.parent, world) >= 0 &&
			c.tree.Standing(meeting.taker, world, c.needs).Level.Compare(c.tree.Standing(meeting.giver, world, nil).Level) <= 0
	})
}

// Takes takes the queue of the job as if all that it needs came on top: what it loses itself to the job would only lower it.
func (c *shareClaim) Takes(unit *framework.EvictionUnit, lost map[*model.Queue]model.Resources) bool {
	return c.whyNotBeside(unit, lost) == none && !c.isCovered(unit)
}

// whyNotBeside returns what of the shares keeps a unit from going in addition to what is lost.
func (c *shareClaim) whyNotBeside(unit *framework.EvictionUnit, lost map[*model.Queue]model.Resources) obstacle {
	alike, known := c.coverage().likenessOf(unit)
	known = known && len(lost) == 0
	why, found := c.first[alike]
	if !known || !found {
		with := map[*model.Queue]model.Resources{}
		maps.Copy(with, lost)
		sum := with[unit.Job.InQueue()].Clone()
		sum.Add(c.amountsOf(unit))
		with[unit.Job.InQueue()] = sum
		if why = c.whyNot(unit, with, c.needs, false); known {
			c.first[alike] = why
		}
	}
	return why
}

// Allows looks at the state after all: what the members have in truth, and what the queues lose together.
func (c *shareClaim) Allows(victims []framework.EvictionUnit) bool {
	lost := map[*model.Queue]model.Resources{}
	for i := range victims {
		c.lose(lost, &victims[i])
	}
	gain := c.needsOf(c.job, true)
	return !slices.ContainsFunc(victims, func(unit framework.EvictionUnit) bool {
		return c.whyNot(&unit, lost, gain, true) != none || c.isCovered(&unit)
	})
}

// isCovered reports whether a guarantee covers a unit, up to the queue that gives it.
func (c *claim) isCovered(unit *framework.EvictionUnit) bool {
	return c.coverage().covers(unit, c.meet(unit.Job.InQueue()).giving)
}

// whyNot returns what keeps a unit from being among what the queues lose when the job gains so much; guarantees are not asked.
// final reports that no more is lost, so that the loss of the job's own queue counts. Each part of the unit is looked at: each
// may come back without the others.
func (c *shareClaim) whyNot(unit *framework.EvictionUnit, lost map[*model.Queue]model.Resources, gain model.Resources, final bool) obstacle {
	m := c.meet(unit.Job.InQueue())
	if !m.ok {
		return givesNothing
	}
	exchange := &shares.Exchange{Taker: m.taker, Giver: m.giver, Gain: gain, Loss: c.lossOf(m.giving, lost)}
	if final {
		exchange.Gain = gain.Clone()
		for r, amount := range c.lossOf(c.path[m.place], lost) {
			exchange.Gain[r] -= amount
		}
	}
	changes := make([]int64, c.dimensions)
	for r, amount := range exchange.Loss {
		changes[r] = -amount
	}
	for _, amounts := range c.coverage().partsOf(unit) {
		world, ok := c.tree.ExchangeWorld(m.parent, amounts, c.needs, c.worlds())
		gives := func(r int) bool { return amounts[r] > 0 && c.needs.At(r) > 0 && c.tree.Division(m.parent, r).Contended }
		switch {
		case !slices.ContainsFunc(world, gives):
			return givesNothing
		case !ok:
			return idlesDevice
		case !c.tree.EndsNoHigher(exchange, world) || !c.tree.LowerInOne(exchange, world, amounts):
			return tooMuch
		case !c.tree.StaysAtFloor(m.giver, amounts, changes, world, c.worlds()):
			return belowFloor
		case c.comesBack(m, amounts, lost, gain):
			return returns
		}
	}
	return none
}

// comesBack reports whether at some queue from the meeting point up such a part would be within the guarantee again.
func (c *shareClaim) comesBack(m meeting, amounts []int64, lost map[*model.Queue]model.Resources, gain model.Resources) bool {
	for at := m.giving.Above(); at != nil; at = at.Above() {
		changes := c.lossOf(at, lost)
		for r := range changes {
			changes[r] = amounts[r] - changes[r] + gain.At(r)
		}
		if c.tree.WithinGuarantee(c.numbers[at.Index], amounts, changes, c.worlds()) {
			return true
		}
	}
	return false
}

// Price puts those queues first that are most above their share, seen from the top of the tree down. What is left of a gang that
// is below its minimum is no gang that ends: a scheduler may have been killed between its evictions.
func (c *claim) Price(unit *framework.EvictionUnit) framework.Price {
	queue := unit.Job.InQueue()
	price := framework.Price{Rank: 1 + c.ranks()[queue.Index]}
	if unit.WholeGang && len(unit.Tasks) > 1 && !unit.Job.BelowMinimum {
		price.Gangs = 1
	}
	meeting := c.meet(queue)
	if !meeting.ok {
		return price
	}
	if c.goesBelowShare(meeting, c.amountsOf(unit), nil) {
		price.BelowShare = 1
	}
	return price
}

// ranks returns, by index, the places of the queues: that of a higher standing comes before its siblings, with all below it.
func (c *claim) ranks() []int {
	if c.order != nil {
		return c.order
	}
	c.order = make([]int, len(c.queues))
	below := map[int][]*model.Queue{}
	for i, queue := range c.queues {
		if c.numbers[i] != absent {
			below[c.parentOf(queue)] = append(below[c.parentOf(queue)], queue)
		}
	}
	next := 0
	var walk func(parent int)
	walk = func(parent int) {
		world := c.tree.WorldOf(parent, c.needs, c.worlds())
		standing := map[*model.Queue]shares.Standing{}
		for _, queue := range below[parent] {
			standing[queue] = c.tree.Standing(c.numbers[queue.Index], world, nil)
		}
		slices.SortStableFunc(below[parent], func(a, b *model.Queue) int { return standing[b].Compare(standing[a]) })
		for i, queue := range below[parent] {
			if i > 0 && standing[queue].Compare(standing[below[parent][i-1]]) != 0 || parent != shares.Root && i == 0 {
				next++
			}
			c.order[queue.Index] = next
			walk(c.numbers[queue.Index])
		}
	}
	walk(shares.Root)
	return c.order
}
