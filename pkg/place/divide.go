package place

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Members of one shape may share domains in several parts: roles with a rack each, slices of several roles, a rack for one
// role and a clique for another one. For a choice of a domain for each part numbers decide. For few parts all choices are
// tried.

// maxParts is for how many parts all choices of domains are tried.
const maxParts = 8

// part is members of the minimum that share a domain.
type part struct {
	// level is the number of the level of the domain, at that of the domain, -1 before one is chosen.
	level, at int
	members   int64
	// domains are those with capacity for its members by themselves.
	domains []int
}

// mixture is members that are in the same parts.
type mixture struct {
	parts   []int
	members int64
	tasks   []*model.Task
}

// nodeCell is nodes that are in the same domains of all levels.
type nodeCell struct {
	at    []int
	nodes []int
	fits  int64
}

// division is the search for the domains of parts.
type division struct {
	*Placer
	levels []*engine.Domains
	parts  []part
	// open are the parts for which a domain is to be chosen: those with the fewest to choose from first, of these the largest.
	open     []int
	mixtures []mixture
	cells    []nodeCell
	// dealt is how many members of each mixture go to each cell by the domains that are chosen, left what remains of each cell.
	dealt [][]int64
	left  []int64
	tried []bool // cells, as one more member looks for a place
	// found reports that a choice was found, exact that all were tried; seen are those after which nothing was found.
	found, exact bool
	seen         map[string]bool
}

// divide looks for domains of the parts of the minimum; nil where there are too many, where members differ, and where the
// capacity of each domain alone decides or parts are packed: none of them has a domain already, in which others leave room for
// it.
func (t *Placer) divide(required []levelTie, settled regions) *division {
	members := t.minimum()
	if !areAlike(members) || t.isCounted(required) || len(settled) == 0 && len(t.sliced) == 0 && arePacked(required) {
		return nil
	}
	return t.newDivision(members, t.fitsOf(members))
}

// areAlike reports whether numbers alone decide where members may be, and the same ones for all; false where there are none.
func areAlike(members []*model.Task) bool {
	return len(members) > 0 && sameShape(members) && !slices.ContainsFunc(members, func(task *model.Task) bool {
		return task.Invalid != nil || constrainsSiblings(task) || hasOwnStorage(task)
	})
}

// newDivision looks for domains of the parts of members of which so many fit on each node; nil where there are too many parts.
func (t *Placer) newDivision(members []*model.Task, fits []int32) *division {
	d := &division{Placer: t, exact: len(members) == len(t.members)}
	d.addParts(members)
	if len(d.open) > maxParts {
		return nil
	}
	d.addCells(fits)
	d.choose()
	return d
}

// isCounted reports whether capacity by domain, or by cells of slices, decides about members of one shape: all of them are in one
// part, or in whole slices. A domain in which some of the members have to be and others need not, since one of the former has a
// node there, is shared capacity as that of an open part is.
func (t *Placer) isCounted(required []levelTie) bool {
	_, entries := t.settled(t.members)
	for i := range required {
		entries = append(entries, required[i].shared)
	}
	for i := range t.sliced {
		if len(t.sliced) > 1 || !t.sliced[i].regular || len(t.sliced[i].tasks) < len(t.minimum()) {
			return false
		}
		for _, entry := range t.sliced[i].entries {
			entries = append(entries, entry.shared)
		}
	}
	return !slices.ContainsFunc(entries, func(entry *model.TopologyConstraint) bool {
		return slices.ContainsFunc(t.members, func(task *model.Task) bool { return !entry.Covers(task) })
	})
}

