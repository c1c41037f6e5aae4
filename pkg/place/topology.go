package place

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// A job may say that its members share a domain of a level: a rack, a block. Filters keep members in the domain of those that
// have a node; here a domain is chosen for those of which none has. It is chosen by numbers alone, from how many members fit on
// each node. For members of one shape these decide: where they allow none, there is none.

// noneOfDomain is the refusal of a member in one of the domains that are tried, which is not reported.
var noneOfDomain = &model.Refusal{Code: model.NoDomainFits, Evictable: true}

// notAllTried is the note of a refusal that is not exact.
const notAllTried = "not all possibilities were tried"

// domainSet is a domain in which a tie may be placed.
type domainSet struct {
	// domain is its number.
	domain int
	// lacks is for how many more of what the minimum needs at least it would have to have capacity; none when it is not positive.
	lacks int64
	// fits is how many of the existing members fit; narrower in how few domains of the next narrower level the minimum does;
	// broken how many of the domains around it are whole, itself included, by level from the widest; left for how many more
	// there is capacity.
	fits     int64
	narrower int
	broken   []int
	left     int64
}

// placeByTopology tries to start the job in domains that its ties share: first in those that they prefer, which takes nothing
// from the search for the others. The refusal says what is lacking; possible reports that there is a domain for each tie and
// slice by numbers, so that members may start in another way.
func (t *Placer) placeByTopology() (placed, possible bool, refusal *model.Refusal) {
	if refusal = t.invalidSlices(); refusal != nil {
		return false, false, refusal
	}
	required, preferred, settled := t.ties()
	awaited := t.awaited(required)
	parts := t.divide(required, settled)
	if !parts.impossible() {
		budget := t.budget
		if len(preferred) > 0 && t.placeTied(slices.Concat(preferred, required), settled) {
			return true, true, nil
		}
		t.tries, t.budget, t.incomplete = 0, budget, false
		if (len(required)+len(t.sliced) > 0 || parts != nil) && t.placeTied(required, settled) || t.placeDivided(parts) {
			return true, true, nil
		}
	}
	if len(required)+len(t.sliced) == 0 {
		return false, true, nil // each part has a domain: filters say of each node why
	}
	t.incomplete = t.incomplete || !t.isCounted(required) && !parts.impossible() && !t.isPacked(required)
	defer func() {
		if !placed && awaited != nil {
			possible, refusal = false, t.waitsFor(refusal, awaited)
		}
	}()
	for i := range required {
		if refusal = t.noDomain(&required[i], settled); refusal != nil {
			others := required[i].sliceSize() > 0 && t.mayStartWithOthers()
			t.incomplete = t.incomplete || others
			return false, others, refusal
		}
	}
	for i := range t.sliced {
		if t.lacksBesideOthers(&t.sliced[i], settled) && awaited == nil {
			return false, true, nil // filters say of each node why
		}
		if refusal = t.noSlices(&t.sliced[i], settled); refusal != nil {
			others := t.mayStartWithOthers()
			t.incomplete = t.incomplete || others
			return false, others, refusal
		}
	}
	return false, !parts.impossible(), t.noChoice(required, settled)
}

// triedAll reports whether every choice of domains was tried, or numbers decide, so that the job cannot start at all.
func (t *Placer) triedAll() bool {
	return t.hasBudget() && (t.searched || !t.incomplete && sameShape(t.members) &&
		!slices.ContainsFunc(t.members, constrainsSiblings) && !slices.ContainsFunc(t.members, hasOwnStorage))
}

// isPacked reports whether the ties are of one tree, no member is in a slice and none can be left out: then each choice of their
// domains is tried.
func (t *Placer) isPacked(required []levelTie) bool {
	for i := range required {
		for j := range required[:i] {
			if !maps.Equal(required[i].members, required[j].members) && !t.nested(required[i].shared.Level, required[j].shared.Level) {
				return false // members of one shape in domains that cross each other
			}
		}
	}
	return len(t.sliced) == 0 && len(t.members) == len(t.minimum())
}

