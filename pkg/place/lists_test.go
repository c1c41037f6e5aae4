package place

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestDividedByDomain: nodes are divided as if each domain were asked for its own.
func TestDividedByDomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		domains := rapid.SliceOf(rapid.SampledFrom([]int{-1, 0, 1, 2, 7, 8, 500})).Draw(t, "domains")
		var fits []int32
		var nodes []int
		for node := range domains {
			fits = append(fits, rapid.Int32Range(0, 2).Draw(t, "fits"))
			if rapid.Bool().Draw(t, "listed") {
				nodes = append(nodes, node)
			}
		}
		domain := func(node int) int { return domains[node] }
		var want [][]int
		for at := range 501 {
			in := slices.DeleteFunc(slices.Clone(nodes), func(node int) bool { return domain(node) != at || fits[node] == 0 })
			if len(in) > 0 {
				want = append(want, in)
			}
		}
		if got := divided(domain, fits, nodes); !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// TestInsideOfChosenDomains: of all nodes those remain that are in each domain which was chosen for one of the tasks, by any of
// them.
func TestInsideOfChosenDomains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshot := &model.Snapshot{}
		for i := range 12 {
			snapshot.Nodes = append(snapshot.Nodes, &model.Node{Index: i})
		}
		var tasks []*model.Task
		for _, role := range []string{"a", "b", "c"} {
			tasks = append(tasks, &model.Task{Role: role, Pod: &corev1.Pod{}})
		}
		placer := &Placer{session: &engine.Session{Snapshot: snapshot}, members: tasks, kinds: newKinds(tasks)}
		type choice struct {
			of   map[equivalenceClass]bool
			list []int
		}
		var chosen []choice
		var within regions
		for range rapid.IntRange(0, 3).Draw(t, "domains") {
			list := rapid.SliceOfDistinct(rapid.IntRange(0, 11), rapid.ID[int]).Draw(t, "list")
			slices.Sort(list)
			one := choice{list: list, of: map[equivalenceClass]bool{}}
			for _, task := range tasks {
				if rapid.IntRange(0, 3).Draw(t, "bound") > 0 {
					one.of[placer.kinds.of(task)] = true
				}
			}
			chosen, within = append(chosen, one), within.with(one.of, list)
		}
		asked := tasks[:rapid.IntRange(1, 3).Draw(t, "asked")]
		var want []int
		for node := range snapshot.Nodes {
			if slices.ContainsFunc(asked, func(task *model.Task) bool {
				return !slices.ContainsFunc(chosen, func(one choice) bool { return one.of[placer.kinds.of(task)] && !slices.Contains(one.list, node) })
			}) {
				want = append(want, node)
			}
		}
		if got := placer.inside(nil, placer.kindsOf(asked, func(*model.Task) bool { return true }), within); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