// addParts divides the members into parts.
func (d *division) addParts(members []*model.Task) {
	numbers := map[sliceNumber]int{}
	for _, task := range members {
		var parts []int
		for i := range d.job.Topology {
			shared := &d.job.Topology[i]
			if !shared.Covers(task) || shared.Preferred && !awaits(d.job, shared, d.session.Snapshot.Now) {
				continue
			}
			of := sliceNumber{shared, d.slice(shared, task)}
			number, known := numbers[of]
			if !known {
				level := d.session.Domains(shared.Level)
				if !slices.Contains(d.levels, level) {
					d.levels = append(d.levels, level)
				}
				number = len(d.parts)
				numbers[of] = number
				d.parts = append(d.parts, part{level: slices.Index(d.levels, level), at: d.ask.SharedDomain(shared, of.number)})
				if d.parts[number].at < 0 {
					d.open = append(d.open, number)
				}
			}
			d.parts[number].members++
			parts = append(parts, number)
		}
		i := slices.IndexFunc(d.mixtures, func(other mixture) bool { return slices.Equal(other.parts, parts) })
		if i < 0 {
			i = len(d.mixtures)
			d.mixtures = append(d.mixtures, mixture{parts: parts})
		}
		d.mixtures[i].tasks = append(d.mixtures[i].tasks, task)
		d.mixtures[i].members++
	}
}

// addCells divides the nodes on which members fit.
func (d *division) addCells(fits []int32) {
	groups, numbers := map[[2]int]int{}, map[int]int{} // by the group for the levels before and the domain; of cells, by the last group
	for i, n := range fits {
		if n <= 0 {
			continue
		}
		group := 0
		for _, level := range d.levels {
			next := [2]int{group, level.At(i)}
			if groups[next] == 0 {
				groups[next] = len(groups) + 1
			}
			group = groups[next]
		}
		c, known := numbers[group]
		if !known {
			c = len(d.cells)
			numbers[group] = c
			d.cells = append(d.cells, nodeCell{})
			for _, level := range d.levels {
				d.cells[c].at = append(d.cells[c].at, level.At(i))
			}
		}
		d.cells[c].nodes = append(d.cells[c].nodes, i)
		d.cells[c].fits += int64(n)
	}
}

// choose looks for a choice of domains. A part that no domain has capacity for ends the search at once.
func (d *division) choose() {
	for _, number := range d.open {
		one := &d.parts[number]
		for domain, fits := range d.capacities(one.level) {
			if fits >= one.members {
				one.domains = append(one.domains, domain)
			}
		}
	}
	slices.SortStableFunc(d.open, func(a, b int) int {
		one, other := &d.parts[a], &d.parts[b]
		return cmp.Or(cmp.Compare(len(one.domains), len(other.domains)), cmp.Compare(other.members, one.members))
	})
	d.left, d.tried, d.seen = make([]int64, len(d.cells)), make([]bool, len(d.cells)), map[string]bool{}
	for range d.mixtures {
		d.dealt = append(d.dealt, make([]int64, len(d.cells)))
	}
	d.found = d.search(0)
}

// capacities returns for how many members the domains of a level have capacity.
func (d *division) capacities(level int) []int64 {
	holds := make([]int64, d.levels[level].Len())
	for i := range d.cells {
		if domain := d.cells[i].at[level]; domain >= 0 {
			holds[domain] += d.cells[i].fits
		}
	}
	return holds
}

// search chooses domains for the open parts from one on. It is cut off where numbers rule out what is chosen so far.
func (d *division) search(next int) bool {
	key := d.chosen(next)
	if d.seen[key] {
		return false
	}
	d.seen[key] = true
	d.spend(1 + len(d.cells)*len(d.mixtures)/4) // about as long as so many looks at nodes
	if !d.deal() {
		return false
	}
	if next == len(d.open) {
		return true
	}
	one := &d.parts[d.open[next]]
	for _, domain := range one.domains {
		if !d.hasBudget() {
			d.exact = false
			break
		}
		if one.at = domain; d.search(next + 1) {
			return true
		}
	}
	one.at = -1
	return false
}

