package place

import (
	"cmp"
	"math"
	"slices"
)

// This file counts whole slices. A slice is members with neighbouring indexes that share a domain; slices of several sizes nest
// in each other. A cell is the nodes that are in one domain of each of the levels whose slices are as large as its own, or
// larger. For members of one shape, with sizes that divide each other, the numbers decide: from the smallest slices upwards, each
// domain has capacity for as many whole ones as its capacity for smaller ones allows. Only the last slice may be smaller than its
// size; a cell has capacity for every number of members up to holds.

// cell is nodes in which slices of one size are placed, or, at the leaves, single members.
type cell struct {
	// domain is its number in its level.
	domain int
	// size is that of the slices which its parts hold, 0 at a leaf.
	size  int64
	parts []*cell
	// nodes are those of a leaf, by index, in ascending order.
	nodes []int
	// whole is for how many members there is capacity in whole slices of the parts, holds with a last one that is smaller.
	whole, holds int64
}

// slots returns how many whole slices of a size the cell has capacity for.
func (c *cell) slots(size int64) int64 { return c.whole / size }

// rest returns for how many members more there is capacity than in these slices.
func (c *cell) rest(size int64) int64 { return c.holds - c.slots(size)*size }

// cellLevel is slices of one size in the domains of one level.
type cellLevel struct {
	size int64
	// domain returns the number of a node's domain, -1 when it is in none.
	domain func(node int) int
}

// newCell divides nodes by the levels, those with the largest slices first. fits is how many members fit on each node.
func newCell(levels []cellLevel, fits []int32, nodes []int) *cell {
	c := &cell{}
	if len(levels) == 0 {
		c.nodes = nodes
		for _, node := range nodes {
			c.whole += int64(fits[node])
		}
		c.holds = c.whole
		return c
	}
	c.size = levels[0].size
	parts := divided(levels[0].domain, fits, nodes)
	c.parts = make([]*cell, 0, len(parts))
	for _, part := range parts {
		one := newCell(levels[1:], fits, part)
		one.domain = levels[0].domain(part[0])
		c.parts = append(c.parts, one)
		c.whole += one.slots(c.size) * c.size
		c.holds = max(c.holds, one.rest(c.size))
	}
	c.holds += c.whole
	return c
}

// divided returns the nodes on which members fit by their domain, in the order of the domains.
func divided(domain func(node int) int, fits []int32, nodes []int) (parts [][]int) {
	least, most := math.MaxInt, -1 // mostly a few neighbouring domains of many
	for _, node := range nodes {
		if at := domain(node); at >= 0 && fits[node] > 0 {
			least, most = min(least, at), max(most, at)
		}
	}
	if most < 0 {
		return nil
	}
	sizes := make([]int, most-least+1)
	for _, node := range nodes {
		if at := domain(node); at >= 0 && fits[node] > 0 {
			sizes[at-least]++
		}
	}
	space := make([]int, len(nodes))
	parts = make([][]int, len(sizes))
	for i, size := range sizes {
		parts[i], space = space[:0:size], space[size:]
	}
	for _, node := range nodes {
		if at := domain(node); at >= 0 && fits[node] > 0 {
			parts[at-least] = append(parts[at-least], node)
		}
	}
	return slices.DeleteFunc(parts, func(part []int) bool { return len(part) == 0 })
}

// share is how many members go to the nodes of a leaf.
type share struct {
	nodes   []int
	members int64
}

// deal returns where so many members go, no more than the cell holds, in the order of their indexes: into as few parts as
// possible, these in their order; the last slice, if it is smaller than the others, in the last part.
func (c *cell) deal(members int64) (shares []share) {
	if c.size == 0 {
		return []share{{c.nodes, members}}
	}
	count, smaller := members/c.size, members%c.size
	roomiest := slices.Clone(c.parts)
	slices.SortStableFunc(roomiest, func(a, b *cell) int {
		return cmp.Or(cmp.Compare(b.slots(c.size), a.slots(c.size)), cmp.Compare(a.holds, b.holds))
	})
	var last *cell
	taken := map[*cell]int64{} // whole slices, by part
	if smaller > 0 {
		last = c.lastPart(roomiest, count, smaller)
		taken[last] = min(count, c.besides(last, smaller))
		count -= taken[last]
	}
	for i, part := range roomiest {
		if count == 0 || part == last {
			continue
		}
		if slots := part.slots(c.size); slots < count {
			taken[part] = slots
			count -= slots
			continue
		}
		tightest := part
		for _, other := range roomiest[i+1:] {
			if slots := other.slots(c.size); other != last && slots >= count && slots < tightest.slots(c.size) {
				tightest = other
			}
		}
		taken[tightest] += count
		count = 0
	}
	for _, part := range c.parts {
		if part != last && taken[part] > 0 {
			shares = append(shares, part.deal(taken[part]*c.size)...)
		}
	}
	if last != nil {
		shares = append(shares, last.deal(taken[last]*c.size+smaller)...)
	}
	return shares
}

// besides returns how many whole slices a part has capacity for beside a smaller one of so many members; -1 when it has none for
// that.
func (c *cell) besides(part *cell, smaller int64) int64 {
	if part.rest(c.size) >= smaller {
		return part.slots(c.size)
	}
	return part.slots(c.size) - 1
}

// lastPart returns the part for the slice that is smaller: of those that leave capacity for the others, one with which they take
// the fewest parts, and of these the one with the least left over.
func (c *cell) lastPart(roomiest []*cell, count, smaller int64) (last *cell) {
	sums := []int64{0} // whole slices in the first of the roomiest
	for _, part := range roomiest {
		sums = append(sums, sums[len(sums)-1]+part.slots(c.size))
	}
	var fewest int
	var left int64
	for i, part := range roomiest {
		besides := c.besides(part, smaller)
		if besides < 0 || sums[len(roomiest)]-part.slots(c.size)+besides < count {
			continue
		}
		needs := max(0, count-besides)
		parts, _ := slices.BinarySearch(sums, needs)
		if parts > i { // this part is among them
			parts, _ = slices.BinarySearch(sums, needs+part.slots(c.size))
			parts--
		}
		if rest := part.holds - min(count, besides)*c.size - smaller; last == nil || parts < fewest || parts == fewest && rest < left {
			last, fewest, left = part, parts, rest
		}
	}
	return last
}
