package model

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestHoldsAreSeenByWhomTheyConcern: in any order of changes, what counts as used on a node is exactly what is held for
// others of the same or a higher priority, and what is nominated to others where the viewer evicts none.
func TestHoldsAreSeenByWhomTheyConcern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Snapshot{Dimensions: NewDimensions()}
		var nodes []*Node
		for i := range 3 {
			nodes = append(nodes, &Node{Name: fmt.Sprint("n", i), Allocatable: Resources{9}, Idle: Resources{9}})
		}
		s.SetNodes(nodes)
		jobs := []JobKey{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		var held []HeldCapacity
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				held = drawHolds(t, jobs)
				s.SetHeld(slices.Clone(held))
			case 1:
				job := rapid.SampledFrom(jobs).Draw(t, "job")
				held = slices.DeleteFunc(held, func(h HeldCapacity) bool { return h.Job == job })
				s.ReleaseHeld(job)
			case 2:
				s.SetNodes(nodes[:rapid.IntRange(1, 3).Draw(t, "nodes")])
				s.SetHeld(slices.Clone(held))
			default:
				s.SetViewpoint(Viewpoint{
					Job: rapid.SampledFrom(jobs).Draw(t, "viewer"), Priority: rapid.Int32Range(0, 3).Draw(t, "priority"),
					EvictsNone: rapid.Bool().Draw(t, "evicts none"),
				})
			}
			for _, node := range s.Nodes {
				if want := hiddenOn(node, held, s.Viewpoint()); node.Reserved.At(0) != want || node.free(0, Idle) != 9-want {
					t.Fatalf("%s keeps %v from %v, want %d", node.Name, node.Reserved, s.Viewpoint(), want)
				}
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func hiddenOn(node *Node, held []HeldCapacity, viewer Viewpoint) (sum int64) {
	for _, hold := range held {
		nominated := hold.Pod != PodRef{}
		if hold.Node == node.Name && hold.Job != viewer.Job && (hold.Priority >= viewer.Priority || hold.Exclusive || nominated && viewer.EvictsNone) {
			sum += hold.Request.At(0)
		}
	}
	return sum
}

func drawHolds(t *rapid.T, jobs []JobKey) []HeldCapacity {
	var holds []HeldCapacity
	for i := range rapid.IntRange(0, 5).Draw(t, "holds") {
		pod := PodRef{UID: types.UID(fmt.Sprint(i))}
		if rapid.IntRange(0, 3).Draw(t, "reserved") == 0 {
			pod = PodRef{}
		}
		holds = append(holds, HeldCapacity{
			Job: rapid.SampledFrom(jobs).Draw(t, "owner"), Priority: rapid.Int32Range(0, 3).Draw(t, "of priority"),
			Exclusive: rapid.Bool().Draw(t, "exclusive"),
			Node:      rapid.SampledFrom([]string{"n0", "n1", "n2", "gone"}).Draw(t, "node"),
			Pod:       pod, Request: Resources{rapid.Int64Range(0, 4).Draw(t, "request")},
		})
	}
	slices.SortFunc(holds, func(a, b HeldCapacity) int { return CompareHeld(&a, &b) })
	return holds
}

// TestSameHoldsAreNoChange: setting the same held capacity again adds nothing to the journal, whose readers would otherwise
// do work.
func TestSameHoldsAreNoChange(t *testing.T) {
	s := &Snapshot{Dimensions: NewDimensions()}
	s.SetNodes([]*Node{{Name: "n0"}})
	holds := []HeldCapacity{{Job: JobKey{Name: "a"}, Node: "n0", Request: Resources{1}}}
	s.SetHeld(slices.Clone(holds))
	mark := s.Journal.Cursor()
	if s.SetHeld(slices.Clone(holds)); s.Journal.Cursor() != mark {
		t.Error("the same holds are a change")
	}
	if s.SetHeld(nil); s.Journal.Cursor() == mark || s.Nodes[0].Reserved.At(0) != 0 {
		t.Error("no holds are no change")
	}
}
