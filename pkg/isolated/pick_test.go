package isolated

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// machine returns a topology of so many NUMA nodes with cores of two threads, i and i+half, in which the given CPUs are
// isolated.
func machine(t testing.TB, numa, cores int, isolated string, caches int) *Topology {
	t.Helper()
	half := numa * cores
	set := mustSet(t, isolated)
	top := &Topology{Version: 1, Generation: 1, Source: "override", Isolated: set, Mode: Included, ThreadsPerCore: 2}
	for id := range 2 * half {
		top.Online = top.Online.Union(NewCPUSet(id))
	}
	for i := range numa {
		node := NUMANode{ID: i}
		groups := make([]CPUSet, caches)
		for core := i * cores; core < (i+1)*cores; core++ {
			threads := NewCPUSet(core, core+half).Intersect(set)
			if threads.Empty() {
				continue
			}
			node.CPUs, node.Cores = node.CPUs.Union(threads), append(node.Cores, threads)
			if caches > 0 {
				g := (core - i*cores) * caches / cores
				groups[g] = groups[g].Union(threads)
			}
		}
		node.LLC = slices.DeleteFunc(groups, CPUSet.Empty)
		top.NUMA = append(top.NUMA, node)
	}
	if err := top.check(); err != nil {
		t.Fatal(err)
	}
	return top
}

func mustSet(t testing.TB, list string) CPUSet {
	t.Helper()
	set, err := ParseSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestPickOfTwoSockets is the table of a machine with 2 × 8 cores of two threads.
func TestPickOfTwoSockets(t *testing.T) {
	const all = "4-15,20-31"
	top := machine(t, 2, 8, all, 0)
	required, full := Policies{NUMA: NUMARequired}, Policies{SMT: RequireFullCore}
	for _, c := range []struct {
		free string
		n    int
		p    Policies
		want string // empty for none
	}{
		{all, 4, Policies{}, "4-5,20-21"},
		{all, 8, Policies{}, "4-7,20-23"},
		{all, 10, Policies{}, "8-12,24-28"},
		{all, 18, Policies{}, "4-12,20-28"},
		{all, 18, required, ""},
		{"5-15,20-31", 1, Policies{}, "20"},
		{all, 3, Policies{}, "4-5,20"},
		{all, 3, full, ""},
		{"20-22", 2, full, ""},
		{"20-22", 2, Policies{}, "20-21"},
		// Beyond the ten.
		{all, 2, Policies{SMT: OnePerCore}, "4-5,20-21"},
		{all, 12, Policies{SMT: OnePerCore}, all},
		{all, 13, Policies{SMT: OnePerCore}, ""},
		{all, 9, Policies{SMT: OnePerCore, NUMA: NUMARequired}, ""},
		{all, 16, required, "8-15,24-31"},
		{"4-7,20-22,24", 1, Policies{}, "24"},         // NUMA 0 breaks no core either, but more would be left over there
		{"4-5,8-10,20-21,24-25", 1, Policies{}, "10"}, // fewer would be left over in NUMA 0, but a core broken
		{all, 0, Policies{}, ""},
		{"", 1, Policies{}, ""},
	} {
		got, ok := Pick(top, mustSet(t, c.free), c.n, c.p)
		if got.String() != c.want || ok != (c.want != "") {
			t.Errorf("%d of %s, %v: %q, %v, want %q", c.n, c.free, c.p, got, ok, c.want)
		}
	}
}

// TestPickKeepsToACache takes the tightest group that does as well as the whole NUMA node.
func TestPickKeepsToACache(t *testing.T) {
	top := machine(t, 1, 8, "0-15", 4) // cores 0-1, 2-3, 4-5, 6-7
	for _, c := range []struct {
		free string
		n    int
		want string
	}{
		{"0-15", 4, "0-1,8-9"},
		{"1-15", 2, "1,9"},           // 0-1 has three free, and a whole core
		{"1-15", 3, "1,8-9"},         // nothing is broken by that
		{"0-1,3,8-9,12", 2, "0,8"},   // 2-3 has too few
		{"1,3,8,10-15", 2, "1,8"},    // nothing is broken, and nothing is left over in the group
		{"0-15", 5, "0-2,8-9"},       // no group has five
		{"0,1,2,8,9,10,11", 1, "11"}, // the broken core's group is the tightest, too
		{"0,2,4,6,9,11,13,15", 2, "0,9"},
	} {
		got, ok := Pick(top, mustSet(t, c.free), c.n, Policies{})
		if want := mustSet(t, c.want); got != want || !ok {
			t.Errorf("%d of %s: %q, want %q", c.n, c.free, got, want)
		}
	}
}

// TestPickIsBest compares with all possible choices, on random free sets.
func TestPickIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numa, cores := rapid.IntRange(1, 4).Draw(t, "numa"), rapid.IntRange(1, 4).Draw(t, "cores")
		top := randomMachine(t, numa, cores)
		free := subset(t, "free", top.Isolated)
		p := Policies{
			SMT:  rapid.SampledFrom([]SMT{"", PreferFullCore, RequireFullCore, OnePerCore}).Draw(t, "smt"),
			NUMA: rapid.SampledFrom([]NUMA{"", NUMAPreferred, NUMARequired}).Draw(t, "policy"),
		}
		n := rapid.IntRange(1, 2*numa*cores+1).Draw(t, "n")
		holdToBruteForce(t, top, free, n, p)
	})
}

