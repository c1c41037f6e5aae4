package isolated

import (
	"cmp"
	"math/bits"
	"slices"
)

// Pick chooses ids for n CPUs among the free ones, which must be isolated. The NUMA nodes: as few as possible; among these
// choices the fewest broken whole cores; then the fewest free CPUs left over; then the lowest numbers. Within them: the
// tightest last-level cache group that does as well; whole cores first, the rest from a core that is broken already. With
// OnePerCore both threads of each core are in the result. ok is false when there is no such choice, or n is not positive.
//
// Invariant: equal arguments give equal results.
func Pick(t *Topology, free CPUSet, n int, p Policies) (ids CPUSet, ok bool) {
	if n <= 0 || p.SMT == OnePerCore && t.ThreadsPerCore != threadsOfOnePerCore ||
		p.SMT == RequireFullCore && n%t.ThreadsPerCore != 0 {
		return CPUSet{}, false
	}
	q := question{topology: t, n: n, policies: p, numa: make([]numaFree, 0, len(t.NUMA))}
	for i := range t.NUMA {
		q.numa = append(q.numa, q.collect(&t.NUMA[i], t.NUMA[i].CPUs.Intersect(free)))
	}
	chosen, ok := q.choose()
	if !ok {
		return CPUSet{}, false
	}
	return q.take(q.tighten(chosen)), true
}

// MaxCPUs returns the largest n for which Pick finds ids: of one NUMA node if the policy requires it.
func MaxCPUs(t *Topology, free CPUSet, p Policies) int {
	if p.SMT == OnePerCore && t.ThreadsPerCore != threadsOfOnePerCore {
		return 0
	}
	q := question{topology: t, policies: p}
	most, sum := 0, 0
	for i := range t.NUMA {
		fits := q.collect(&t.NUMA[i], t.NUMA[i].CPUs.Intersect(free)).fits
		most, sum = max(most, fits), sum+fits
	}
	if p.NUMA == NUMARequired {
		return most
	}
	return sum
}

// question is the arguments of one Pick.
type question struct {
	topology *Topology
	n        int
	policies Policies
	numa     []numaFree
}

// numaFree is the free ids of one NUMA node, or of a last-level cache group in it.
type numaFree struct {
	numa *NUMANode
	free CPUSet
	// whole counts the cores of which all threads are isolated and free, left the free ids of others.
	whole, left int
	// fits is the number of CPUs for which there are ids.
	fits int
}

func (q *question) collect(numa *NUMANode, free CPUSet) numaFree {
	s := numaFree{numa: numa, free: free}
	if free.Empty() {
		return s
	}
	for i := range numa.Cores {
		if q.isWhole(&numa.Cores[i], &free) {
			s.whole++
		}
	}
	count := free.Len()
	s.left = count - s.whole*q.topology.ThreadsPerCore
	switch q.policies.SMT {
	case OnePerCore:
		s.fits = s.whole
	case RequireFullCore:
		s.fits = s.whole * q.topology.ThreadsPerCore
	default:
		s.fits = count
	}
	return s
}

// isWhole reports whether all threads of the core are isolated and free. It compares 64-bit words, since most time is spent
// here.
func (q *question) isWhole(core, free *CPUSet) bool {
	threads := 0
	for i, word := range core {
		if word&^free[i] != 0 {
			return false
		}
		threads += bits.OnesCount64(word)
	}
	return threads == q.topology.ThreadsPerCore
}

// breaks returns how many whole cores must be broken to take the ids from NUMA nodes with so many whole cores and other ids.
func (q *question) breaks(whole, left int) int {
	if q.policies.SMT == RequireFullCore || q.policies.SMT == OnePerCore {
		return 0
	}
	rest := q.n - min(whole, q.n/q.topology.ThreadsPerCore)*q.topology.ThreadsPerCore
	if rest > left {
		return 1
	}
	return 0
}

// maxCombinations is up to how many sets of NUMA nodes are compared; beyond it, those with the most free ids are taken.
const maxCombinations = 4096

