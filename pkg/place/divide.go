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
	// entry is the number of the entry of the topology by which they do, at the number of the domain, -1 before one is chosen.
	entry, at int
	members   int
	// domains are those with capacity for its members by themselves.
	domains []int
}

// mixture is members that are in the same parts.
type mixture struct {
	parts []int
	tasks []*model.Task
}

// nodeCell is nodes that are in the same domains of all entries.
type nodeCell struct {
	at    []int
	nodes []int
	fits  int64
}

// division is the search for the domains of parts.
type division struct {
	*Placer
	levels []*engine.Domains // by entry, nil where it requires nothing
	parts  []part
	// open are the parts for which a domain is to be chosen: those with the fewest to choose from first, of these the largest.
	open     []int
	mixtures []mixture
	cells    []nodeCell
	// dealt is how many members of each mixture go to each cell; nil when there is no choice.
	dealt [][]int64
	// exact reports that all choices were tried, seen are those after which nothing was found.
	exact bool
	seen  map[string]bool
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
	d := &division{Placer: t, seen: map[string]bool{}, exact: len(members) == len(t.members)}
	d.addParts(members)
	if len(d.open) > maxParts {
		return nil
	}
	d.addCells(fits)
	d.orderParts()
	d.search(0)
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
	d.levels = make([]*engine.Domains, len(d.job.Topology))
	required := make([]bool, len(d.job.Topology))
	for i := range d.job.Topology {
		required[i] = !d.job.Topology[i].Preferred || awaits(d.job, &d.job.Topology[i], d.session.Snapshot.Now)
	}
	numbers := map[[2]int]int{}
	for _, task := range members {
		var parts []int
		for i := range d.job.Topology {
			shared := &d.job.Topology[i]
			if !required[i] || !shared.Covers(task) {
				continue
			}
			slice := 0
			if shared.SliceSize > 0 {
				slice = d.slice(shared, task)
			}
			number, known := numbers[[2]int{i, slice}]
			if !known {
				number = len(d.parts)
				numbers[[2]int{i, slice}] = number
				d.levels[i] = d.session.Domains(shared.Level)
				d.parts = append(d.parts, part{entry: i, at: d.ask.SharedDomain(shared, slice)})
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
	}
	for i := range d.parts {
		if d.parts[i].at < 0 {
			d.open = append(d.open, i)
		}
	}
}

// addCells divides the nodes on which members fit.
func (d *division) addCells(fits []int32) {
	numbers := map[string]int{}
	for i := range d.session.Snapshot.Nodes {
		if fits[i] <= 0 {
			continue
		}
		at, key := make([]int, len(d.levels)), []byte(nil)
		for entry, level := range d.levels {
			if level != nil {
				at[entry] = level.At(i)
			}
			key = binary.AppendVarint(key, int64(at[entry]))
		}
		c, known := numbers[string(key)]
		if !known {
			c = len(d.cells)
			numbers[string(key)] = c
			d.cells = append(d.cells, nodeCell{at: at})
		}
		d.cells[c].nodes = append(d.cells[c].nodes, i)
		d.cells[c].fits += int64(fits[i])
	}
}

// orderParts finds the domains of the open parts: a part that no domain has capacity for ends the search at once.
func (d *division) orderParts() {
	for _, number := range d.open {
		one := &d.parts[number]
		holds := make([]int64, d.levels[one.entry].Len())
		for i := range d.cells {
			if domain := d.cells[i].at[one.entry]; domain >= 0 {
				holds[domain] += d.cells[i].fits
			}
		}
		for domain, fits := range holds {
			if fits >= int64(one.members) {
				one.domains = append(one.domains, domain)
			}
		}
	}
	slices.SortStableFunc(d.open, func(a, b int) int {
		one, other := &d.parts[a], &d.parts[b]
		return cmp.Or(cmp.Compare(len(one.domains), len(other.domains)), cmp.Compare(other.members, one.members))
	})
}

// search chooses domains for the open parts from one on. It is cut off where numbers rule out what is chosen so far.
func (d *division) search(next int) bool {
	d.spend(1 + len(d.cells)*len(d.mixtures)/4) // about as long as so many looks at nodes
	dealt := d.deal()
	if dealt == nil || next == len(d.open) {
		d.dealt = dealt
		return dealt != nil
	}
	key := d.chosen(next)
	if d.seen[key] {
		return false
	}
	one := &d.parts[d.open[next]]
	for _, domain := range one.domains {
		if !d.hasBudget() {
			d.exact = false
			break
		}
		one.at = domain
		if d.search(next + 1) {
			return true
		}
	}
	one.at, d.dealt, d.seen[key] = -1, nil, true
	return false
}

// chosen is what the choices so far mean for those that follow: how many members are in which domains.
func (d *division) chosen(next int) string {
	members := map[string]int{}
	var texts []string
	for _, m := range d.mixtures {
		var text []byte
		for _, number := range m.parts {
			one := &d.parts[number]
			if text = binary.AppendVarint(binary.AppendVarint(text, int64(one.entry)), int64(one.at)); one.at < 0 {
				text = binary.AppendVarint(text, int64(number))
			}
		}
		if members[string(text)] == 0 {
			texts = append(texts, string(text))
		}
		members[string(text)] += len(m.tasks)
	}
	slices.Sort(texts)
	key := binary.AppendVarint(nil, int64(next))
	for _, text := range texts {
		key = binary.AppendVarint(writeText(key, []byte(text), true), int64(members[text]))
	}
	return string(key)
}

// deal returns how many members of each mixture go to each cell by the domains that are chosen, those of the other parts in
// any; nil when they have no capacity. Members that are dealt already are moved to another cell where others have no other.
func (d *division) deal() (dealt [][]int64) {
	left := make([]int64, len(d.cells))
	for i := range d.cells {
		left[i] = d.cells[i].fits
	}
	dealt = make([][]int64, len(d.mixtures))
	for i := range dealt {
		dealt[i] = make([]int64, len(d.cells))
	}
	var put func(m int, members int64, tried []bool) int64
	put = func(m int, members int64, tried []bool) int64 {
		for c := range d.cells {
			if tried[c] || !d.allows(m, c) {
				continue
			}
			tried[c] = true
			n := min(members, left[c])
			left[c] -= n
			for other := 0; other < len(dealt) && n == 0; other++ {
				if other != m && dealt[other][c] > 0 {
					n = put(other, min(members, dealt[other][c]), tried)
					dealt[other][c] -= n
				}
			}
			if dealt[m][c] += n; n > 0 {
				return n
			}
		}
		return 0
	}
	for m := range d.mixtures {
		members := int64(len(d.mixtures[m].tasks))
		for c := range d.cells {
			if d.allows(m, c) {
				n := min(members, left[c])
				dealt[m][c], left[c], members = n, left[c]-n, members-n
			}
		}
		for members > 0 {
			n := put(m, members, make([]bool, len(d.cells)))
			if n == 0 {
				return nil
			}
			members -= n
		}
	}
	return dealt
}

// allows reports whether members of a mixture may be in a cell.
func (d *division) allows(m, c int) bool {
	for _, number := range d.mixtures[m].parts {
		one := &d.parts[number]
		if at := d.cells[c].at[one.entry]; at < 0 || one.at >= 0 && at != one.at {
			return false
		}
	}
	return true
}

// impossible reports whether all choices were tried, and none has capacity; false where d is nil.
func (d *division) impossible() bool { return d != nil && d.exact && d.dealt == nil }

// placeDivided tries to start in the domains that were found.
func (t *Placer) placeDivided(d *division) bool {
	if d == nil || d.dealt == nil {
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
