package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// dealer gives each task the lowest CPU that no task on the node holds.
type dealer struct{ binder string }

func (dealer) Name() string { return "dealer" }

func (dealer) AllocateCPUs(_ *model.Task, node *model.Node) (*isolated.Assignment, *model.Refusal) {
	held := node.HeldCPUs(false)
	for id := range 4 {
		if !held.Has(id) {
			return &isolated.Assignment{Version: 1, CPUs: isolated.NewCPUSet(id)}, nil
		}
	}
	return nil, no("all are held")
}

func (dealer) ExplainShortage(*model.Task, *model.Node, int, model.CapacityKind) *model.Refusal {
	return nil
}

func (d dealer) BinderOf(*model.Task) string { return d.binder }

// TestAssignedIsUndone: CPUs are a task's from when it is placed on, and no task's when that never happened; a nomination
// gives none.
func TestAssignedIsUndone(t *testing.T) {
	snapshot := house(4)
	job := join(snapshot, "a", 2, 3, model.Resources{1})
	for _, task := range job.Tasks {
		task.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	}
	var decided []model.Decision
	s := Open(snapshot, profileOf(dealer{}), Options{Verify: true, Decide: func(d model.Decision) { decided = append(decided, d) }})
	node, before := snapshot.Nodes[0], dump(snapshot)
	held := func() string { return node.HeldCPUs(false).String() }
	s.Try(func(statement *Statement) *model.Refusal {
		statement.allocate(job.Tasks[0], node)
		s.Try(func(inner *Statement) *model.Refusal {
			inner.allocate(job.Tasks[1], node)
			if held() != "0-1" {
				t.Errorf("%q are held by two", held())
			}
			return no("x")
		})
		if held() != "0" || job.Tasks[1].Isolated != nil {
			t.Errorf("%q are held when one was taken back", held())
		}
		return no("x")
	})
	if held() != "" || dump(snapshot) != before {
		t.Errorf("%q are held, and nothing has happened", held())
	}
	s.Try(func(statement *Statement) *model.Refusal {
		statement.pipeline(job.Tasks[2], node)
		if held() != "" {
			t.Errorf("%q are held by a promise", held())
		}
		return statement.allocate(job.Tasks[0], node)
	})
	if len(decided) != 1 || len(decided[0].Binds) != 1 {
		t.Fatalf("decided %+v", decided)
	}
	if out := decided[0].Binds[0].Isolated; out == nil || out.Assignment != job.Tasks[0].Isolated || out.ResourceVersion != "7" ||
		out.Annotations[isolated.AssignedAnnotation] == "" || out.Annotations[isolated.RequiredPluginsAnnotation] != `["isolcpu"]` {
		t.Errorf("bound with %+v", out)
	}
}

// TestWhoBindsByItselfGetsNoIsolatedCPUs: no binder would write them to the pod.
func TestWhoBindsByItselfGetsNoIsolatedCPUs(t *testing.T) {
	snapshot := house(4)
	job := join(snapshot, "a", 1, 1, model.Resources{1})
	job.Tasks[0].Pod = &corev1.Pod{}
	s := Open(snapshot, profileOf(dealer{binder: "webhook"}), Options{Verify: true})
	refusal := s.Try(func(statement *Statement) *model.Refusal { return statement.allocate(job.Tasks[0], snapshot.Nodes[0]) })
	if refusal == nil || refusal.Code != model.NodesFiltered || job.Tasks[0].Isolated != nil {
		t.Errorf("%v, with %v", refusal, job.Tasks[0].Isolated)
	}
}

// touchy panics as soon as a task is placed.
type touchy struct{ named }

func (touchy) OnAllocate(*model.Task)                    { panic("touched") }
func (touchy) OnEvict(*model.Task)                       {}
func (touchy) OnDeallocate(*model.Task, model.Placement) {}

// TestAssignedIsAbandoned: a panic takes CPUs back as undo does.
func TestAssignedIsAbandoned(t *testing.T) {
	snapshot := house(4)
	job := join(snapshot, "a", 1, 1, model.Resources{1})
	job.Tasks[0].Pod = &corev1.Pod{}
	profile := profileOf(dealer{}, touchy{"touchy"})
	profile.Actions = []Action{&counting{act: func(s *Session) {
		s.Try(func(statement *Statement) *model.Refusal { return statement.allocate(job.Tasks[0], snapshot.Nodes[0]) })
	}}}
	before := dump(snapshot)
	Run(snapshot, profile, Options{OnPanic: func(RecoveredPanic) {}})
	if dump(snapshot) != before || job.Tasks[0].Isolated != nil {
		t.Errorf("a pending task is given %v", job.Tasks[0].Isolated)
	}
}
