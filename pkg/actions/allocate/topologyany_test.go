package allocate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// drawAny draws a gang of roles with minima of their own, of one request or two, and up to four entries for any roles, with
// slices, required or preferred.
func drawAny(t *rapid.T) *places {
	p := newPlaces()
	p.drawNodes(t, rapid.SampledFrom([]int{5, 9}).Draw(t, "most nodes"))
	not, surplus, mostAsks := p.drawBarred(t), rapid.Bool().Draw(t, "surplus"), rapid.SampledFrom([]int64{1, 1, 2}).Draw(t, "most asks")
	var roles []string
	for i := range rapid.IntRange(1, 4).Draw(t, "roles") {
		n := rapid.IntRange(1, 4).Draw(t, "members")
		least := n
		if surplus {
			least = rapid.IntRange(0, n).Draw(t, "least")
		}
		roles = append(roles, fmt.Sprint("r", i))
		p.addMembers(roles[i], n, rapid.Int64Range(1, mostAsks).Draw(t, "asks"), not)
		p.job.Roles = append(p.job.Roles, model.Role{Name: roles[i], MinMember: int32(least)})
		p.job.MinMember += int32(least)
	}
	if surplus {
		p.job.MinMember = rapid.Int32Range(max(1, p.job.MinMember), int32(len(p.job.Tasks))).Draw(t, "minimum")
	}
	for range rapid.IntRange(1, 4).Draw(t, "entries") {
		entry := model.TopologyConstraint{Level: rapid.SampledFrom(levels).Draw(t, "level"), Preferred: rapid.IntRange(0, 5).Draw(t, "prefers") == 0}
		if rapid.IntRange(0, 2).Draw(t, "of roles") > 0 {
			first := rapid.IntRange(0, len(roles)-1).Draw(t, "first")
			entry.Roles = slices.Clone(roles[first:rapid.IntRange(first+1, len(roles)).Draw(t, "behind")])
		}
		if !entry.Preferred && rapid.IntRange(0, 2).Draw(t, "sliced") == 0 {
			entry.SliceSize = rapid.Int32Range(2, 4).Draw(t, "size")
		}
		p.job.Topology = append(p.job.Topology, entry)
	}
	if rapid.IntRange(0, 3).Draw(t, "state") == 0 {
		p.drawBound(t)
	}
	return p
}

// TestReasonsOfAnyGangAreRight: also of gangs that are in no class, what starts is in the domains that it asked for, and a reason
// that does not say that something was not tried is right.
func TestReasonsOfAnyGangAreRight(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := drawAny(t)
		before, possible := p.String(), newOracle(p, p.snapshot.Nodes).possible()
		at, refusal := p.cycle()
		if refusal != nil && refusal.Code == model.InvalidGroup { // sizes that do not divide each other, or members numbered twice
			return
		}
		found := p.job.FirstUnmetMinimum(func(task *model.Task) bool { return at[task] != nil }) == nil
		p.holdValid(t, at, found)
		exact := found || refusal.Code == model.NoDomainFits && !strings.Contains(refusal.String(), notAll)
		switch {
		case found && !possible:
			t.Fatalf("what starts was found impossible: %v\n%s", p.named(at), before)
		case !found && possible && exact:
			t.Fatalf("it waits although it can start: %s\n%s", refusal, before)
		}
		seen[fmt.Sprintf("possible: %t, found: %t, exact: %t", possible, found, exact)]++
	})
	for _, kind := range []string{"possible: true, found: true, exact: true", "possible: false, found: false, exact: true"} {
		if seen[kind] == 0 && !t.Failed() {
			t.Errorf("none of a kind: %v", seen)
		}
	}
}
