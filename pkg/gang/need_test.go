package gang

import (
	"slices"
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

func TestLower(t *testing.T) {
	task := func(status model.Status, role string) *model.Task {
		return &model.Task{Role: role, Placement: model.Placement{Status: status}}
	}
	gated, refused := task(model.Pending, ""), task(model.Pending, "")
	gated.SchedulingGated, refused.Invalid = true, &model.Refusal{Code: model.Malformed}
	running, waiting := task(model.Running, ""), task(model.Pending, "")
	workers := []model.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: 3}}
	for name, c := range map[string]struct {
		never bool
		roles []model.Role
		tasks []*model.Task
		want  int32
		left  []model.Role
	}{
		"one runs, one waits":              {tasks: []*model.Task{running, waiting}, want: 2},
		"a bind is in flight, one waits":   {tasks: []*model.Task{task(model.Binding, ""), waiting}, want: 2},
		"never whole":                      {never: true, tasks: []*model.Task{running, waiting}, want: 4},
		"nothing has a node":               {tasks: []*model.Task{waiting, waiting}, want: 4},
		"what is left has succeeded":       {tasks: []*model.Task{task(model.Succeeded, ""), waiting}, want: 4},
		"what is left is being deleted":    {tasks: []*model.Task{task(model.Releasing, ""), waiting}, want: 4},
		"nothing waits":                    {tasks: []*model.Task{running, running}, want: 4},
		"all exist":                        {tasks: []*model.Task{running, waiting, waiting, waiting}, want: 4},
		"more than all exist":              {tasks: []*model.Task{running, waiting, waiting, waiting, waiting}, want: 4},
		"a gated one does not count":       {tasks: []*model.Task{running, waiting, gated}, want: 2},
		"a malformed one does not count":   {tasks: []*model.Task{running, waiting, refused}, want: 2},
		"one that has succeeded counts":    {tasks: []*model.Task{running, task(model.Succeeded, ""), waiting}, want: 3},
		"of a role, and none of the other": {roles: workers, tasks: []*model.Task{task(model.Running, "worker"), task(model.Pending, "worker")}, want: 2, left: []model.Role{{Name: "worker", MinMember: 2}}},
		"a role lacks members, the whole does not": {
			roles: workers, tasks: []*model.Task{running, running, running, task(model.Running, "worker"), waiting},
			want: 4, left: []model.Role{{Name: "worker", MinMember: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			need := Of(&Spec{MinMember: 4, Roles: c.roles, HasStatus: true, Whole: !c.never}, c.tasks, model.Minima{})
			if need.MinMember != c.want || !slices.Equal(need.Roles, c.left) {
				t.Errorf("minimum %d, roles %v; want %d, %v", need.MinMember, need.Roles, c.want, c.left)
			}
			if lowered := c.want != 4 || c.left != nil; (need.Stated != nil) != lowered {
				t.Errorf("it stated %v, want lowered: %v", need.Stated, lowered)
			}
		})
	}
}

// TestLowerWithARoleThatHasBegunSince: a role made later that has begun in part after the job was whole counts in full, also
// while a member of the others is lost: no member of it is surplus.
func TestLowerWithARoleThatHasBegunSince(t *testing.T) {
	task := func(status model.Status, role string) *model.Task {
		return &model.Task{Role: role, Placement: model.Placement{Status: status}}
	}
	begun := []*model.Task{
		task(model.Running, "first"), task(model.Running, "second"), task(model.Pending, "second"), task(model.Pending, "second"),
	}
	begun[1].Started = true
	second := model.Role{Name: "second", MinMember: 3, MadeLater: true}
	for name, c := range map[string]struct {
		tasks []*model.Task
		want  int32
		left  []model.Role
	}{
		"the lost member is not replaced": {begun, 4, []model.Role{{Name: "first", MinMember: 1}, second}},
		"the lost member is replaced":     {append(slices.Clone(begun), task(model.Pending, "first")), 5, []model.Role{{Name: "first", MinMember: 2}, second}},
	} {
		was := model.Minima{MinMember: 2, Roles: []model.Role{{Name: "first", MinMember: 2}}}
		spec := &Spec{MinMember: 5, Roles: []model.Role{{Name: "first", MinMember: 2}, second}, HasStatus: true, Whole: true}
		if need := Of(spec, c.tasks, was); need.MinMember != c.want || !slices.Equal(need.Roles, c.left) {
			t.Errorf("%s: minimum %d, roles %v; want %d, %v", name, need.MinMember, need.Roles, c.want, c.left)
		}
	}
}

// TestAGangThatCannotBeDecodedIsNotBelowItsMinimum: neither by what it states nor by what it needs now, so that it is not
// undone, and not restarted: it could not start again.
func TestAGangThatCannotBeDecodedIsNotBelowItsMinimum(t *testing.T) {
	members := []*model.Task{{Placement: model.Placement{Status: model.Running}}, {Placement: model.Placement{Status: model.Pending}}}
	for _, undecodable := range []bool{false, true} {
		need := Of(&Spec{MinMember: 4, HasStatus: true, Whole: true, Undecodable: undecodable}, members, model.Minima{MinMember: 4})
		if need.Stated == nil || need.BelowMinimum == undecodable || need.Present.BelowMinimum == undecodable {
			t.Errorf("undecodable %v: it stated %v, below the minimum %v, below what it states %v",
				undecodable, need.Stated, need.BelowMinimum, need.Present.BelowMinimum)
		}
	}
}
