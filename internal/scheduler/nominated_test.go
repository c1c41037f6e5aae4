package scheduler

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestABindThatLeavesANomination: only what is bound to another node than to where capacity was nominated to it leaves that to
// others, so that there is one more cycle.
func TestABindThatLeavesANomination(t *testing.T) {
	task := func(node, nominated string, status model.Status) *model.Task {
		return &model.Task{Placement: model.Placement{Node: node, Status: status}, Nominated: nominated}
	}
	bound := func(task *model.Task) bool { return task.Status == model.Binding }
	for name, c := range map[string]struct {
		task *model.Task
		want bool
	}{
		"bound elsewhere":   {task("n2", "n1", model.Binding), true},
		"bound there":       {task("n1", "n1", model.Binding), false},
		"bound without one": {task("n2", "", model.Binding), false},
		"not bound":         {task("", "n1", model.Pending), false},
	} {
		if got := leavesNomination(&model.Job{Tasks: []*model.Task{c.task}}, bound); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
