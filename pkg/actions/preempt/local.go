package preempt

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// offer is who would have to leave so that one more task fits on a node.
type offer struct {
	units []unit
	cost  cost
}

// bid is a unit with what it would free on one node.
type bid struct {
	unit
	freed model.Resources
}

// maxPairs is up to how many units of a node every two of them are looked at together.
const maxPairs = 24

// offerOf returns the cheapest offer that a node makes for a request, on top of a plan, as far as room goes; ok is false when
// not even everybody who may leave would make room for it.
func (s *search) offerOf(p *plan, node *model.Node, request model.Resources) (cheapest offer, ok bool) {
	s.spend(1)
	lack := node.Shortage(request, model.FutureIdle)
	if len(lack) == 0 {
		return offer{}, true
	}
	if !s.possible(node, lack) {
		return offer{}, false
	}
	bids := s.bids(p, node, lack)
	if enough := s.enough(p, bids, lack); enough != nil {
		cheapest, ok = s.makeOffer(p, enough), true
		most := cheapest.cost
		bids = slices.DeleteFunc(bids, func(b bid) bool {
			return b.cost.highest > most.highest || b.cost.violations > most.violations
		})
	}
	if few := s.few(p, bids, lack); few != nil {
		if other := s.makeOffer(p, few); !ok || other.cost.compare(&cheapest.cost) < 0 {
			cheapest, ok = other, true
		}
	}
	return cheapest, ok
}

// possible tells, cheaply, whether all who may leave the node would make room enough.
func (s *search) possible(node *model.Node, lack []model.Shortage) bool {
	for _, l := range lack {
		amount := l.Amount
		for _, task := range node.Tasks {
			if amount > 0 && s.pool.of[task] != nil && (task.Status == model.Bound || task.Status == model.Running) {
				amount -= task.Request.At(l.Index)
			}
		}
		if amount > 0 {
			return false
		}
	}
	return true
}

// bids returns what could leave the node and would help, the least important first.
func (s *search) bids(p *plan, node *model.Node, lack []model.Shortage) []bid {
	var bids []bid
	for _, task := range node.Tasks {
		from := s.pool.of[task]
		if from == nil || task.Status != model.Bound && task.Status != model.Running {
			continue
		}
		if from.single[task] {
			u := newUnit(from, []*model.Task{task}, false)
			bids = s.bid(bids, p, u, task.Request, lack)
		}
		if from.whole && !slices.ContainsFunc(bids, func(b bid) bool { return b.of == from && b.whole }) {
			bids = s.bid(bids, p, p.rest(from), from.on(node), lack)
		}
	}
	slices.SortFunc(bids, func(a, b bid) int { return compareUnits(&a.unit, &b.unit) })
	return bids
}

// bid adds a unit that may go and frees something that is lacking.
func (s *search) bid(bids []bid, p *plan, u unit, freed model.Resources, lack []model.Shortage) []bid {
	if !slices.ContainsFunc(lack, func(l model.Shortage) bool { return freed.At(l.Index) > 0 }) || !p.admits(&u) {
		return bids
	}
	u.cost.violations = p.violationsWith(&u)
	return append(bids, bid{unit: u, freed: freed})
}

// on returns what all of the source take on a node.
func (s *source) on(node *model.Node) model.Resources {
	if len(s.tasks) == 1 {
		return s.tasks[0].Request
	}
	var sum model.Resources
	for _, task := range s.tasks {
		if task.Node == node.Name && task.Status != model.Releasing {
			sum.Add(task.Request)
		}
	}
	return sum
}

// enough takes bids from the least important on until they suffice, and then gives back, the most important first, those
// that are not needed; nil when all together do not suffice.
func (s *search) enough(p *plan, bids []bid, lack []model.Shortage) []bid {
	var taken []bid
	before := len(p.units)
	for _, b := range bids {
		if suffice(taken, lack) {
			break
		}
		// The whole of a job beside its single members is the whole alone.
		if b.whole {
			taken = s.giveWay(p, taken, b.of)
		}
		if p.admits(&b.unit) {
			p.add(b.unit)
			taken = append(taken, b)
		}
	}
	for len(p.units) > before {
		p.drop()
	}
	if !suffice(taken, lack) {
		return nil
	}
	slices.SortFunc(taken, func(a, b bid) int { return byImportance(&a.unit, &b.unit) })
	for i := 0; i < len(taken); {
		rest := slices.Delete(slices.Clone(taken), i, i+1)
		if suffice(rest, lack) {
			taken = rest
		} else {
			i++
		}
	}
	return taken
}

// giveWay takes the single members of a source that were taken last out of the plan again.
func (s *search) giveWay(p *plan, taken []bid, of *source) []bid {
	if !slices.ContainsFunc(taken, func(b bid) bool { return b.of == of }) {
		return taken
	}
	for range taken {
		p.drop()
	}
	taken = slices.DeleteFunc(taken, func(b bid) bool { return b.of == of })
	for _, b := range taken {
		p.add(b.unit)
	}
	return taken
}

// few returns the cheapest single bid that suffices, or two that are cheaper together; nil when there are none.
func (s *search) few(p *plan, bids []bid, lack []model.Shortage) []bid {
	var best []bid
	least := cost{violations: 1 << 30}
	for i := range bids {
		if suffice(bids[i:i+1], lack) {
			best, least = bids[i:i+1], bids[i].cost
			break
		}
	}
	// Two can only be cheaper than one if neither is as important as that one.
	bids = slices.DeleteFunc(slices.Clone(bids), func(b bid) bool { return best != nil && !b.cost.below(&least) })
	if len(bids) > maxPairs {
		return best
	}
	for i := range bids {
		p.add(bids[i].unit)
		for j := i + 1; j < len(bids); j++ {
			two := []bid{bids[i], bids[j]}
			if !suffice(two, lack) || !p.admits(&bids[j].unit) || bids[i].of == bids[j].of && (bids[i].whole || bids[j].whole) {
				continue
			}
			if sum := s.sumOf(p, &bids[i], &bids[j]); best == nil || sum.compare(&least) < 0 {
				best, least = two, sum
			}
		}
		p.drop()
	}
	return best
}

// sumOf returns what two bids cost, the first of which is in the plan.
func (s *search) sumOf(p *plan, first, second *bid) cost {
	sum := first.cost.plus(&second.cost)
	sum.violations = p.violationsWith(&second.unit)
	return sum
}

func suffice(bids []bid, lack []model.Shortage) bool {
	for _, l := range lack {
		amount := l.Amount
		for i := range bids {
			amount -= bids[i].freed.At(l.Index)
		}
		if amount > 0 {
			return false
		}
	}
	return true
}

// byImportance orders units for giving them back: those first that a budget protects, then the most important.
func byImportance(a, b *unit) int {
	return cmp.Or(
		cmp.Compare(b.cost.violations, a.cost.violations), cmp.Compare(b.cost.highest, a.cost.highest),
		cmp.Compare(b.cost.broken, a.cost.broken), cmp.Compare(b.cost.pods, a.cost.pods),
		a.cost.since.Compare(b.cost.since), cmp.Compare(a.tasks[0].UID, b.tasks[0].UID), cmp.Compare(len(b.tasks), len(a.tasks)))
}

func (s *search) makeOffer(p *plan, bids []bid) offer {
	var o offer
	for i := range bids {
		o.units = append(o.units, bids[i].unit)
	}
	o.cost = s.priceOf(p, o.units)
	return o
}
