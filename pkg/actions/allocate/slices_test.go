package allocate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// drawSlices draws a gang of one shape with slices of one or two sizes, of which one is a multiple of the other, and with or
// without domains that all members share.
func drawSlices(t *rapid.T) *places {
	p := drawPlaces(t)
	levels := []string{"block", "rack", "rack", "clique", "host"}
	small := rapid.IntRange(2, 4).Draw(t, "size")
	p.job.Topology = []model.TopologyConstraint{{Level: rapid.SampledFrom(levels).Draw(t, "level"), SliceSize: int32(small)}}
	if rapid.Bool().Draw(t, "larger ones") {
		p.job.Topology = append(p.job.Topology, model.TopologyConstraint{
			Level: rapid.SampledFrom(levels).Draw(t, "level"), SliceSize: int32(small * rapid.IntRange(1, 3).Draw(t, "times")),
		})
	}
	if rapid.Bool().Draw(t, "and whole") {
		p.job.Topology = append(p.job.Topology, model.TopologyConstraint{Level: rapid.SampledFrom(levels[:4]).Draw(t, "level")})
	}
	return p
}

// tiling places members index by index, in every possible way.
type tiling struct {
	entries []model.TopologyConstraint
	members int
	// domains are those of each entry, free how many members still fit, by the domains of all entries.
	domains [][]string
	free    map[string]int64
	seen    map[string]bool
}

func newTiling(p *places) *tiling {
	g := &tiling{entries: p.job.Topology, members: int(p.job.MinMember), free: map[string]int64{}, seen: map[string]bool{}}
	g.domains = make([][]string, len(g.entries))
	for _, node := range p.snapshot.Nodes {
		key, everywhere := "", true
		for _, entry := range g.entries {
			value := p.label(node, entry.Level)
			key, everywhere = key+value+" ", everywhere && value != ""
		}
		if !everywhere {
			continue
		}
		g.free[key] += node.Allocatable.At(model.CPU)
		for i, entry := range g.entries {
			if value := p.label(node, entry.Level); !slices.Contains(g.domains[i], value) {
				g.domains[i] = append(g.domains[i], value)
			}
		}
	}
	return g
}

// possible reports whether the members from one on find places; at are the domains of the slices that are begun.
func (g *tiling) possible(member, entry int, at []string) bool {
	switch {
	case member == g.members:
		return true
	case entry == len(g.entries):
		key := ""
		for _, one := range at {
			key += one + " "
		}
		if g.free[key] == 0 {
			return false
		}
		state := fmt.Sprint(member, key, g.free)
		if g.seen[state] {
			return false
		}
		g.seen[state] = true
		g.free[key]--
		defer func() { g.free[key]++ }()
		return g.possible(member+1, 0, at)
	}
	begins := member == 0
	if size := int(g.entries[entry].SliceSize); size > 0 {
		begins = member%size == 0
	}
	if !begins {
		return g.possible(member, entry+1, at)
	}
	for _, domain := range g.domains[entry] {
		there := slices.Clone(at)
		there[entry] = domain
		if g.possible(member, entry+1, there) {
			return true
		}
	}
	return false
}

// TestSlicesOfOneShapeStartIfTheyCan: a gang of one shape starts if and only if any choice of domains has capacity for all of its
// slices, and each slice is in one domain then; the reason of one that waits does not say that something was not tried.
func TestSlicesOfOneShapeStartIfTheyCan(t *testing.T) {
	started, waited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawSlices(t)
		g := newTiling(p)
		possible := g.possible(0, 0, make([]string, len(g.entries)))
		at, refusal := p.cycle()
		if !possible && strings.Contains(refusal.String(), notAll) {
			t.Fatalf("%+v: %s\n%s", p.job.Topology, refusal, p)
		}
		if got := len(at) == int(p.job.MinMember); got != possible || len(at) > 0 && !got {
			t.Fatalf("%+v: %d of %d members are bound; possible: %v\n%s", p.job.Topology, len(at), p.job.MinMember, possible, p)
		}
		if !possible {
			waited++
			return
		}
		started++
		for _, entry := range p.job.Topology {
			slice := map[int]string{}
			for i, task := range p.job.Tasks {
				number := 0
				if entry.SliceSize > 0 {
					number = i / int(entry.SliceSize)
				}
				here := p.label(at[task.Name], entry.Level)
				if there, known := slice[number]; here == "" || known && there != here {
					t.Fatalf("slice %d of %+v is in %q and %q\n%s", number, entry, there, here, p)
				}
				slice[number] = here
			}
		}
	})
	if started == 0 || waited == 0 {
		t.Errorf("%d gangs started and %d waited: one kind is missing", started, waited)
	}
}
