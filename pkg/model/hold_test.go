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
			nodes = append(nodes, &Node{Name: fmt.Sprint("n", i), allocatable: Resources{9}, idle: Resources{9}})
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
				if want := hiddenOn(node, held, s.Viewpoint()); node.reserved.At(0) != want || node.Free(Idle).Of(0) != 9-want {
					t.Fatalf("%s keeps %v from %v, want %d", node.Name, node.reserved, s.Viewpoint(), want)
				}
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestNothingIsKeptThatANodeLacks: where pods are evicted for the viewer, what is reserved for jobs of other queues counts as far
// as the node has it beyond what is nominated.
func TestNothingIsKeptThatANodeLacks(t *testing.T) {
	own, other := &Queue{Name: "own"}, &Queue{Name: "other"}
	reserved := func(name string, queue *Queue, amount int64) HeldCapacity {
		return HeldCapacity{Job: JobKey{Name: name}, Queue: queue, Node: "n", Request: Resources{amount}}
	}
	nominated := reserved("nominated", own, 1)
	nominated.Pod.UID = "p"
	for _, test := range []struct {
		name  string
		holds []HeldCapacity
		want  int64
	}{
		{"there is enough", []HeldCapacity{reserved("r", other, 2)}, 2},
		{"there is less", []HeldCapacity{reserved("r", other, 5)}, 3},
		{"what is nominated to the viewer comes first", []HeldCapacity{nominated, reserved("r", other, 5)}, 2},
		{"two reservations", []HeldCapacity{reserved("r", other, 2), reserved("s", other, 5)}, 3},
		{"one of the own queue counts in full", []HeldCapacity{reserved("r", own, 5)}, 5},
	} {
		node := &Node{Name: "n", allocatable: Resources{3}, idle: Resources{3}}
		s := &Snapshot{Dimensions: NewDimensions()}
		s.SetNodes([]*Node{node})
		s.SetHeld(test.holds)
		for _, again := range []Viewpoint{{Queue: own, Job: nominated.Job, ForVictims: true}, {}, {Queue: own, Job: nominated.Job, ForVictims: true}} {
			s.SetViewpoint(again)
			if err := s.Check(); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		if got := node.reserved.At(0); got != test.want {
			t.Errorf("%s: %d are kept, want %d", test.name, got, test.want)
		}
	}
	s := &Snapshot{Dimensions: NewDimensions()}
	s.SetNodes([]*Node{{Name: "n", allocatable: Resources{8}, idle: Resources{8}}})
	s.SetHeld([]HeldCapacity{reserved("r", other, 3), reserved("s", other, 2)})
	if s.SetViewpoint(Viewpoint{Queue: own, GivesWay: "/r\n"}); s.Nodes[0].reserved.At(0) != 2 {
		t.Errorf("%v are kept where one reservation of two gives way", s.Nodes[0].reserved)
	}
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
	if s.SetHeld(nil); s.Journal.Cursor() == mark || s.Nodes[0].reserved.At(0) != 0 {
		t.Error("no holds are no change")
	}
}
