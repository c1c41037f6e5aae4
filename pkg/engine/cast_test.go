package engine

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file has what the other tests use: plugins that do what a test sets, and small clusters.

// named is a plugin that takes part in nothing.
type named string

func (n named) Name() string { return string(n) }

// everything takes part at every point, notes each question, and has no opinion.
type everything struct {
	named
	asked *[]string
}

func (e everything) note(what string) { *e.asked = append(*e.asked, string(e.named)+" "+what) }

func (e everything) CompareJobs(*model.Job, *model.Job) int { e.note("jobOrder"); return 0 }
func (e everything) RankQueue(*model.Queue, *model.Job) framework.QueueRank {
	e.note("queueOrder")
	return framework.QueueRank{}
}
func (e everything) CompareTasks(*model.Task, *model.Task) int { e.note("taskOrder"); return 0 }
func (e everything) ValidateJob(*model.Job) *model.Refusal     { e.note("jobValid"); return nil }
func (e everything) JobReady(*model.Job, framework.Readiness) *model.Refusal {
	e.note("jobGate")
	return nil
}
func (e everything) OnAllocate(*model.Task)                    { e.note("observe") }
func (e everything) OnEvict(*model.Task)                       { e.note("observe") }
func (e everything) OnDeallocate(*model.Task, model.Placement) { e.note("observe") }
func (e everything) OpenSession(framework.View)                { e.note("openSession") }
func (e everything) CloseSession(framework.View)               { e.note("closeSession") }

func (e everything) PreFilter(*model.Task, framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	e.note("nodeFilter")
	return nil, nil
}

func (e everything) PreScore(*model.Task, framework.FilterScope, []*model.Node) []framework.NodeScore {
	e.note("nodeScore")
	return nil
}

func (e everything) FilterVictims(*model.Job, []framework.EvictionUnit) ([]framework.EvictionUnit, bool) {
	e.note("victims")
	return nil, false
}

func (e everything) Reserve(*model.Task, *model.Node) (bool, *model.Refusal) {
	e.note("reserve")
	return false, nil
}
func (e everything) Unreserve(*model.Task)       { e.note("unreserve") }
func (e everything) BinderOf(*model.Task) string { e.note("bind"); return "" }

func (everything) ProcessPreemption(*model.Job, []framework.NodeVictims) ([]framework.VictimRejection, *model.Refusal) {
	return nil, nil
}

var (
	_ framework.Reserver           = everything{}
	_ framework.Binder             = everything{}
	_ framework.JobOrderer         = everything{}
	_ framework.TaskOrderer        = everything{}
	_ framework.JobValidator       = everything{}
	_ framework.JobReadiness       = everything{}
	_ framework.NodeFilter         = everything{}
	_ framework.NodeScorer         = everything{}
	_ framework.VictimFilter       = everything{}
	_ framework.PreemptionExtender = everything{}
	_ framework.EventHandler       = everything{}
	_ framework.SessionOpener      = everything{}
	_ framework.SessionCloser      = everything{}
)

// always returns the same plugin for every session.
func always(plugin framework.Plugin) TierPlugin {
	return TierPlugin{Factory: func() framework.Plugin { return plugin }}
}

func profileOf(plugins ...framework.Plugin) *Profile {
	var tier Tier
	for _, plugin := range plugins {
		tier = append(tier, always(plugin))
	}
	return &Profile{Tiers: []Tier{tier}}
}

// minimum gates and validates nothing but the count.
type minimum struct{ named }

func (minimum) JobReady(job *model.Job, standing framework.Readiness) *model.Refusal {
	if has := job.Count(standing.Counts); has < int(job.MinMember) {
		return &model.Refusal{Code: model.NotEnoughMembers, Needs: int64(job.MinMember), Has: int64(has)}
	}
	return nil
}

// forget leaves the request of a pod in the accounting of a node which the pod is not on.
func forget(node *model.Node) {
	tasks := slices.Clone(node.Tasks)
	node.Place(&model.Task{
		PodRef: model.PodRef{UID: "forgotten"}, Request: model.Resources{1}, Placement: model.Placement{Status: model.Running, Node: node.Name},
	})
	node.Tasks = tasks
}

// house returns a snapshot of nodes with that much of the first resource each. Every book is as wide as the dimensions,
// as the live state makes them.
func house(rooms ...int64) *model.Snapshot {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	for i, room := range rooms {
		snapshot.Nodes = append(snapshot.Nodes, model.NewNode(fmt.Sprintf("n%d", i), nil, model.Resources{room, 0, 0, 0}))
	}
	return snapshot
}

// join adds a job of so many pending tasks of that request; jobs must join by name.
func join(snapshot *model.Snapshot, name string, minMember int32, count int, request model.Resources) *model.Job {
	job := &model.Job{Key: model.JobKey{Namespace: "default", Name: name}, UID: types.UID(name), Need: model.Need{MinMember: minMember}}
	for i := range count {
		id := fmt.Sprintf("%s-%d", name, i)
		job.Tasks = append(job.Tasks, &model.Task{
			PodRef: model.PodRef{UID: types.UID(id), Namespace: "default", Name: id}, Job: job.Key, Request: request,
		})
	}
	snapshot.Jobs = append(snapshot.Jobs, job)
	return job
}

// dump writes down everything that a session can change in a snapshot.
func dump(snapshot *model.Snapshot) string {
	var b strings.Builder
	for _, node := range snapshot.Nodes {
		fmt.Fprintf(&b, "%s:", node.Name)
		for i := range 6 {
			fmt.Fprintf(&b, " %d/%d/%d", node.Idle(i), node.Amounts().Releasing.At(i), node.Amounts().Pipelined.At(i))
		}
		for _, task := range node.Tasks {
			fmt.Fprintf(&b, " %s", task.UID)
		}
		fmt.Fprintln(&b)
	}
	for _, job := range snapshot.Jobs {
		for _, task := range job.Tasks {
			fmt.Fprintf(&b, "%s %+v\n", task.UID, task.Placement)
		}
	}
	return b.String()
}

func no(code model.Code) *model.Refusal { return &model.Refusal{Code: code, Detail: string(code)} }
