package preempt_test

import (
	"fmt"
	"testing"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// lapsing stands in for allocate on a cluster that is full: what was promised in earlier cycles is not enough.
type lapsing struct{ refusing }

func (l lapsing) Execute(session *framework.Session) {
	for _, job := range session.Snapshot.Jobs {
		if job.Priority > 0 && session.Refusal(job) == nil {
			session.ExpireNominations(job)
		}
	}
	l.refusing.Execute(session)
}

// timid panics when it is asked whom to evict for one job, and notes how much room is kept when it is asked.
type timid struct {
	about   string
	session **framework.Session
	kept    *[]int
}

func (timid) Name() string { return "timid" }

// OpenSession takes note of the session.
func (p timid) OpenSession(session *framework.Session) { *p.session = session }

// FilterVictims keeps all units.
func (p timid) FilterVictims(preemptor *model.Job, units []framework.EvictionUnit) ([]framework.EvictionUnit, bool) {
	*p.kept = append(*p.kept, len((*p.session).Snapshot.Held()))
	if preemptor.Key.Name == p.about {
		panic("assignment to entry in nil map")
	}
	return units, true
}

// TestAPanicInARehearsalLosesNoRoom: what those who rehearsed before are promised is kept for them all the same.
func TestAPanicInARehearsalLosesNoRoom(t *testing.T) {
	snapshot := full(3, 1)
	var holds []model.HeldCapacity
	for i := range 3 {
		job := &model.Job{Key: model.JobKey{Namespace: "default", Name: fmt.Sprint("z", i)}, MinMember: 1, Priority: 10, Version: 1}
		task := device(job, job.Key.Name)
		task.Nominated = snapshot.Nodes[i].Name
		snapshot.Jobs = append(snapshot.Jobs, job)
		holds = append(holds, model.HeldCapacity{Job: job.Key, Priority: 10, Node: task.Nominated, Pod: task.PodRef, Request: task.Request})
	}
	snapshot.AssignIndexes()
	snapshot.SetHeld(holds)
	var session *framework.Session
	var kept []int
	caught := 0
	profile := &framework.Profile{
		Actions: []framework.Action{lapsing{}, preempt.New(preempt.DefaultOptions())},
		Tiers: []framework.Tier{{
			{Factory: priority.New}, {Factory: gang.New},
			{Factory: func() framework.Plugin { return timid{about: "z2", session: &session, kept: &kept} }},
		}},
	}
	for range 2 { // the second cycle runs without the job over which the first has panicked
		framework.Run(snapshot, profile, framework.Options{Verify: true, OnPanic: func(c framework.RecoveredPanic) {
			if c.Job == nil || c.Job.Key.Name != "z2" {
				t.Errorf("caught %+v", c)
			}
			caught, kept = caught+1, nil
			snapshot.JobBackoff = map[model.JobKey]*model.Refusal{c.Job.Key: c.Refusal}
		}})
	}
	if caught != 1 || len(kept) == 0 || kept[0] < 2 {
		t.Errorf("%d panics; after the last there are %v promises", caught, kept)
	}
}

// TestWhoseQuarantineIsOverMayBeEvicted though nothing else has changed since there was no pod to evict.
func TestWhoseQuarantineIsOverMayBeEvicted(t *testing.T) {
	snapshot := full(1, 8)
	job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "z"}, MinMember: 1, Priority: 10, Version: 1}
	device(job, "z")
	snapshot.Jobs = append(snapshot.Jobs, job)
	profile := &framework.Profile{
		Actions: []framework.Action{refusing{}, preempt.New(preempt.DefaultOptions())},
		Tiers:   []framework.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
	}
	victim := snapshot.Jobs[0].Key
	for cycle, held := range []map[model.JobKey]*model.Refusal{{victim: {Code: model.Quarantined}}, {victim: {Code: model.Quarantined}}, nil} {
		snapshot.JobBackoff = held
		evicted := 0
		framework.Run(snapshot, profile, framework.Options{Decide: func(d model.Decision) { evicted += len(d.Evictions) }})
		if want := map[bool]int{true: 8}[held == nil]; evicted != want {
			t.Errorf("cycle %d: %d pods are evicted, want %d", cycle, evicted, want)
		}
	}
}
