package model

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRefusalSentence(t *testing.T) {
	for want, refusal := range map[string]*Refusal{
		"":                               nil,
		"needs 3, 2 exist":               {Code: NotEnoughMembers, Needs: 3, Has: 2},
		"needs 2, 1 exist (role worker)": {Code: NotEnoughMembers, Needs: 2, Has: 1, Detail: "role worker"},
		`PodGroup "mpi" does not exist in this namespace`: {Code: GroupNotFound, Detail: `PodGroup "mpi" does not exist in this namespace`},
		"needs 12, 9 would fit; 31 nodes lack nvidia.com/gpu, 1 node: untolerated taint": {
			Code: InsufficientResources, Needs: 12, Has: 9, NodeReasons: []NodeReason{
				{InsufficientResources, "nvidia.com/gpu", false, 31}, {NodesFiltered, "untolerated taint", false, 1},
			},
		},
		"needs 12, 9 would fit; 31 nodes lack nvidia.com/gpu; 3 members short of 8 nvidia.com/gpu each; closest: node n7, missing 3 nvidia.com/gpu; noted": {
			Code: InsufficientResources, Needs: 12, Has: 9, NodeReasons: []NodeReason{{InsufficientResources, "nvidia.com/gpu", false, 31}},
			Unmet: "8 nvidia.com/gpu", Closest: "closest: node n7, missing 3 nvidia.com/gpu", Note: "noted",
		},
		"needs 2, 1 would fit; 1 node lacks cpu; 1 member short of 4 cpu; closest: node n7, missing 1 cpu": {
			Code: InsufficientResources, Needs: 2, Has: 1, NodeReasons: []NodeReason{{InsufficientResources, "cpu", false, 1}},
			Unmet: "4 cpu", Closest: "closest: node n7, missing 1 cpu",
		},
		"needs 2, 1 would fit; 1 node lacks cpu; closest: node n7, missing 1 cpu": {
			Code: InsufficientResources, Needs: 2, Has: 1, NodeReasons: []NodeReason{{InsufficientResources, "cpu", false, 1}}, Closest: "closest: node n7, missing 1 cpu",
		},
		"needs 1, 0 would fit; 9 nodes: a, 8 nodes: b, 7 nodes: c, 6 nodes: d, 5 nodes: e, 4 nodes: f, and 5 nodes for other reasons": {
			Code: NodesFiltered, Needs: 1, NodeReasons: []NodeReason{
				{NodesFiltered, "a", false, 9}, {NodesFiltered, "b", false, 8}, {NodesFiltered, "c", false, 7}, {NodesFiltered, "d", false, 6},
				{NodesFiltered, "e", false, 5}, {NodesFiltered, "f", false, 4}, {NodesFiltered, "g", false, 3}, {NodesFiltered, "h", false, 2},
			},
		},
		"needs 1, 0 would fit; 1 node lacks cpu": {
			Code: InsufficientResources, Needs: 1, NodeReasons: []NodeReason{{InsufficientResources, "cpu", false, 1}},
		},
		"needs 1, 0 would fit; the cluster has no nodes": {
			Code: NodesFiltered, Needs: 1, NodeReasons: []NodeReason{{NodesFiltered, "the cluster has no nodes", false, 0}},
		},
		"needs 1, 0 would fit; 4 nodes lack gpu, 1 node has no gpu; 1 member short of 8 gpu; noted": {
			Code: InsufficientResources, Needs: 1, Unmet: "8 gpu", Note: "noted", NodeReasons: []NodeReason{
				{InsufficientResources, "gpu", false, 4}, {InsufficientResources, "gpu", true, 1},
			},
		},
		"needs 1, 0 would fit; 8 nodes have no gpu": {
			Code: InsufficientResources, Needs: 1, NodeReasons: []NodeReason{{InsufficientResources, "gpu", true, 8}},
		},
		"too many jobs": {Code: "TooManyJobs", Detail: "too many jobs"},
	} {
		if got := refusal.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func someRefusal(t *rapid.T) *Refusal {
	if rapid.IntRange(0, 4).Draw(t, "yes") == 0 {
		return nil
	}
	return &Refusal{
		Code:      rapid.SampledFrom([]Code{InsufficientResources, NodesFiltered}).Draw(t, "code"),
		Detail:    few(t, "detail"),
		Evictable: rapid.IntRange(0, 3).Draw(t, "evictable") == 0,
	}
}

// TestTallyOrder: the same refusals have the same reasons, in whatever order and in however many diagnoses they were counted;
// most frequent first, each reason once, none lost.
func TestTallyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		refusals := rapid.SliceOfN(rapid.Custom(someRefusal), 0, 20).Draw(t, "refusals")
		var one, first, second NodeDiagnosis
		counted, evictable := 0, false
		for i, refusal := range refusals {
			one.Add(refusal)
			if i%2 == 0 {
				first.Add(refusal)
			} else {
				second.Add(refusal)
			}
			if refusal != nil {
				counted++
				evictable = evictable || refusal.Evictable
			}
		}
		second.Merge(&first)
		causes := one.Causes()
		if merged := second.Causes(); !slices.Equal(causes, merged) {
			t.Fatalf("in one %v, in two %v", causes, merged)
		}
		for i, cause := range causes {
			counted -= cause.Nodes
			if i > 0 && !before(causes[i-1], cause) {
				t.Fatalf("%v before %v", causes[i-1], cause)
			}
		}
		if counted != 0 || one.Evictable() != evictable || second.Evictable() != evictable {
			t.Fatalf("%d not counted; evictable %v, want %v", counted, one.Evictable(), evictable)
		}
	})
}

// before is the order of reasons, strict.
func before(a, b NodeReason) bool {
	if a.Nodes != b.Nodes {
		return a.Nodes > b.Nodes
	}
	return a.Code < b.Code || a.Code == b.Code && a.Detail < b.Detail
}

// TestTallyRefusal: a lack of capacity on any node makes the job's refusal InsufficientResources; only then does a bigger
// cluster help.
func TestTallyRefusal(t *testing.T) {
	var tally NodeDiagnosis
	tally.AddN(&Refusal{Code: NodesFiltered, Detail: "taint"}, 5)
	if got := tally.Refusal(3, 1, "").Code; got != NodesFiltered {
		t.Errorf("taints alone give %s", got)
	}
	tally.Add(&Refusal{Code: InsufficientResources, Detail: "cpu", Evictable: true})
	refusal := tally.Refusal(3, 1, "worker")
	if refusal.Code != InsufficientResources || !refusal.Evictable {
		t.Errorf("with one node short of capacity: %+v", refusal)
	}
	if got, want := refusal.String(), "needs 3, 1 would fit (worker); 5 nodes: taint, 1 node lacks cpu"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