// randomMachine may have cores of which one thread alone is isolated.
func randomMachine(t *rapid.T, numa, cores int) *Topology {
	top := &Topology{Version: 1, Mode: Included, ThreadsPerCore: 2}
	for i := range numa {
		node := NUMANode{ID: i}
		for j := range cores {
			core := NewCPUSet(i*cores+j, (numa+i)*cores+j)
			if rapid.IntRange(0, 5).Draw(t, "half") == 0 {
				core = NewCPUSet(core.Next(0))
			}
			node.Cores, node.CPUs = append(node.Cores, core), node.CPUs.Union(core)
		}
		top.NUMA = append(top.NUMA, node)
		top.Isolated = top.Isolated.Union(node.CPUs)
	}
	return top
}

func subset(t *rapid.T, label string, of CPUSet) CPUSet {
	var s CPUSet
	for id := of.Next(0); id >= 0; id = of.Next(id + 1) {
		if rapid.Bool().Draw(t, label) {
			s = s.Union(NewCPUSet(id))
		}
	}
	return s
}

// outline is the criteria of a choice, the smaller the better.
type outline struct{ numa, broken, left int }

func (o outline) compare(other outline) int {
	return slices.Compare([]int{o.numa, o.broken, o.left}, []int{other.numa, other.broken, other.left})
}

func outlineOf(top *Topology, free, ids CPUSet) (o outline, ok bool) {
	for i := range top.NUMA {
		node := &top.NUMA[i]
		if ids.Intersect(node.CPUs).Empty() {
			continue
		}
		o.numa++
		o.left += free.Intersect(node.CPUs).Len()
		for _, core := range node.Cores {
			taken := core.Intersect(ids).Len()
			if core.Within(free) && core.Len() == top.ThreadsPerCore && taken > 0 && taken < core.Len() {
				o.broken++
			}
		}
	}
	return o, true
}

// full counts the whole cores in a set.
func full(top *Topology, ids CPUSet) int {
	n := 0
	for i := range top.NUMA {
		for _, core := range top.NUMA[i].Cores {
			if core.Within(ids) && core.Len() == top.ThreadsPerCore {
				n++
			}
		}
	}
	return n
}

func holdToBruteForce(t *rapid.T, top *Topology, free CPUSet, n int, p Policies) {
	got, ok := Pick(top, free, n, p)
	held := n
	if p.SMT == OnePerCore {
		held *= 2
	}
	list := idsOf(free)
	var best outline
	some := false
	for mask := range uint64(1) << len(list) {
		if bits.OnesCount64(mask) != held || len(list) > 16 {
			continue
		}
		var ids CPUSet
		for rest := mask; rest != 0; rest &= rest - 1 {
			ids = ids.Union(NewCPUSet(list[bits.TrailingZeros64(rest)]))
		}
		whole := p.SMT == RequireFullCore || p.SMT == OnePerCore
		o, _ := outlineOf(top, free, ids)
		if p.NUMA == NUMARequired && o.numa > 1 || whole && full(top, ids)*top.ThreadsPerCore != held {
			continue
		}
		if !some || o.compare(best) < 0 {
			best, some = o, true
		}
	}
	if len(list) <= 16 && ok != some {
		t.Fatalf("%d of %s, %v: found %v, want %v", n, free, p, ok, some)
	}
	if ok != (MaxCPUs(top, free, p) >= n) && !(p.SMT == RequireFullCore && n%2 != 0) {
		t.Fatalf("%d of %s, %v: found %v, and the most is %d", n, free, p, ok, MaxCPUs(top, free, p))
	}
	if !ok {
		return
	}
	if got.Len() != held || !got.Within(free) {
		t.Fatalf("%d of %s, %v: %s", n, free, p, got)
	}
	if o, _ := outlineOf(top, free, got); some && o != best {
		t.Fatalf("%d of %s, %v: %s is %+v, the best is %+v", n, free, p, got, o, best)
	}
}