// nested reports whether two levels are of one tree.
func (t *Placer) nested(a, b string) bool {
	is := func(level *engine.Domains) bool { return level.Level == b }
	return slices.ContainsFunc(t.session.LevelsUpTo(a), is) || slices.ContainsFunc(t.session.LevelsAbove(a), is)
}

// placeTied tries the sets of domains of the ties, within those that were chosen before. Every choice counts against the limit.
func (t *Placer) placeTied(ties []levelTie, chosen regions) bool {
	if len(ties) == 0 {
		return t.placeInRankOrder(func() bool { return t.placeChosen(chosen) })
	}
	if packed, possible := t.placePacked(ties, chosen); packed || !possible {
		return packed
	}
	tie := &ties[0]
	try := func(list []int) bool {
		t.tries++
		return t.placeTied(ties[1:], chosen.with(tie.members, list))
	}
	for i, level := range tie.levels {
		for _, set := range t.domainSets(tie, level, chosen) {
			if t.exhausted() {
				t.incomplete = true
				return false
			}
			all := t.inside(level.Nodes(set.domain), tie.members, chosen)
			if few := t.fewestBelow(tie, tie.levels[:i], all); few != nil && try(few) || try(all) {
				return true
			}
		}
	}
	if tie.needs == 0 && len(ties)+len(chosen) > 1 && t.placeTied(ties[1:], chosen) {
		return true // without any of its members
	}
	if !tie.maySplit || t.exhausted() {
		return false
	}
	all := t.inside(nil, tie.members, chosen)
	few := t.fewestBelow(tie, tie.levels, all)
	return few != nil && try(few) || len(ties)+len(chosen) > 1 && try(all) // what other ties prefer may still be possible
}

// placeChosen tries to start in the domains that were chosen.
func (t *Placer) placeChosen(chosen regions) bool {
	if len(t.sliced) > 0 {
		return t.placeSliced(chosen) || t.placeOtherSlices(chosen)
	}
	return t.placeInDomain(chosen)
}

// domainSets returns the domains of a level that have capacity for the tie, the best first: those with capacity for most of
// the members that exist; where the minimum is in the fewest narrower domains; where fewest whole domains are broken; with
// least capacity left; with the best node for the first member; in order.
func (t *Placer) domainSets(tie *levelTie, level *engine.Domains, chosen regions) []domainSet {
	t.charge(len(t.session.Snapshot.Nodes) / domainDiscount)
	sets := slices.DeleteFunc(t.capacities(tie, level, chosen), func(set domainSet) bool {
		return !set.suffices() || t.isOutside(tie, level, set.domain)
	})
	if len(sets) == 0 {
		return nil
	}
	whole := t.session.Whole(level)
	var narrower []int
	if below := t.session.LevelsUpTo(level.Level); len(below) > 1 && len(tie.shapes) == 1 {
		narrower = t.narrower(tie, level, below[len(below)-2], chosen)
	}
	for i := range sets {
		sets[i].broken = whole(sets[i].domain)
		if narrower != nil {
			sets[i].narrower = narrower[sets[i].domain]
		}
	}
	slices.SortStableFunc(sets, domainSet.compare)
	t.preferBestNode(tie, level, sets)
	return sets
}

// suffices reports whether it has capacity for what the minimum needs at least.
func (s domainSet) suffices() bool { return s.lacks <= 0 }

// isOutside reports whether a domain of a narrower level than that of the tie is in none of that one, as a rack of nodes without
// the label of a block.
func (t *Placer) isOutside(tie *levelTie, level *engine.Domains, domain int) bool {
	shared := t.session.Domains(tie.shared.Level)
	narrower := slices.Index(tie.levels, level) < slices.Index(tie.levels, shared)
	return narrower && shared.Of(t.session.Snapshot.Nodes[level.Nodes(domain)[0]]) < 0
}