// chosen is what the choices so far mean for those that follow: of one level, and parts that share no members, how much capacity
// the domains have left, whichever they are; else how many members are in which domains.
func (d *division) chosen(next int) string {
	key := binary.AppendVarint(nil, int64(next))
	if len(d.levels) == 1 && !slices.ContainsFunc(d.mixtures, func(m mixture) bool { return len(m.parts) > 1 }) {
		left := d.capacities(0)
		for _, one := range d.parts {
			if one.at >= 0 && one.at < len(left) { // a domain whose labels are gone has no capacity to take from
				left[one.at] -= one.members
			}
		}
		slices.Sort(left)
		for _, fits := range left {
			key = binary.AppendVarint(key, fits)
		}
		return string(key)
	}
	members := map[string]int64{}
	var texts []string
	for _, m := range d.mixtures {
		var text []byte
		for _, number := range m.parts {
			one := &d.parts[number]
			if text = binary.AppendVarint(binary.AppendVarint(text, int64(one.level)), int64(one.at)); one.at < 0 {
				text = binary.AppendVarint(text, int64(number))
			}
		}
		if members[string(text)] == 0 {
			texts = append(texts, string(text))
		}
		members[string(text)] += m.members
	}
	slices.Sort(texts)
	for _, text := range texts {
		key = binary.AppendVarint(writeText(key, []byte(text), true), members[text])
	}
	return string(key)
}

// deal sets how many members of each mixture go to each cell by the domains that are chosen, those of the other parts in any. It
// reports whether they have capacity. Members that are dealt already are moved to another cell where others have no other.
func (d *division) deal() bool {
	for i := range d.cells {
		d.left[i] = d.cells[i].fits
	}
	for m := range d.dealt {
		clear(d.dealt[m])
	}
	for m := range d.mixtures {
		members := d.mixtures[m].members
		for c := range d.cells {
			if d.allows(m, c) {
				n := min(members, d.left[c])
				d.dealt[m][c], d.left[c], members = n, d.left[c]-n, members-n
			}
		}
		for members > 0 {
			clear(d.tried)
			n := d.put(m, members)
			if n == 0 {
				return false
			}
			members -= n
		}
	}
	return true
}

// put deals up to so many more members of a mixture to one cell, and returns how many; 0 when no cell has capacity for any.
func (d *division) put(m int, members int64) int64 {
	for c := range d.cells {
		if d.tried[c] || !d.allows(m, c) {
			continue
		}
		d.tried[c] = true
		n := min(members, d.left[c])
		d.left[c] -= n
		for other := 0; other < len(d.dealt) && n == 0; other++ {
			if other != m && d.dealt[other][c] > 0 {
				n = d.put(other, min(members, d.dealt[other][c]))
				d.dealt[other][c] -= n
			}
		}
		if d.dealt[m][c] += n; n > 0 {
			return n
		}
	}
	return 0
}

// allows reports whether members of a mixture may be in a cell.
func (d *division) allows(m, c int) bool {
	for _, number := range d.mixtures[m].parts {
		one := &d.parts[number]
		if at := d.cells[c].at[one.level]; at < 0 || one.at >= 0 && at != one.at {
			return false
		}
	}
	return true
}

// impossible reports whether all choices were tried, and none has capacity; false where d is nil.
func (d *division) impossible() bool { return d != nil && d.exact && !d.found }

// placeDivided tries to start in the domains that were found.
func (t *Placer) placeDivided(d *division) bool {
	if d == nil || !d.found {
		return false
	}
	t.incomplete = true // where filters refuse what numbers allow
	return t.placeInRankOrder(func() bool {
		return t.session.Try(func(statement *engine.Statement) *model.Refusal {
			for m, dealt := range d.dealt {
				left := d.mixtures[m].tasks
				for c, n := range dealt {
					if !t.placeAll(statement, left[:n], d.cells[c].nodes) {
						return noneOfDomain
					}
					left = left[n:]
				}
			}
			return t.session.JobReady(t.job, t.readiness())
		}) == nil
	})
}