func idsOf(s CPUSet) []int {
	var ids []int
	for id := s.Next(0); id >= 0; id = s.Next(id + 1) {
		ids = append(ids, id)
	}
	return ids
}

// worst is a machine of 512 CPUs in 8 NUMA nodes, and a request for which half of its NUMA nodes are needed.
func worst(t testing.TB) (*Topology, CPUSet) {
	top := machine(t, 8, 32, "0-511", 4)
	free := top.Isolated
	for id := 0; id < 512; id += 5 {
		free = free.Minus(NewCPUSet(id))
	}
	return top, free
}

func BenchmarkPick(b *testing.B) {
	top, free := worst(b)
	for name, p := range map[string]Policies{
		"any": {}, "one NUMA node": {NUMA: NUMARequired}, "full cores": {SMT: RequireFullCore}, "one per core": {SMT: OnePerCore},
	} {
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				n := 1 + len(times)%free.Len() // some are refused
				began := time.Now()
				Pick(top, free, n, p)
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "µs-p99")
		})
	}
}

// TestTenThousandFreeSets chooses from random free sets of random machines, with cores of one to four threads, and compares
// with all sets of NUMA nodes that have enough: as many ids as requested, all of them free, on as few NUMA nodes as possible;
// only whole cores where required.
func TestTenThousandFreeSets(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	found := 0
	for range 10_000 {
		top := manyThreaded(random)
		free := top.Isolated
		for id, share := 0, random.IntN(4); id < Limit; id++ {
			if random.IntN(4) < share {
				free = free.Minus(NewCPUSet(id))
			}
		}
		p := Policies{
			SMT:  []SMT{PreferFullCore, RequireFullCore, OnePerCore}[random.IntN(3)],
			NUMA: []NUMA{NUMAPreferred, NUMARequired}[random.IntN(2)],
		}
		n := 1 + random.IntN(max(1, top.Isolated.Len()))
		ids, ok := Pick(top, free, n, p)
		least := leastNodes(top, free, n, p)
		if want := least > 0 && (least == 1 || p.NUMA != NUMARequired); ok != want {
			t.Fatalf("%d of %s on %d threads a core, %v: found %v, want %v", n, free, top.ThreadsPerCore, p, ok, want)
		}
		if !ok {
			continue
		}
		found++
		if o, _ := outlineOf(top, free, ids); ids.Len() != n*p.ThreadsPerCPU() || !ids.Within(free) || o.numa != least ||
			p.SMT != PreferFullCore && full(top, ids)*top.ThreadsPerCore != ids.Len() {
			t.Fatalf("%d of %s on %d threads a core, %v: %s, on %d NUMA nodes, %d would do", n, free, top.ThreadsPerCore, p, ids, o.numa, least)
		}
	}
	if found < 1000 {
		t.Errorf("only %d of ten thousand had capacity", found)
	}
}

// manyThreaded is a random machine; a few of its cores are isolated in part.
func manyThreaded(random *rand.Rand) *Topology {
	threads, numa, cores := []int{1, 2, 4}[random.IntN(3)], 1+random.IntN(4), 1+random.IntN(12)
	top := &Topology{Version: 1, Mode: Included, ThreadsPerCore: threads}
	for i := range numa {
		node := NUMANode{ID: i}
		for j := range cores {
			var core CPUSet
			for thread := range threads {
				core = core.Union(NewCPUSet((thread*numa+i)*cores + j))
			}
			if random.IntN(8) == 0 {
				core = NewCPUSet(core.Next(0))
			}
			node.Cores, node.CPUs = append(node.Cores, core), node.CPUs.Union(core)
		}
		top.NUMA, top.Isolated = append(top.NUMA, node), top.Isolated.Union(node.CPUs)
	}
	return top
}

// leastNodes returns on how many NUMA nodes there is capacity for n, by trying every set of them; 0 when there is none.
func leastNodes(top *Topology, free CPUSet, n int, p Policies) int {
	least := 0
	for mask := range 1 << len(top.NUMA) {
		room := 0
		for i := range top.NUMA {
			if mask>>i&1 == 0 {
				continue
			}
			for _, core := range top.NUMA[i].Cores {
				switch whole := core.Within(free) && core.Len() == top.ThreadsPerCore; {
				case p.SMT == PreferFullCore:
					room += core.Intersect(free).Len()
				case p.SMT == RequireFullCore && whole:
					room += core.Len()
				case p.SMT == OnePerCore && whole && core.Len() == 2:
					room++
				}
			}
		}
		enough := room >= n && !(p.SMT == RequireFullCore && n%top.ThreadsPerCore != 0)
		if size := bits.OnesCount(uint(mask)); enough && (least == 0 || size < least) {
			least = size
		}
	}
	return least
}
