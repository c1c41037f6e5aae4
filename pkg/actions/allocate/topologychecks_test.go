package allocate_test

import (
	"maps"
	"math/bits"
	"slices"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// holdValid holds that members are within capacity, off the nodes that filters rule out, and in the domains that they share; and
// that all of the minimum is placed, or no member more than before.
func (p *places) holdValid(t *rapid.T, at map[*model.Task]*model.Node, found bool) {
	if !found && len(at) > p.boundBefore {
		t.Fatalf("%d members are bound, and the minimum is not met: %v\n%s", len(at), p.named(at), p)
	}
	used := map[*model.Node]*[2]int64{}
	shared := map[int]string{}
	o := &oracle{p: p}
	o.share()
	for task, node := range at {
		if _, no := task.Pod.Annotations[node.Name]; no {
			t.Fatalf("%s is on %s\n%s", task.Name, node.Name, p)
		}
		if used[node] == nil {
			used[node] = &[2]int64{}
		}
		for position := range used[node] {
			asks := task.Request.At(position)
			if used[node][position] += asks; asks > 0 && used[node][position] > node.Allocatable().At(position) {
				t.Fatalf("%s has no capacity: %v\n%s", node.Name, p.named(at), p)
			}
		}
		for i, group := range o.shares[task] {
			if group < 0 {
				continue
			}
			here := p.label(node, p.job.Topology[i].Level)
			if there, known := shared[group]; here == "" || known && there != here {
				t.Fatalf("members that share a %s are in %q and %q: %v\n%s", p.job.Topology[i].Level, here, there, p.named(at), p)
			}
			shared[group] = here
		}
	}
}

// holdRankOrder is invariant T5: from each member to the next one by index another domain is entered as seldom as possible: of
// the topology that the group names first, and of single nodes.
func (p *places) holdRankOrder(t *rapid.T, at map[*model.Task]*model.Node) {
	if slices.ContainsFunc(p.job.Topology, func(e model.TopologyConstraint) bool { return e.SliceSize > 0 }) {
		return
	}
	levels := []string{"block", "rack", "host"}
	if p.job.Topology[0].Level == "clique" {
		levels = []string{"clique", "host"}
	}
	for i, level := range levels {
		entered, last, seen := 0, "", map[string]bool{}
		for _, task := range p.job.Tasks {
			path := "/"
			for _, one := range levels[:i+1] {
				path += p.label(at[task], one) + "/"
			}
			if path != last {
				entered++
			}
			last, seen[path] = path, true
		}
		if entered != len(seen) {
			t.Fatalf("%+v: a %s is entered %d times, of which there are %d: %v\n%s", p.job.Topology, level, entered, len(seen), p.named(at), p)
		}
	}
}

// used returns the domains of a level that the members are in, of which none at all is one.
func (p *places) used(at map[*model.Task]*model.Node, level string) []string {
	domains := map[string]bool{}
	for _, node := range at {
		domains[p.label(node, level)] = true
	}
	return slices.Sorted(maps.Keys(domains))
}

// maxSubsets is of how many domains all sets are tried.
const maxSubsets = 9

// fewestIn returns in how few domains of a level on these nodes the gang can be, and which nodes these may be; 0 when it
// cannot, or when there are too many.
func (p *places) fewestIn(level string, nodes []*model.Node) (least int, sets [][]*model.Node) {
	domains := map[string][]*model.Node{}
	for _, node := range nodes {
		if domain := p.label(node, level); domain != "" {
			domains[domain] = append(domains[domain], node)
		}
	}
	names := slices.Sorted(maps.Keys(domains))
	for n := 1; n <= len(names) && len(names) <= maxSubsets && sets == nil; n++ {
		for set := range uint(1) << len(names) {
			if bits.OnesCount(set) != n {
				continue
			}
			var inside []*model.Node
			for i, name := range names {
				if set&(1<<i) != 0 {
					inside = append(inside, domains[name]...)
				}
			}
			if newOracle(p, inside).possible() {
				least, sets = n, append(sets, inside)
			}
		}
	}
	return least, sets
}

// fewestOf returns the least of that over sets of nodes.
func (p *places) fewestOf(level string, sets [][]*model.Node) (least int) {
	for _, nodes := range sets {
		if n, _ := p.fewestIn(level, nodes); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// check reports whether a gang that has started is in as few domains as possible, and what kind of a count that is; empty where
// nothing is known of it.
type check func(at map[*model.Task]*model.Node) (kind string, least bool)

// quality returns how to check the number of domains. It is asked before the cycle.
func (p *places) quality(of class, possible bool) check {
	switch {
	case !possible || p.bound() > 0 || len(p.job.Tasks) > int(p.job.MinMember):
	case of == preferring:
		return p.preference()
	case of == oneShape && slices.ContainsFunc(p.job.Topology, func(e model.TopologyConstraint) bool { return e.SliceSize == 0 && e.Level == "block" }):
		return p.narrowest()
	}
	return func(map[*model.Task]*model.Node) (string, bool) { return "", true }
}

// narrowest is for a gang that shares a block: it is in one rack, if any has capacity, else in as few as possible in a block.
func (p *places) narrowest() check {
	racks := map[string]int{}
	for block, nodes := range p.domains("block") {
		racks[block], _ = p.fewestIn("rack", nodes)
	}
	single, kind := slices.Contains(slices.Collect(maps.Values(racks)), 1), fewest
	if !p.oneTree() {
		kind = crossing
	}
	return func(at map[*model.Task]*model.Node) (string, bool) {
		used, least := p.used(at, "rack"), racks[p.used(at, "block")[0]]
		return kind, (least == 0 || len(used) <= least) && (!single || len(used) == 1)
	}
}

// oneTree reports whether all entries are for the blocks and racks of one tree, and no member is in a slice.
func (p *places) oneTree() bool {
	return !slices.ContainsFunc(p.job.Topology, func(e model.TopologyConstraint) bool {
		return e.SliceSize > 0 || e.Level == "clique" || e.Level == "host"
	})
}

// preference is for a gang that prefers a level: it is in one of its domains; else in one of the next wider level that has
// capacity, and there in as few as possible; else in as few of the widest level as possible. With slices, or domains of other
// trees, the number may be more.
func (p *places) preference() check {
	i := slices.IndexFunc(p.job.Topology, func(e model.TopologyConstraint) bool { return e.Preferred })
	level := p.job.Topology[i].Level
	least, sets := p.fewestIn(level, p.snapshot.Nodes)
	if least != 1 && level == "rack" {
		level = "block"
		least, sets = p.fewestIn(level, p.snapshot.Nodes)
	}
	below, exactly := 0, fewest
	if level != p.job.Topology[i].Level {
		below = p.fewestOf("rack", sets)
	}
	if !p.oneTree() {
		exactly = crossing
	}
	return func(at map[*model.Task]*model.Node) (string, bool) {
		met := below == 0 || len(p.used(at, "rack")) <= below
		switch {
		case least == 0:
			return "", true
		case least == 1 && len(p.used(at, level)) > 1:
			return fewest, false
		case len(p.used(at, level)) > least:
			return exactly, false
		case least > 1 && below > 0 && p.oneTree():
			return nearlyFewest, met
		}
		return exactly, met
	}
}
