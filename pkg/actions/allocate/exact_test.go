package allocate_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// barred is a filter that keeps a pod off the nodes its annotations name.
type barred struct{}

func (barred) Name() string { return "barred" }

func (barred) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.NodeOnly {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(node *model.Node) *model.Refusal {
		if _, ok := task.Pod.Annotations[node.Name]; ok {
			return &model.Refusal{Code: model.NodesFiltered, Detail: "barred"}
		}
		return nil
	}}, nil
}

// problem is one gang on an empty cluster of few nodes.
type problem struct {
	snapshot *model.Snapshot
	job      *model.Job
}

func draw(t *rapid.T) problem {
	p := problem{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}
	amount := func(most int64, what string) int64 { return rapid.Int64Range(0, most).Draw(t, what) }
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		room := model.Resources{amount(6, "cpu"), amount(6, "memory"), 0, 0}
		p.snapshot.Nodes = append(p.snapshot.Nodes, model.NewNode(fmt.Sprint("n", i), nil, room))
	}
	count := rapid.IntRange(1, 8).Draw(t, "members")
	p.job = &model.Job{
		Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang",
		Need: model.Need{MinMember: int32(rapid.IntRange(1, count).Draw(t, "min"))},
	}
	if rapid.Bool().Draw(t, "role") {
		p.job.Roles = []model.Role{{Name: "r", MinMember: int32(rapid.IntRange(1, int(p.job.MinMember)).Draw(t, "of role"))}}
	}
	for i := range count {
		p.job.Tasks = append(p.job.Tasks, p.member(t, i, amount))
	}
	p.snapshot.Jobs = []*model.Job{p.job}
	return p
}

func (p problem) member(t *rapid.T, i int, amount func(int64, string) int64) *model.Task {
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{}
	for _, node := range p.snapshot.Nodes {
		if amount(3, "barred") == 0 {
			pod.Annotations[node.Name] = ""
		}
	}
	task := &model.Task{
		PodRef: model.PodRef{UID: types.UID(fmt.Sprint("m", i)), Name: fmt.Sprint("m", i)}, Job: p.job.Key, Pod: pod,
		Request: model.Resources{amount(4, "asks cpu"), amount(4, "asks memory")},
	}
	if i > 0 && rapid.Bool().Draw(t, "like the one before") {
		task.Pod, task.Request = p.job.Tasks[i-1].Pod, p.job.Tasks[i-1].Request
	}
	if rapid.Bool().Draw(t, "has role") {
		task.Role = "r"
	}
	task.Shape = unique.Make(fmt.Sprint(task.Request, task.Pod.Annotations))
	return task
}

// feasible is an exact solver: it tries every member on every node, and left out.
func (p problem) feasible() bool {
	idle := make([]model.Resources, len(p.snapshot.Nodes))
	for i, node := range p.snapshot.Nodes {
		idle[i] = node.Allocatable().Clone()
	}
	return p.fit(idle, 0, 0, 0)
}

func (p problem) fit(idle []model.Resources, i, placed, ofRole int) bool {
	needs, role := int(p.job.MinMember), 0
	if len(p.job.Roles) > 0 {
		role = int(p.job.Roles[0].MinMember)
	}
	if placed >= needs && ofRole >= role {
		return true
	}
	if i == len(p.job.Tasks) || placed+len(p.job.Tasks)-i < needs {
		return false
	}
	task := p.job.Tasks[i]
	more := ofRole
	if task.Role == "r" {
		more++
	}
	for n, node := range p.snapshot.Nodes {
		_, no := task.Pod.Annotations[node.Name]
		if no || task.Request.At(0) > idle[n].At(0) || task.Request.At(1) > idle[n].At(1) {
			continue
		}
		idle[n].Sub(task.Request)
		fits := p.fit(idle, i+1, placed+1, more)
		idle[n].Add(task.Request)
		if fits {
			return true
		}
	}
	return p.fit(idle, i+1, placed, ofRole)
}

// TestNoFeasibleGangIsMissed holds allocate to an exact solver: up to 8 members of any sizes on up to 6 nodes.
func TestNoFeasibleGangIsMissed(t *testing.T) {
	profile := &engine.Profile{Actions: []engine.Action{allocate.New()}, Tiers: []engine.Tier{{
		{Factory: priority.New}, {Factory: gang.New}, {Factory: func() framework.Plugin { return barred{} }},
	}}}
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		want := p.feasible()
		bound := 0
		result := engine.Run(p.snapshot, profile, engine.Options{Verify: true, Decide: func(decision model.Decision) {
			bound += len(decision.Binds)
		}})
		if got := bound >= int(p.job.MinMember); got != want {
			t.Fatalf("started: %v, feasible: %v; %s", got, want, result.Refusals[p.job.Key])
		}
	})
}

// TestASearchCutShortIsNoFailure: what a gang could not start with, for others had spent the budget of the cycle, is not
// held against it when they are gone, although nothing has changed on any node.
func TestASearchCutShortIsNoFailure(t *testing.T) {
	p := problem{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}
	for name, cpu := range map[string]int64{"n1": 4, "n2": 3} {
		room := model.Resources{cpu, 9, 0, 0}
		p.snapshot.Nodes = append(p.snapshot.Nodes, model.NewNode(name, nil, room))
	}
	slices.SortFunc(p.snapshot.Nodes, func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) })
	hopeless := gangOf("a", model.Resources{3, 1}, model.Resources{3, 2}, model.Resources{2, 1})
	hard := gangOf("b", model.Resources{3, 1}, model.Resources{2, 1})
	hard.Tasks[1].Pod.Annotations = map[string]string{"n2": ""}
	hard.Tasks[1].Shape = unique.Make("not on n2")
	profile := &engine.Profile{Actions: []engine.Action{allocate.NewWithin(8)}, Tiers: []engine.Tier{{
		{Factory: gang.New}, {Factory: func() framework.Plugin { return barred{} }},
	}}}
	cycle := func(jobs ...*model.Job) int {
		p.snapshot.Jobs = jobs
		bound := 0
		engine.Run(p.snapshot, profile, engine.Options{Verify: true, Decide: func(decision model.Decision) {
			bound += len(decision.Binds)
		}})
		return bound
	}
	if bound := cycle(hopeless, hard); bound != 0 {
		t.Fatalf("%d members found capacity where the budget was spent", bound)
	}
	if bound := cycle(hard); bound != 2 {
		t.Fatalf("%d members found capacity, want 2", bound)
	}
}

func gangOf(name string, requests ...model.Resources) *model.Job {
	job := &model.Job{
		Key: model.JobKey{Namespace: "default", Name: name}, UID: types.UID(name),
		Need: model.Need{MinMember: int32(len(requests))}, Version: uint64(name[0]),
	}
	for i, request := range requests {
		id := fmt.Sprint(name, i)
		job.Tasks = append(job.Tasks, &model.Task{
			PodRef: model.PodRef{UID: types.UID(id), Name: id}, Job: job.Key, Pod: &corev1.Pod{},
			Request: request, Shape: unique.Make(fmt.Sprint(request)),
		})
	}
	return job
}
