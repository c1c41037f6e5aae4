package gang

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// member is a task in short form: its status, its role, and whether it is gated.
type member struct {
	status model.Status
	role   string
	gated  bool
}

func gangOf(minMember int32, roles []model.Role, members ...member) *model.Job {
	job := &model.Job{Need: model.Need{MinMember: minMember, Roles: roles}}
	for _, m := range members {
		job.Tasks = append(job.Tasks, &model.Task{Placement: model.Placement{Status: m.status}, Role: m.role, SchedulingGated: m.gated})
	}
	return job
}

var (
	pending, gated  = member{status: model.Pending}, member{status: model.Pending, gated: true}
	placed          = member{status: model.Allocated}
	promised        = member{status: model.Pipelined}
	running         = member{status: model.Running}
	succeeded       = member{status: model.Succeeded}
	failed          = member{status: model.Failed}
	releasing       = member{status: model.Releasing}
	launcher        = member{status: model.Pending, role: "launcher"}
	worker          = member{status: model.Pending, role: "worker"}
	onePlacedWorker = member{status: model.Allocated, role: "worker"}
	mpi             = []model.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: 2}}
)

func TestValidateJob(t *testing.T) {
	for name, c := range map[string]struct {
		job  *model.Job
		code model.Code
		says string
	}{
		"enough":               {gangOf(2, nil, pending, pending), "", ""},
		"more than enough":     {gangOf(1, nil, pending, pending), "", ""},
		"one missing":          {gangOf(3, nil, pending, pending), model.NotEnoughMembers, "needs 3, 2 exist"},
		"no member":            {gangOf(1, nil), model.NotEnoughMembers, "needs 1, 0 exist"},
		"finished ones count":  {gangOf(3, nil, pending, succeeded, running), "", ""},
		"failed ones do not":   {gangOf(2, nil, pending, failed), model.NotEnoughMembers, "needs 2, 1 exist"},
		"leaving ones do not":  {gangOf(2, nil, pending, releasing), model.NotEnoughMembers, "needs 2, 1 exist"},
		"promised ones exist":  {gangOf(2, nil, promised, promised), "", ""},
		"gates":                {gangOf(2, nil, pending, gated), model.SchedulingGated, "needs 2, 1 without scheduling gates"},
		"gates, and too few":   {gangOf(3, nil, pending, gated), model.NotEnoughMembers, "needs 3, 1 exist"},
		"gates beyond minimum": {gangOf(1, nil, pending, gated), "", ""},
		"every role":           {gangOf(3, mpi, launcher, worker, worker), "", ""},
		"a role short":         {gangOf(3, mpi, launcher, worker, pending), model.NotEnoughMembers, "needs 2, 1 exist (role worker)"},
		"no launcher":          {gangOf(3, mpi, worker, worker, worker), model.NotEnoughMembers, "needs 1, 0 exist (role launcher)"},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := plugin{}.ValidateJob(c.job)
			if (refusal == nil) != (c.code == "") || refusal != nil && refusal.Code != c.code || refusal.String() != c.says {
				t.Errorf("got %q, want %q (%s)", refusal, c.says, c.code)
			}
		})
	}
}

func TestGateJob(t *testing.T) {
	for name, c := range map[string]struct {
		job               *model.Job
		placed, orPromise string
	}{
		"all placed":         {gangOf(2, nil, placed, placed), "", ""},
		"one waits":          {gangOf(2, nil, placed, pending), "needs 2, 1 would fit", "needs 2, 1 would fit"},
		"one promised":       {gangOf(2, nil, placed, promised), "needs 2, 1 would fit", ""},
		"all promised":       {gangOf(2, nil, promised, promised), "needs 2, 0 would fit", ""},
		"some have finished": {gangOf(3, nil, placed, succeeded, running), "", ""},
		"one has failed":     {gangOf(2, nil, placed, failed), "needs 2, 1 would fit", "needs 2, 1 would fit"},
		"one is leaving":     {gangOf(2, nil, running, releasing), "needs 2, 1 would fit", "needs 2, 1 would fit"},
		"wrong roles": {
			gangOf(3, mpi, placed, onePlacedWorker, onePlacedWorker),
			"needs 1, 0 would fit (role launcher)", "needs 1, 0 would fit (role launcher)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (plugin{}).JobReady(c.job, framework.Ready).String(); got != c.placed {
				t.Errorf("with placed: %q, want %q", got, c.placed)
			}
			if got := (plugin{}).JobReady(c.job, framework.Pipelined).String(); got != c.orPromise {
				t.Errorf("with promised: %q, want %q", got, c.orPromise)
			}
		})
	}
}

// TestPickVictims: whole jobs may be evicted, and members beyond every minimum.
func TestPickVictims(t *testing.T) {
	launcher, worker := member{status: model.Running, role: "launcher"}, member{status: model.Running, role: "worker"}
	for name, c := range map[string]struct {
		job  *model.Job
		goes bool // whether the first member may be evicted alone
	}{
		"beyond the minimum":         {gangOf(1, nil, running, running), true},
		"at the minimum":             {gangOf(2, nil, running, running), false},
		"one has finished":           {gangOf(2, nil, running, running, succeeded), true},
		"one waits":                  {gangOf(2, nil, running, running, pending), false},
		"the only launcher":          {gangOf(2, mpi, launcher, worker, worker, worker), false},
		"a worker beyond the rest":   {gangOf(3, mpi, worker, worker, worker, launcher), true},
		"of another scheduler, none": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			unit := framework.EvictionUnit{Job: c.job, Tasks: []*model.Task{{}}}
			if c.job != nil {
				unit.Tasks = c.job.Tasks[:1]
			}
			picked, decided := plugin{}.FilterVictims(nil, []framework.EvictionUnit{unit})
			if !decided || len(picked) == 1 != c.goes {
				t.Errorf("alone: picked %d, decided %v", len(picked), decided)
			}
			unit.WholeGang = true
			if picked, _ = (plugin{}).FilterVictims(nil, []framework.EvictionUnit{unit}); len(picked) != 1 {
				t.Error("the whole job may not go")
			}
		})
	}
}
