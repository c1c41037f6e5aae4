package shares

// Compute divides the supply of each resource among the queues, from the top down. Missing and negative supplies count as 0. It
// reports whether there was anything to compute: nothing is done if nothing changed since the last time.
//
// It takes O(n log n) time for n queues, for each resource.
func (t *Tree) Compute(supply []int64) (computed bool) {
	for r := range t.supply {
		available := int64(0)
		if r < len(supply) {
			available = max(0, supply[r])
		}
		if t.supply[r] != available {
			t.supply[r], t.current = available, false
		}
	}
	if t.current {
		return false
	}
	t.current = true
	t.group()
	t.gather()
	t.divisions = zeroed(t.divisions, (len(t.queues)+1)*t.resources)
	t.divide(Root, t.children[:t.topmost()])
	for i := range t.queues {
		q := &t.queues[i]
		t.divide(i, t.children[q.first:q.last])
	}
	return true
}

// topmost returns how many queues have no parent. Their numbers are the first in children.
func (t *Tree) topmost() int {
	if len(t.queues) == 0 {
		return 0
	}
	return t.queues[0].first
}

// group orders children by parent: those of Root, then those of each queue.
func (t *Tree) group() {
	topmost := 0
	for i := range t.queues {
		t.queues[i].last = 0
	}
	for i := range t.queues {
		if parent := t.queues[i].parent; parent != Root {
			t.queues[parent].last++ // a count, as yet
		} else {
			topmost++
		}
	}
	end := topmost
	for i := range t.queues {
		q := &t.queues[i]
		count := q.last
		q.first, q.last = end, end
		end += count
	}
	t.children = zeroed(t.children, len(t.queues))
	next := 0
	for i := range t.queues {
		if parent := t.queues[i].parent; parent != Root {
			t.children[t.queues[parent].last] = i
			t.queues[parent].last++
		} else {
			t.children[next] = i
			next++
		}
	}
}

// gather adds up guarantees, usage and demand from the leaves to the topmost queues. A parent has a lower number than its
// children.
func (t *Tree) gather() {
	t.parts, t.guaranteed = zeroed(t.parts, len(t.amounts)), zeroed(t.guaranteed, t.resources)
	for i := len(t.queues) - 1; i >= 0; i-- {
		parent := t.queues[i].parent
		for r := range t.resources {
			own, p := &t.amounts[t.at(i, r)], &t.parts[t.at(i, r)]
			t.guaranteed[r] = t.guaranteed[r] || own.Guarantee > 0
			p.Guarantee = max(own.Guarantee, p.Guarantee)
			p.Usage, p.Demand = sum(p.Usage, own.Usage), sum(p.Demand, own.Demand)
			p.Ceiling = min(p.Demand, own.Limit)
			p.AboveLimit = p.Usage > p.Ceiling
			if parent != Root {
				of := &t.parts[t.at(parent, r)]
				of.Guarantee, of.Usage = sum(of.Guarantee, p.Guarantee), sum(of.Usage, p.Usage)
				of.Demand = sum(of.Demand, p.Ceiling)
			}
		}
	}
}

// divide divides the share of a queue, or the supply, among its children.
func (t *Tree) divide(parent int, children []int) {
	if len(children) == 0 {
		return
	}
	t.results = zeroed(t.results, len(children))
	for r := range t.resources {
		t.claims = t.claims[:0]
		for _, child := range children {
			p := &t.parts[t.at(child, r)]
			t.claims = append(t.claims, claim{
				weight: t.queues[child].weight, guarantee: p.Guarantee, wanted: min(p.Guarantee, p.Ceiling), most: p.Ceiling, held: p.Usage,
			})
		}
		t.divisions[t.at(parent+1, r)] = t.divider.divide(t.available(parent, r), t.claims, t.results)
		for i, child := range children {
			p := &t.parts[t.at(child, r)]
			p.Floor, p.Share = t.results[i].floor, t.results[i].share
		}
	}
}

// available returns what the children of a queue divide: its share, less what its own jobs use, which no child can have.
func (t *Tree) available(parent, resource int) int64 {
	if parent == Root {
		return t.supply[resource]
	}
	at := t.at(parent, resource)
	return max(0, t.parts[at].Share-t.amounts[at].Usage)
}

// AddUsage adds changes, by resource, to the usage of a queue and of all above it, without a Compute: shares do not change when
// jobs start that were in the demand already. Missing changes are 0. It must not come between a change of amounts and Compute.
func (t *Tree) AddUsage(queue int, changes []int64) {
	for r, change := range changes {
		if change == 0 {
			continue
		}
		own := &t.amounts[t.at(queue, r)]
		own.Usage = sum(own.Usage, change)
		if t.queues[queue].first != t.queues[queue].last {
			t.current = false
		}
		for above := queue; above != Root; above = t.queues[above].parent {
			p := &t.parts[t.at(above, r)]
			p.Usage = sum(p.Usage, change)
		}
	}
}

// zeroed returns a slice of n zeros, s itself if it is long enough.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
