package shares

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The resources of these tests.
const (
	cpu = iota
	gpu
	link
)

func both() Worlds { return Worlds{Devices: World{gpu, link}, Ordinary: World{cpu}} }

// guaranteed has queues below Root with such guarantees of CPUs, GPUs and links, all of which are asked for.
func guaranteed(supply []int64, guarantees ...[]int64) *Tree {
	t := new(Tree)
	t.Reset(3)
	for _, g := range guarantees {
		q := t.Add(Root, 1)
		for r, amount := range g {
			t.SetAmounts(q, r, Amounts{Guarantee: amount, Limit: NoLimit, Demand: 1000})
		}
	}
	t.Compute(supply)
	return t
}

func TestDeciding(t *testing.T) {
	tree := guaranteed([]int64{500, 50, 50}, []int64{100, 8, 0}, []int64{100, 0, 0}, []int64{0, 0, 0})
	const devices, cpus, none = 0, 1, 2
	for _, c := range []struct {
		queue   int
		amounts []int64
		want    []int
	}{
		{devices, []int64{10, 1}, []int{gpu}},
		{devices, []int64{10, 0}, []int{cpu}},
		{devices, []int64{0, 1, 1}, []int{gpu}},
		{devices, []int64{10, 0, 1}, []int{cpu}}, // no queue has a guarantee of links
		{cpus, []int64{10, 1}, nil},              // another has one of GPUs
		{cpus, []int64{10}, []int{cpu}},
		{cpus, []int64{10, 0, 1}, []int{cpu}},
		{none, []int64{10}, nil},
		{none, []int64{10, 1}, nil},
		{devices, nil, nil},
	} {
		if got := tree.Deciding(nil, c.queue, c.amounts, both()); !slices.Equal(got, c.want) {
			t.Errorf("%v in queue %d: %v, want %v", c.amounts, c.queue, got, c.want)
		}
	}
}

func units(gpus ...int64) (list []Unit) {
	for _, n := range gpus {
		list = append(list, Unit{Amounts: []int64{n, n}})
	}
	return list
}

func covered(list []Unit) (which []int) {
	for i := range list {
		if list[i].Covered {
			which = append(which, i)
		}
	}
	return which
}