// narrower returns for each domain of a level in how few of those of the next narrower one the minimum fits.
func (t *Placer) narrower(tie *levelTie, level, below *engine.Domains, chosen regions) (counts []int) {
	inside := make([][]int64, level.Len())
	for domain, fits := range t.sum(&tie.shapes[0], below, tie, chosen) {
		if at := level.Of(t.session.Snapshot.Nodes[below.Nodes(domain)[0]]); at >= 0 {
			inside[at] = append(inside[at], fits)
		}
	}
	for _, fits := range inside {
		counts = append(counts, howFew(fits, tie.needs))
	}
	return counts
}

// howFew returns how many domains have capacity for the number; more than any number when all together do not have it.
func howFew(fits []int64, needs int64) int {
	taken, lasts := fewest(fits, max(1, needs))
	if lasts == nil {
		return math.MaxInt
	}
	n := 1
	for _, is := range taken {
		if is {
			n++
		}
	}
	return n
}

func (s domainSet) compare(other domainSet) int {
	return cmp.Or(cmp.Compare(other.fits, s.fits), cmp.Compare(s.narrower, other.narrower), slices.Compare(s.broken, other.broken), cmp.Compare(s.left, other.left))
}

// preferBestNode moves to the front the set that has the best node for the first member, of those that are as good as the first.
func (t *Placer) preferBestNode(tie *levelTie, level *engine.Domains, sets []domainSet) {
	var list []int
	n := 0
	for ; n < len(sets) && sets[n].compare(sets[0]) == 0; n++ {
		list = append(list, level.Nodes(sets[n].domain)...)
	}
	if n < 2 {
		return
	}
	slices.Sort(list)
	node := t.ask.BestOf(tie.shapes[0].tasks[0], list)
	if node == nil {
		return
	}
	at := slices.IndexFunc(sets, func(set domainSet) bool { return set.domain == level.Of(node) })
	best := sets[at]
	copy(sets[1:at+1], sets[:at])
	sets[0] = best
}

// fewestBelow returns those of the nodes that are in as few domains of each of the levels as suffice for the minimum, from the
// widest level on. levels are the narrowest first. It returns nil where that is of no use: there is none, or several shapes need
// capacity.
func (t *Placer) fewestBelow(tie *levelTie, levels []*engine.Domains, nodes []int) (few []int) {
	if len(tie.shapes) > 1 {
		return nil
	}
	for i, level := range slices.Backward(levels) {
		taken, lasts := fewest(sumOver(&tie.shapes[0], level, nodes), max(1, tie.needs))
		if lasts == nil {
			return few
		}
		few = t.among(nodes, level, taken, lasts[0])
		least := math.MaxInt
		for _, last := range lasts[:min(len(lasts), maxLasts)] {
			if i == 0 {
				break // there are no narrower domains
			}
			other := t.among(nodes, level, taken, last)
			if n := howFew(sumOver(&tie.shapes[0], levels[i-1], other), tie.needs); n < least {
				few, least = other, n
			}
		}
		nodes = few
	}
	return few
}

// maxLasts is for how many domains, of which one is the last that is taken, the number of narrower ones is compared.
const maxLasts = 8

// among returns those of the nodes that are in the domains which are taken, and in a last one.
func (t *Placer) among(nodes []int, level *engine.Domains, taken []bool, last int) []int {
	return slices.DeleteFunc(slices.Clone(nodes), func(node int) bool {
		domain := level.At(node)
		return domain < 0 || !taken[domain] && domain != last
	})
}

// fewest returns as few domains as have capacity for the number: the roomiest, and for what is left of it those of which any one
// suffices as the last, those with the least capacity first. There are no last ones when all together do not have it.
func fewest(fits []int64, needs int64) (taken []bool, lasts []int) {
	taken = make([]bool, len(fits))
	roomiest := descending(fits)
	for len(roomiest) > 0 && fits[roomiest[0]] < needs {
		taken[roomiest[0]] = true
		needs -= fits[roomiest[0]]
		roomiest = roomiest[1:]
	}
	for _, domain := range roomiest {
		if fits[domain] >= needs {
			lasts = append(lasts, domain)
		}
	}
	slices.SortStableFunc(lasts, func(a, b int) int { return cmp.Compare(fits[a], fits[b]) })
	return taken, lasts
}
