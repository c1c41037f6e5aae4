package engine

import (
	"container/heap"
	"iter"
	"math"
	"math/bits"
)

// winnerTree knows the best of many nodes. Nodes enter with new sums, any number of them, and then it is played: each
// group whose best may be another is looked at once, level by level, so that what is read from memory is read in its order
// and nothing waits for anything else.
//
// Invariant: after play, each entry above the first level is the best of its group.
type winnerTree struct {
	// levels: the first has the nodes, the next an entry for each group of the one before, and the last one entry. Each is
	// filled up to whole groups.
	levels [][]entry
	// open has, by level, a bit for each entry whose group below has changed.
	open [][]uint64
}

// group is how many entries compete for one of the next level: as many as lie in one line of a processor's cache.
const group = 8

// entry is a node in the tournament: the sum of its weighted scores and its position in one number, so that the greater is
// the better, and the lower name among equals.
type entry int64

// infeasible is the sum of a node that cannot take the task. Sums are kept between it and most, which no weights that a
// configuration may have lead to.
const (
	infeasible = math.MinInt32
	maxSum     = math.MaxInt32
)

// noEntry is never better than any node.
const noEntry = entry(math.MinInt64)

func newEntry(sum int64, position int) entry {
	return entry(sum<<32 | int64(math.MaxUint32-uint32(position)))
}

func (e entry) sum() int64 { return int64(e) >> 32 }

func (e entry) position() int { return int(math.MaxUint32 - uint32(e)) }

// newTournament returns one of so many nodes, none of which has entered.
func newTournament(nodes int) (t winnerTree) {
	for size := nodes; size > 0; size = groups(size) {
		entries := make([]entry, groups(size)*group)
		for i := range entries {
			entries[i] = noEntry
		}
		t.levels = append(t.levels, entries)
		t.open = append(t.open, make([]uint64, (size+63)/64))
		if size == 1 {
			break
		}
	}
	return t
}

// groups returns how many groups so many entries are.
func groups(entries int) int { return (entries + group - 1) / group }

// set sets the sum of the node at a position.
func (t *winnerTree) set(position int, sum int64) { t.setEntry(0, position, newEntry(sum, position)) }

func (t *winnerTree) setEntry(level, position int, e entry) {
	t.levels[level][position] = e
	if level+1 < len(t.levels) {
		above := uint(position) / group
		t.open[level+1][above/64] |= 1 << (above % 64)
	}
}

// rebuild finds the best of all that have entered.
func (t *winnerTree) rebuild() {
	for level := 1; level < len(t.levels); level++ {
		for word, open := range t.open[level] {
			t.open[level][word] = 0
			for ; open != 0; open &= open - 1 {
				position := word*64 + bits.TrailingZeros64(open)
				best := bestOf((*[group]entry)(t.levels[level-1][position*group:]))
				if t.levels[level][position] != best {
					t.setEntry(level, position, best)
				}
			}
		}
	}
}

func bestOf(e *[group]entry) entry {
	return max(max(max(e[0], e[1]), max(e[2], e[3])), max(max(e[4], e[5]), max(e[6], e[7])))
}

// at returns the sum of the node at a position.
func (t *winnerTree) at(position int) int64 { return t.levels[0][position].sum() }

// below returns how many of the positions, which ascend, have no sum above a limit, from the first on: whole groups of them, of
// which one look suffices. It is 0 where that says nothing.
func (t *winnerTree) below(positions []int, limit int64) (n int) {
	size := group
	for level := 1; level < len(t.levels) && size <= len(positions); level++ {
		first := positions[0]
		if first%size != 0 || positions[size-1] != first+size-1 || t.levels[level][first/size].sum() > limit {
			break
		}
		n, size = size, size*group
	}
	return n
}

// best returns the position of the best node; ok is false when none can take the task.
func (t *winnerTree) best() (position int, ok bool) {
	if len(t.levels) == 0 {
		return 0, false
	}
	best := t.levels[len(t.levels)-1][0]
	return best.position(), best.sum() != infeasible
}

// descending yields the positions of the nodes that can take the task, the best first. It costs what is asked for: of the
// groups only those are opened whose best is next.
func (t *winnerTree) descending() iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(t.levels) == 0 {
			return
		}
		top := len(t.levels) - 1
		open := &heapItems{{entry: t.levels[top][0], level: top}}
		for open.Len() > 0 {
			next := heap.Pop(open).(heapItem)
			switch {
			case next.entry.sum() == infeasible:
				return
			case next.level == 0:
				if !yield(next.position) {
					return
				}
			default:
				for i := range group {
					below := heapItem{level: next.level - 1, position: next.position*group + i}
					below.entry = t.levels[below.level][below.position]
					heap.Push(open, below)
				}
			}
		}
	}
}

// heapItem is an entry and where it stands.
type heapItem struct {
	entry           entry
	level, position int
}

// heapItems is a heap of places, the best first.
type heapItems []heapItem

func (f heapItems) Len() int           { return len(f) }
func (f heapItems) Less(i, j int) bool { return f[i].entry > f[j].entry }
func (f heapItems) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }

// Push appends a place.
func (f *heapItems) Push(x any) { *f = append(*f, x.(heapItem)) }

// Pop takes the last place away.
func (f *heapItems) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}
