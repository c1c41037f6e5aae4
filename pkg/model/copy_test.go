package model

import (
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// full is a snapshot with everything in it that a session or the cluster state changes.
func full(nodes, jobs, members int) *Snapshot {
	s := &Snapshot{Dimensions: NewDimensions(), JobBackoff: map[JobKey]*Refusal{{Name: "x"}: {}}, Budgets: []Budget{{}}}
	var all []*Node
	for i := range nodes {
		node := &Node{Name: fmt.Sprintf("n%05d", i), Allocatable: Resources{64000, 1 << 38, 0, 110}, Idle: Resources{64000, 1 << 38, 0, 110}}
		node.GrowVectors(s.Dimensions.Len())
		all = append(all, node)
	}
	s.SetNodes(all)
	for j := range jobs {
		job := &Job{Key: JobKey{Namespace: "ml", Name: fmt.Sprintf("j%05d", j)}, MinMember: int32(members)}
		s.Jobs = append(s.Jobs, job)
		for m := range members {
			name := fmt.Sprintf("%08x-%d", j*2654435761%(1<<32), m)
			task := &Task{PodRef: PodRef{UID: types.UID(name), Name: name}, Job: job.Key, Request: Resources{100, 1 << 30, 0, 1}}
			job.Tasks = append(job.Tasks, task)
			if j%2 == 0 {
				s.Move(task, Placement{Status: Running, Node: all[(j*members+m*131)%nodes].Name})
			}
		}
	}
	other := &Task{PodRef: PodRef{UID: "other"}, Request: Resources{1, 1, 0, 1}}
	s.Move(other, Placement{Status: Running, Node: all[0].Name})
	gone := &Task{PodRef: PodRef{UID: "gone"}, Job: s.Jobs[1].Key, Placement: Placement{Status: Running, Node: "gone"}}
	s.Jobs[1].Tasks = append(s.Jobs[1].Tasks, gone)
	s.SetHeld([]HeldCapacity{{Job: s.Jobs[1].Key, Priority: 1, Node: all[0].Name, Request: Resources{1000}}})
	s.SetViewpoint(Viewpoint{Job: s.Jobs[0].Key})
	s.TakeTouched()
	return s
}

// TestCopyIsEqualAndIndependent: it has the same content, and nothing that is done to one is seen in the other.
func TestCopyIsEqualAndIndependent(t *testing.T) {
	s, same := full(3, 4, 3), full(3, 4, 3)
	copied := s.Copy()
	copied.Journal, same.Journal = s.Journal, s.Journal
	if !reflect.DeepEqual(copied, s) {
		t.Fatalf("the copy is\n%+v\ninstead of\n%+v", copied, s)
	}
	for _, job := range copied.Jobs {
		for _, task := range job.Tasks {
			node := copied.Node(task.Node)
			if node == nil {
				continue
			}
			if listed := node.Tasks; !containsTask(listed, task) {
				t.Errorf("%s is another task on its node than in its job", task.Name)
			}
		}
	}
	change(copied)
	if err := copied.Check(); err != nil {
		t.Error(err)
	}
	if same.Journal = s.Journal; !reflect.DeepEqual(s, same) {
		t.Error("a change of the copy is seen in the snapshot")
	}
}

func containsTask(tasks []*Task, task *Task) bool {
	for _, other := range tasks {
		if other == task {
			return true
		}
	}
	return false
}

// change changes everything that sessions and the cluster state change.
func change(s *Snapshot) {
	for _, job := range s.Jobs {
		for i, task := range job.Tasks {
			if s.Node(task.Node) == nil && task.Status.HasNode() {
				continue
			}
			s.Move(task, Placement{Status: Pipelined, Node: s.Nodes[i%len(s.Nodes)].Name})
		}
		job.MinMember, job.Tasks[0] = 99, &Task{PodRef: PodRef{UID: "changed"}}
	}
	for _, node := range s.Nodes {
		s.AddCapacity(node, Resources{5, 5, 5, 5})
	}
	s.SetViewpoint(Viewpoint{Job: s.Jobs[1].Key})
	s.ReleaseHeld(s.Jobs[1].Key)
	s.Dimensions.Index("example.com/fpga")
	s.JobBackoff[JobKey{}] = &Refusal{}
	s.Budgets[0].Allowed = 7
}

// BenchmarkCopy is of a cluster at the largest size that is supported.
func BenchmarkCopy(b *testing.B) {
	s := full(20_000, 25_000, 8)
	b.ReportAllocs()
	for b.Loop() {
		s.Copy()
	}
}