// choose returns the best set of NUMA nodes.
func (q *question) choose() (chosen []numaFree, ok bool) {
	fullest := slices.Clone(q.numa)
	slices.SortStableFunc(fullest, func(a, b numaFree) int { return cmp.Compare(b.fits, a.fits) })
	size, sum := 0, 0
	for size < len(fullest) && sum < q.n {
		sum += fullest[size].fits
		size++
	}
	switch {
	case sum < q.n, q.policies.NUMA == NUMARequired && size > 1:
		return nil, false
	case len(q.numa) > 62 || combinations(len(q.numa), size) > maxCombinations:
		return fullest[:size], true
	}
	var best candidate
	for mask := uint64(1)<<size - 1; mask < 1<<len(q.numa); mask = next(mask) {
		if c, fits := q.evaluate(mask); fits && (best.mask == 0 || c.before(&best)) {
			best = c
		}
	}
	for i := range q.numa {
		if best.mask&(1<<i) != 0 {
			chosen = append(chosen, q.numa[i])
		}
	}
	return chosen, true
}

// combinations returns how many sets of that size there are, or more than maxCombinations.
func combinations(all, size int) int {
	n := 1
	for i := range min(size, all-size) {
		if n = n * (all - i) / (i + 1); n > maxCombinations {
			break
		}
	}
	return n
}

// next returns the next greater number with as many bits set.
func next(mask uint64) uint64 {
	low := mask & -mask
	ripple := mask + low
	return ripple | (mask^ripple)/low>>2
}

// candidate is a set of NUMA nodes.
type candidate struct {
	mask         uint64
	breaks, free int
}

// before reports whether one is better than another, which has a lower mask and was compared earlier.
func (c *candidate) before(o *candidate) bool {
	return cmp.Or(cmp.Compare(c.breaks, o.breaks), cmp.Compare(c.free, o.free)) < 0
}

func (q *question) evaluate(mask uint64) (c candidate, fits bool) {
	whole, left, sum := 0, 0, 0
	for rest := mask; rest != 0; rest &= rest - 1 {
		s := &q.numa[bits.TrailingZeros64(rest)]
		whole, left, sum = whole+s.whole, left+s.left, sum+s.fits
	}
	return candidate{mask: mask, breaks: q.breaks(whole, left), free: whole*q.topology.ThreadsPerCore + left}, sum >= q.n
}

// tighten returns the tightest last-level cache group that does as well as the chosen NUMA nodes, or these.
func (q *question) tighten(chosen []numaFree) []numaFree {
	if len(chosen) != 1 {
		return chosen
	}
	numa := &chosen[0]
	best, least := chosen, numa.whole*q.topology.ThreadsPerCore+numa.left
	breaks := q.breaks(numa.whole, numa.left)
	for _, group := range numa.numa.LLC {
		s := q.collect(numa.numa, group.Intersect(numa.free))
		if size := s.free.Len(); s.fits >= q.n && size < least && q.breaks(s.whole, s.left) <= breaks {
			best, least = []numaFree{s}, size
		}
	}
	return best
}

// take takes ids from the NUMA nodes, which have enough.
func (q *question) take(shelves []numaFree) CPUSet {
	threads := q.topology.ThreadsPerCore
	rest := q.n
	if q.policies.SMT == OnePerCore {
		rest *= threads
	}
	var taken, whole CPUSet // whole is the first core that is not needed as a whole
	var broken []CPUSet
	for i := range shelves {
		cores := shelves[i].numa.Cores
		for j := range cores {
			switch q.isWhole(&cores[j], &shelves[i].free) {
			case true:
				if rest >= threads {
					taken, rest = taken.Union(cores[j]), rest-threads
				} else if whole.Empty() {
					whole = cores[j]
				}
			default:
				if left := cores[j].Intersect(shelves[i].free); !left.Empty() {
					broken = append(broken, left)
				}
			}
		}
	}
	return q.takeRemainder(taken, whole, broken, rest)
}

// takeRemainder takes less than a core, or all that whole cores do not cover: from the one broken core with the fewest free
// ids that has enough, else from several, else from a whole one.
func (q *question) takeRemainder(taken, whole CPUSet, broken []CPUSet, rest int) CPUSet {
	left := 0
	var tight CPUSet
	for _, core := range broken {
		size := core.Len()
		left += size
		if size >= rest && (tight.Empty() || size < tight.Len()) {
			tight = core
		}
	}
	switch {
	case !tight.Empty():
		broken = []CPUSet{tight}
	case left < rest:
		broken = []CPUSet{whole}
	}
	for _, core := range broken {
		for id := core.Next(0); id >= 0 && rest > 0; id = core.Next(id + 1) {
			taken, rest = taken.Union(NewCPUSet(id)), rest-1
		}
	}
	return taken
}
