package isolated

import (
	"strings"
	"testing"

	"k8s.io/utils/cpuset"
	"pgregory.net/rapid"
)

// TestSetIsThatOfKubernetes compares the text of sets, and operations on two of them, with the kubelet's own type.
func TestSetIsThatOfKubernetes(t *testing.T) {
	ids := rapid.SliceOfN(rapid.IntRange(0, Limit-1), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		a, b := ids.Draw(t, "a"), ids.Draw(t, "b")
		x, y, p, q := NewCPUSet(a...), NewCPUSet(b...), cpuset.New(a...), cpuset.New(b...)
		for _, pair := range []struct {
			what string
			ours CPUSet
			them cpuset.CPUSet
		}{
			{"itself", x, p}, {"union", x.Union(y), p.Union(q)}, {"both", x.Intersect(y), p.Intersection(q)},
			{"minus", x.Minus(y), p.Difference(q)},
		} {
			if pair.ours.String() != pair.them.String() || pair.ours.Len() != pair.them.Size() {
				t.Errorf("%s: %s, want %s", pair.what, pair.ours, pair.them)
			}
			if back, err := ParseSet(pair.them.String()); err != nil || back != pair.ours {
				t.Errorf("%s: read back %s, %v, want %s", pair.what, back, err, pair.ours)
			}
		}
		if x.Within(y) != p.IsSubsetOf(q) || x.Empty() != p.IsEmpty() {
			t.Errorf("%s within %s: %v; empty %v", x, y, x.Within(y), x.Empty())
		}
	})
}

func TestParseSetSaysWhat(t *testing.T) {
	for list, want := range map[string]string{
		"1-": `"" is no CPU id`, "a": `"a" is no CPU id`, "3-1": `range "3-1" goes backwards`,
		"1024": "at most 1024 CPUs", "0-4294967296": `"4294967296" is no CPU id`, "1,,2": `"" is no CPU id`,
	} {
		if _, err := ParseSet(list); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), list) {
			t.Errorf("%q: %v, want %s", list, err, want)
		}
	}
}
