package place

import (
	"cmp"
	"fmt"
	"slices"
)

// placePacked tries to start ties that share no members in domains that have capacity for all of them together. possible is false
// where numbers say that there are none.
func (t *Placer) placePacked(ties []levelTie, chosen regions) (placed, possible bool) {
	if !arePacked(ties) {
		return false, true
	}
	level := t.session.Domains(ties[0].shared.Level)
	capacities := t.sum(&ties[0].shapes[0], level, &ties[0], chosen)
	var sizes []int64
	for i := range ties {
		if i > 0 && !slices.Equal(t.sum(&ties[i].shapes[0], level, &ties[i], chosen), capacities) {
			return false, true // a domain was chosen for some of them alone
		}
		sizes = append(sizes, ties[i].needs)
	}
	at, exact := t.pack(sizes, capacities)
	if at == nil {
		return false, !exact
	}
	for i := range ties {
		chosen = chosen.with(ties[i].members, level.Nodes(at[i]))
	}
	t.tries++
	return t.placeTied(nil, chosen), true
}

// arePacked reports whether the ties must share domains of one level, share no members with each other, and have one shape
// without slices, so that numbers decide about all of them together.
func arePacked(ties []levelTie) bool {
	if len(ties) < 2 {
		return false
	}
	for i := range ties {
		one := &ties[i]
		if one.maySplit || one.needs == 0 || one.shared.Level != ties[0].shared.Level || len(one.shapes) > 1 || one.shapes[0].slices != nil ||
			one.shapes[0].table == nil || one.shapes[0].tasks[0].Shape != ties[0].shapes[0].tasks[0].Shape {
			return false
		}
		for j := range ties[:i] {
			if intersects(one.members, ties[j].members) {
				return false
			}
		}
	}
	return true
}

// packing is the search for domains for parts, such as the members of one role each, that do not share members. All have one
// shape, so that numbers decide.
type packing struct {
	*Placer
	// sizes are those of the parts, the largest first; left is what the domains have capacity for still.
	sizes, left []int64
	// at is the domain of each part, -1 before it has one.
	at   []int
	seen map[string]bool
	// exact reports that all choices were tried; the budget ends that.
	exact bool
}

// pack returns for parts of these sizes in which domain each may be; nil when there is no such choice. exact is false when not
// all choices were tried. First each part goes to the domain with the least capacity that suffices, the largest part first, so
// that little is left over. If that fails all choices are tried, among the roomiest domains alone, as many as there are parts:
// where any choice suffices, one of these does.
func (t *Placer) pack(sizes, capacities []int64) (at []int, exact bool) {
	order := descending(sizes)
	if at = bestFit(sizes, order, capacities); at != nil {
		return at, true
	}
	roomiest := descending(capacities)
	roomiest = roomiest[:min(len(roomiest), len(sizes))]
	p := packing{Placer: t, seen: map[string]bool{}, exact: true}
	for _, part := range order {
		p.sizes, p.at = append(p.sizes, sizes[part]), append(p.at, -1)
	}
	for _, domain := range roomiest {
		p.left = append(p.left, capacities[domain])
	}
	if !p.search(0) {
		return nil, p.exact
	}
	at = make([]int, len(sizes))
	for i, part := range order {
		at[part] = roomiest[p.at[i]]
	}
	return at, true
}

// descending returns the positions of the numbers, the largest first.
func descending(numbers []int64) []int {
	order := make([]int, len(numbers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(numbers[b], numbers[a]) })
	return order
}

func bestFit(sizes []int64, order []int, capacities []int64) (at []int) {
	left := slices.Clone(capacities)
	at = make([]int, len(sizes))
	for _, part := range order {
		tightest := -1
		for domain, fits := range left {
			if fits >= sizes[part] && (tightest < 0 || fits < left[tightest]) {
				tightest = domain
			}
		}
		if tightest < 0 {
			return nil
		}
		left[tightest] -= sizes[part]
		at[part] = tightest
	}
	return at
}

func (p *packing) search(part int) bool {
	if part == len(p.sizes) {
		return true
	}
	state := fmt.Sprint(part, slices.Sorted(slices.Values(p.left)))
	if p.exact = p.exact && p.hasBudget(); p.seen[state] || !p.exact {
		return false
	}
	p.spend(2 * len(p.left)) // about as long as so many looks at nodes
	for domain, fits := range p.left {
		if fits < p.sizes[part] || slices.Contains(p.left[:domain], fits) {
			continue // there is none, or one like it was tried
		}
		p.at[part], p.left[domain] = domain, fits-p.sizes[part]
		if p.search(part + 1) {
			return true
		}
		p.left[domain] = fits
	}
	p.seen[state] = true
	return false
}
