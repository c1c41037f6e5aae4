package allocate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// racks is a gang of nine that must share a rack, and so many racks. The last one has capacity for it, on nodes of so much CPU
// each; the others have nodes that are larger, and do not hold it all the same.
func racks(count int, others, last []int64, wants ...says) *siblings {
	p := &siblings{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}
	for i := range count {
		rack, nodes := fmt.Sprintf("r%04d", i), others
		if i == count-1 {
			nodes = last
		}
		for j, cpu := range nodes {
			name, room := fmt.Sprint(rack, "-", j), model.Resources{cpu, 0, 0, 0}
			object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack, "host": name}}}
			p.snapshot.Nodes = append(p.snapshot.Nodes, model.NewNode(name, object, room))
		}
	}
	p.snapshot.AssignIndexes()
	p.job = &model.Job{Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang", Need: model.Need{MinMember: 9}}
	for i := range 9 {
		member := template{app: "a", cpu: 1, says: append([]says{{"near", "a", "rack"}}, wants...)}
		p.job.Tasks = append(p.job.Tasks, member.task(i))
	}
	p.snapshot.Jobs = []*model.Job{p.job}
	return p
}

// guarded returns racks. All but the last have a large node from which a running pod keeps the gang away, which no count of
// places shows, and a node beside it that is too small. The last one
// is tried last: it has the most capacity left over.
func guarded(count int) *siblings {
	p := racks(count, []int64{64, 8}, []int64{99})
	for i, node := range p.snapshot.Nodes {
		if node.Allocatable().At(0) == 64 {
			hostile := template{says: []says{{"apart", "a", "host"}}}.task(100 + i)
			hostile.Job = model.JobKey{}
			p.snapshot.Move(hostile, model.Placement{Status: model.Running, Node: node.Name})
		}
	}
	return p
}

// TestManyDomains: some are tried whatever it costs, and more as long as there is something to pay with; those are not counted
// that have too few places for members who are apart from each other there.
func TestManyDomains(t *testing.T) {
	apart := says{"apart", "a", "host"}
	for _, test := range []struct {
		name   string
		p      *siblings
		budget int
		starts bool
	}{
		{"few", guarded(32), 0, true},
		{"many", guarded(200), 100_000, true},
		{"many for nothing", guarded(200), 0, false},
		{"many of one host", racks(200, []int64{64}, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1}, apart), 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			filter := neighbours{index: topology.New(neighbours{})}
			profile := &engine.Profile{Actions: []engine.Action{allocate.NewWithin(test.budget)}, Tiers: []engine.Tier{{
				{Factory: gang.New}, {Factory: func() framework.Plugin { return filter }},
			}}}
			bound := 0
			engine.Run(test.p.snapshot, profile, engine.Options{Verify: true, Decide: func(d model.Decision) {
				bound += len(d.Binds)
			}})
			if starts := bound == 9; starts != test.starts {
				t.Errorf("started: %t, want %t", starts, test.starts)
			}
		})
	}
}
