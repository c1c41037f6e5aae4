package isolated

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/test/bounds"
)

// FuzzParseSet reads what it writes: a list that can be read is written in one form only, and that form is the same set.
func FuzzParseSet(f *testing.F) {
	for _, list := range []string{"", "0", "0-3,8", " 1 , 2-2 ", "1023", "1024", "0-1023", "3-1", "-1", "0--1", "1,,2", "٣", "0x1", "99999999999999999999"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		bounds.Hold(t, func() {
			set, err := ParseSet(list)
			if err != nil {
				if !set.Empty() {
					t.Fatalf("%q is refused, and is %s", list, set)
				}
				return
			}
			count := 0
			for id := set.Next(0); id >= 0; id = set.Next(id + 1) {
				if count++; !set.Has(id) || id >= Limit {
					t.Fatalf("%q has %d", list, id)
				}
			}
			again, err := ParseSet(set.String())
			if err != nil || again != set || again.String() != set.String() || count != set.Len() {
				t.Fatalf("%q is %s, which is %s: %v", list, set, again, err)
			}
		})
	})
}

// FuzzParseAssignment reads arbitrary annotations of a pod.
func FuzzParseAssignment(f *testing.F) {
	f.Add(assigned)
	f.Add(`{"v":1,"cpus":"4","containers":{"a":"5"}}`)
	f.Add(`{"v":2,"cpus":"4"}`)
	f.Add(`null`)
	f.Add(`{"v":1,"cpus":["4"],"containers":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		bounds.Hold(t, func() {
			a, err := ParseAssignment(text)
			if err != nil {
				return
			}
			for name, cpus := range a.Containers {
				if !cpus.Within(a.CPUs) {
					t.Fatalf("container %q has %s of %s", name, cpus, a.CPUs)
				}
			}
			written, err := a.Text()
			if err != nil || a.CPUs.Empty() {
				t.Fatalf("%+v: %v", a, err)
			}
			again, err := ParseAssignment(written)
			if err != nil {
				t.Fatalf("%q is written as %q: %v", text, written, err)
			}
			if second, _ := again.Text(); second != written {
				t.Fatalf("%q is written as %q, and that as %q", text, written, second)
			}
		})
	})
}

// FuzzParseTopology reads arbitrary annotations of a node.
func FuzzParseTopology(f *testing.F) {
	f.Add(topology)
	f.Add(`{"v":1,"gen":-1,"numa":[{},{}],"threadsPerCore":-3,"problems":[""]}`)
	f.Add(strings.Replace(topology, `"threadsPerCore":2`, `"threadsPerCore":1`, 1))
	f.Add(strings.Replace(topology, `"cores":["8,12","9,13"]`, `"cores":["","8","12","9,13"]`, 1))
	f.Add(strings.Replace(topology, `"id":1`, `"id":4096`, 1))
	f.Add(`{}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		bounds.Hold(t, func() {
			topology, err := ParseTopology(text)
			if err != nil {
				return
			}
			if !topology.Isolated.Within(topology.Online) {
				t.Fatalf("%s of %s", topology.Isolated, topology.Online)
			}
			holdPicks(t, topology)
			written, err := topology.Text()
			if err != nil || !json.Valid([]byte(written)) {
				t.Fatalf("%+v: %v", topology, err)
			}
			again, err := ParseTopology(written)
			if err != nil {
				t.Fatalf("%q is written as %q: %v", text, written, err)
			}
			if second, _ := again.Text(); second != written {
				t.Fatalf("%q is written as %q, and that as %q", text, written, second)
			}
		})
	})
}

// holdPicks checks that Pick works on any topology that can be read: ids that are free, as many as requested, on NUMA nodes
// with a number.
func holdPicks(t *testing.T, topology *Topology) {
	for _, smt := range []SMT{PreferFullCore, RequireFullCore, OnePerCore} {
		for _, numa := range []NUMA{NUMAPreferred, NUMARequired} {
			p := Policies{SMT: smt, NUMA: numa}
			most := MaxCPUs(topology, topology.Isolated, p)
			for _, n := range []int{-1, 0, 1, 2, 3, most, most + 1, Limit} {
				ids, ok := Pick(topology, topology.Isolated, n, p)
				if want := n * p.ThreadsPerCPU(); ok && (ids.Len() != want || !ids.Within(topology.Isolated)) || !ok && !ids.Empty() {
					t.Fatalf("%d of %s, %v: %s, %v", n, topology.Isolated, p, ids, ok)
				}
				if ok && topology.NUMAOf(ids).Empty() {
					t.Fatalf("%s are of no NUMA node", ids)
				}
			}
		}
	}
}
