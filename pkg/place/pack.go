package place

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
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
	at := bestFit(sizes, capacities)
	if at == nil {
		d := t.newPacking(level, sizes, capacities)
		if !d.found {
			return false, !d.exact
		}
		for i := range d.parts {
			at = append(at, d.parts[i].at)
		}
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

// newPacking looks for domains of parts that share no members, so that numbers decide. There are as many domains to choose from
// as there are parts, the roomiest: where any choice suffices, one of these does.
func (t *Placer) newPacking(level *engine.Domains, sizes, capacities []int64) *division {
	d := &division{Placer: t, levels: []*engine.Domains{level}, exact: true}
	for i, size := range sizes {
		d.parts = append(d.parts, part{at: -1, members: size})
		d.mixtures = append(d.mixtures, mixture{parts: []int{i}, members: size})
		d.open = append(d.open, i)
	}
	roomiest := descending(capacities)
	for _, domain := range roomiest[:min(len(roomiest), len(sizes))] {
		d.cells = append(d.cells, nodeCell{at: []int{domain}, fits: capacities[domain]})
	}
	d.choose()
	return d
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

// bestFit returns for parts of these sizes in which domain each may be: the largest part first, each in the domain with the least
// capacity that suffices, so that little is left over. It is nil where one finds none.
func bestFit(sizes, capacities []int64) (at []int) {
	left := slices.Clone(capacities)
	at = make([]int, len(sizes))
	for _, part := range descending(sizes) {
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