func TestCover(t *testing.T) {
	tree := guaranteed([]int64{1000, 64, 0}, []int64{0, 4}, []int64{9, 4}, []int64{9, 0})
	for _, c := range []struct {
		name  string
		queue int
		units []Unit
		want  []int
	}{
		{"a guarantee that is used up", 0, units(2, 2, 1), []int{0, 1}},
		{"what does not fit is passed over", 0, units(3, 2, 1), []int{0, 2}},
		{"a gang above the guarantee", 0, units(8), nil},
		{"devices alone decide", 1, []Unit{{Amounts: []int64{100, 4}}, {Amounts: []int64{9}}, {Amounts: []int64{1}}}, []int{0, 1}},
		{"no guarantee of CPUs for devices", 2, []Unit{{Amounts: []int64{1, 1}}, {Amounts: []int64{1}}}, []int{1}},
		{"nothing decides", 0, []Unit{{Amounts: []int64{1}}, {}}, nil},
		{"covered below, and first", 0, []Unit{{Amounts: []int64{0, 3}}, {Amounts: []int64{0, 2}, Covered: true}, {Amounts: []int64{0, 2}}}, []int{1, 2}},
		{"covered below, and above this guarantee", 0, []Unit{{Amounts: []int64{0, 4}}, {Amounts: []int64{0, 5}, Covered: true}}, []int{0, 1}},
	} {
		tree.Cover(c.queue, c.units, both())
		if got := covered(c.units); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestCoverInATree has a parent with a guarantee of 6 and two children, of which one has 4 of its own.
func TestCoverInATree(t *testing.T) {
	tree := new(Tree)
	tree.Reset(3)
	parent := tree.Add(Root, 1)
	first, second := tree.Add(parent, 1), tree.Add(parent, 1)
	tree.SetAmounts(parent, gpu, Amounts{Guarantee: 6, Limit: NoLimit})
	tree.SetAmounts(first, gpu, Amounts{Guarantee: 4, Limit: NoLimit, Demand: 20})
	tree.SetAmounts(second, gpu, Amounts{Limit: NoLimit, Demand: 20})
	tree.Compute([]int64{0, 20})
	// Of one priority, by start: two units of the second child, then three of the first.
	list := units(2, 2, 2, 2, 2)
	tree.Cover(second, list[:2], both())
	tree.Cover(first, list[2:], both())
	if got := covered(list); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("by the children: %v", got)
	}
	tree.Cover(parent, list, both())
	if got := covered(list); !slices.Equal(got, []int{0, 2, 3}) {
		t.Errorf("by the parent, too: %v", got)
	}
	// What has no use, and what only a child has.
	tree.SetAmounts(first, gpu, Amounts{Guarantee: 4, Limit: NoLimit, Demand: 3})
	tree.SetAmounts(second, cpu, Amounts{Guarantee: 5, Limit: NoLimit, Demand: 5})
	tree.Compute([]int64{10, 20})
	if tree.Kept(first, gpu) != 3 || tree.Kept(second, cpu) != 5 || tree.Kept(parent, cpu) != 0 {
		t.Error("not what is asked for of the own guarantees")
	}
	tree.SetAmounts(first, gpu, Amounts{Guarantee: 4, Limit: NoLimit, Demand: 20})
	tree.Compute([]int64{10, 20})
	if tree.Kept(parent, gpu) != 6 || tree.Kept(first, gpu) != 4 || tree.Kept(second, gpu) != 0 || tree.Kept(parent, cpu) != 0 {
		t.Error("not what the floors keep of the own guarantees")
	}
}

// TestStraddlingGang: 8 GPUs, two queues with a guarantee of 4. A gang of 8 of the first goes once, for 4 single ones of the
// second, and has no right to return.
func TestStraddlingGang(t *testing.T) {
	tree := guaranteed([]int64{0, 8}, []int64{0, 4}, []int64{0, 4})
	gang, singles := []int64{0, 8}, []int64{0, 4}
	tree.AddUsage(0, gang)
	borrowed := []Unit{{Amounts: gang}}
	tree.Cover(0, borrowed, both())
	if borrowed[0].Covered || !tree.WithinGuarantee(1, singles, singles, both()) {
		t.Error("the guarantee is not had")
	}
	if more := []int64{0, 5}; tree.WithinGuarantee(1, more, more, both()) {
		t.Error("more than the guarantee is had")
	}
	tree.AddUsage(0, []int64{0, -8})
	tree.AddUsage(1, singles)
	held := units(1, 1, 1, 1)
	tree.Cover(1, held, both())
	if len(covered(held)) != 4 || tree.WithinGuarantee(0, gang, gang, both()) {
		t.Error("the gang has a right to return")
	}
	if tree.WithinGuarantee(0, []int64{1}, nil, both()) {
		t.Error("within a guarantee in which nothing decides")
	}
}

// TestWorldOf has GPUs that are contended and links that are not; below the second queue neither is.
func TestWorldOf(t *testing.T) {
	tree := guaranteed([]int64{10, 8, 3000}, []int64{0, 0, 0}, []int64{0, 0, 0})
	child := tree.Add(1, 1)
	tree.SetAmounts(child, gpu, Amounts{Demand: 2, Limit: NoLimit})
	tree.Compute([]int64{10, 8, 3000})
	w := both()
	for _, c := range []struct {
		parent int
		asks   []int64
		want   World
	}{
		{Root, []int64{1, 1}, w.Devices},
		{Root, []int64{1, 0, 1}, w.Ordinary},
		{Root, []int64{1}, w.Ordinary},
		{1, []int64{1, 1}, w.Ordinary},
	} {
		if got := tree.WorldOf(c.parent, c.asks, w); !slices.Equal(got, c.want) {
			t.Errorf("%v below %d: %v, want %v", c.asks, c.parent, got, c.want)
		}
	}
	for _, c := range []struct {
		parent      int
		unit, needs []int64
		want        World
		no          bool
	}{
		{parent: Root, unit: []int64{1, 1}, needs: []int64{1, 4}, want: w.Devices},
		{parent: Root, unit: []int64{1, 1}, needs: []int64{1}, no: true},            // a GPU is not idled for a CPU
		{parent: Root, unit: []int64{1, 1}, needs: []int64{1, 0, 1}, no: true},      // nor for a link
		{parent: Root, unit: []int64{1, 0, 1}, needs: []int64{1}, want: w.Ordinary}, // links are not contended
		{parent: Root, unit: []int64{1}, needs: []int64{1, 1}, want: w.Ordinary},
		{parent: 1, unit: []int64{1, 1}, needs: []int64{1, 1}, no: true}, // contended above
		{parent: 1, unit: []int64{1}, needs: []int64{1, 1}, want: w.Ordinary},
	} {
		if got, ok := tree.ExchangeWorld(c.parent, c.unit, c.needs, w); ok == c.no || ok && !slices.Equal(got, c.want) {
			t.Errorf("%v for %v below %d: %v and %t, want %v", c.unit, c.needs, c.parent, got, ok, c.want)
		}
	}
}

// TestCoverEqualsItsDefinition compares with a definition that looks at all units before each.
func TestCoverEqualsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := rapid.SliceOfN(rapid.Int64Range(0, 6), 3, 3)
		tree := guaranteed(amounts.Draw(t, "supply"), amounts.Draw(t, "guarantee"), amounts.Draw(t, "other guarantee"))
		var list []Unit
		for range rapid.IntRange(0, 8).Draw(t, "units") {
			list = append(list, Unit{Amounts: amounts.Draw(t, "amounts"), Covered: rapid.IntRange(0, 3).Draw(t, "covered") == 0})
		}
		order := slices.Clone(list)
		slices.SortStableFunc(order, func(a, b Unit) int {
			if a.Covered == b.Covered {
				return 0
			}
			if a.Covered {
				return -1
			}
			return 1
		})
		var here []bool
		for i := range order {
			deciding := tree.Deciding(nil, 0, order[i].Amounts, both())
			fits := len(deciding) > 0
			for _, r := range deciding {
				used := order[i].Amounts[r]
				for j := range i {
					if here[j] && slices.Contains(tree.Deciding(nil, 0, order[j].Amounts, both()), r) {
						used += order[j].Amounts[r]
					}
				}
				fits = fits && used <= tree.Kept(0, r)
			}
			here = append(here, fits)
		}
		tree.Cover(0, list, both())
		for i := range order {
			at := slices.IndexFunc(list, func(u Unit) bool { return &u.Amounts[0] == &order[i].Amounts[0] })
			if want := order[i].Covered || here[i]; list[at].Covered != want {
				t.Fatalf("unit %d is covered: %t, want %t", at, list[at].Covered, want)
			}
		}
	})
}
