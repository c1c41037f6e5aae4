package advisor

import (
	"fmt"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/suggest"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestAdviceHasNumbers: each kind of change has its own kind in the API, and a change names no more nodes than the API allows.
func TestAdviceHasNumbers(t *testing.T) {
	dimensions := model.NewDimensions()
	var rooms []suggest.NodeAmount
	for i := range 20 {
		var amount model.Resources
		amount.Set(model.CPU, 1500)
		rooms = append(rooms, suggest.NodeAmount{Node: fmt.Sprintf("n%02d", i), Amount: amount})
	}
	advice := describe(suggest.Suggestions{
		{{Kind: suggest.Free, Rooms: rooms}, {Kind: suggest.Create, Members: 3}},
		{{Kind: suggest.LowerRole, From: 5, To: 4, PerRole: []model.Role{{Name: "worker", MinMember: 2}}}},
	}, dimensions)
	free, create, lower := advice.Alternatives[0].Changes[0], advice.Alternatives[0].Changes[1], advice.Alternatives[1].Changes[0]
	if cpu := free.Nodes[0].Resources["cpu"]; free.Kind != v1alpha1.FreeCapacity || free.Count != 20 || len(free.Nodes) != 16 || cpu.String() != "1500m" {
		t.Errorf("free: %+v", free)
	}
	if create.Kind != v1alpha1.CreatePods || create.Count != 3 {
		t.Errorf("create: %+v", create)
	}
	if lower.Kind != v1alpha1.LowerMinMember || *lower.From != 5 || *lower.To != 4 || lower.Role != "worker" || lower.Count != 2 {
		t.Errorf("lower: %+v", lower)
	}
	many := corev1.ResourceList{"cpu": resource.MustParse("1")}
	for i := range 100 {
		many[corev1.ResourceName(fmt.Sprintf("a.example/r%d", i))] = resource.MustParse("1")
	}
	most := describe(suggest.Suggestions{{
		{Kind: suggest.Add, Nodes: math.MaxInt32, Request: many}, {Kind: suggest.Create, Members: math.MaxInt32},
		{Kind: suggest.LowerRole, PerRole: []model.Role{{Name: "worker", MinMember: math.MaxInt32}}},
	}}, dimensions).Alternatives[0].Changes
	if _, cpu := most[0].Resources["cpu"]; !cpu || len(most[0].Resources) != 64 {
		t.Errorf("resources of new nodes: %v", most[0].Resources)
	}
	for _, change := range most {
		if change.Count != 10_000_000 {
			t.Errorf("%s: count %d is above the maximum", change.Kind, change.Count)
		}
	}
	if describe(nil, dimensions) != nil {
		t.Error("there is advice where none was found")
	}
	kinds := map[v1alpha1.ChangeKind]bool{}
	for kind := suggest.Create; kind <= suggest.Widen; kind++ {
		kinds[kindOf(kind)] = true
	}
	if len(kinds) != int(suggest.Widen) { // both that lower a minimum are one
		t.Errorf("%d kinds: %v", len(kinds), kinds)
	}
}
