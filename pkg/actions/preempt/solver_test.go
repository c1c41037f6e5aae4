package preempt_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file draws small clusters, and has a solver that tries everything. It shares nothing with the action.

// barred is a filter that keeps a pod off the nodes its annotations name.
type barred struct{}

func (barred) Name() string { return "barred" }

func (barred) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.NodeOnly {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(node *model.Node) *model.Refusal {
		if _, no := task.Pod.Annotations[node.Name]; no {
			return &model.Refusal{Code: model.NodesFiltered, Detail: "barred"}
		}
		return nil
	}}, nil
}

// problem is one gang that waits on a cluster where others run.
type problem struct {
	snapshot *model.Snapshot
	gang     *model.Job
	others   []*model.Job
}

// taste says what problems are drawn.
type taste struct {
	nodes, pods, members int
	budgets, mixed       bool
	// minimal lets every gang that runs have just its minimum.
	minimal bool
}

func draw(t *rapid.T, like taste) *problem {
	return problemOf(func(least, most int, what string) int { return rapid.IntRange(least, most).Draw(t, what) }, like)
}

// problemOf returns the problem that numbers make.
func problemOf(n func(least, most int, what string) int, like taste) *problem {
	p := &problem{snapshot: &model.Snapshot{Dimensions: model.NewDimensions(), Now: time.Unix(1000, 0)}}
	for i := range n(1, like.nodes, "nodes") {
		room := model.Resources{int64(n(1, 6, "cpu")), int64(n(2, 6, "memory")), 0, 0}
		p.snapshot.Nodes = append(p.snapshot.Nodes, model.NewNode(fmt.Sprint("n", i), nil, room))
	}
	members := n(1, like.members, "members")
	for left := like.pods - members; left > 0; {
		size := n(1, min(4, left), "size")
		p.addJob(n, size, like.minimal)
		left -= size
	}
	p.addGang(n, members, like.mixed)
	if like.budgets {
		for i := range n(0, 2, "budgets") {
			p.snapshot.Budgets = append(p.snapshot.Budgets, model.Budget{
				Namespace: "default", Name: fmt.Sprint("b", i), Allowed: int32(n(0, 2, "allowed")),
				Selector: labels.SelectorFromSet(labels.Set{"b": fmt.Sprint(i)}),
			})
		}
	}
	slices.SortFunc(p.snapshot.Jobs, func(a, b *model.Job) int { return a.Key.Compare(b.Key) })
	return p
}

// addJob adds a job of which some pods run, wherever they have capacity.
func (p *problem) addJob(n func(int, int, string) int, size int, minimal bool) {
	name := fmt.Sprint("j", len(p.others))
	job := &model.Job{
		Key: model.JobKey{Namespace: "default", Name: name}, UID: types.UID(name), Version: uint64(1 + len(p.others)),
		Priority: int32(n(0, 4, "priority")),
	}
	for i := range size {
		task := p.task(job, fmt.Sprint(name, "-", i))
		task.Request = model.Resources{int64(n(0, 3, "asks cpu")), int64(n(0, 3, "asks memory"))}
		task.Priority = job.Priority + []int32{0, 0, 0, 0, 0, 1, -1}[n(0, 6, "above")]
		task.Pod.Labels = map[string]string{"b": fmt.Sprint(n(0, 3, "label"))}
		from := n(0, len(p.snapshot.Nodes)-1, "node")
		for j := range p.snapshot.Nodes {
			node := p.snapshot.Nodes[(from+j)%len(p.snapshot.Nodes)]
			if task.Request.At(0) <= node.Idle(0) && task.Request.At(1) <= node.Idle(1) {
				task.Placement = model.Placement{Status: model.Running, Node: node.Name}
				node.Place(task)
				job.Tasks = append(job.Tasks, task)
				break
			}
		}
	}
	if len(job.Tasks) == 0 {
		return
	}
	job.MinMember = int32(n(1, len(job.Tasks), "min"))
	if minimal {
		job.MinMember = int32(len(job.Tasks))
	}
	p.others = append(p.others, job)
	p.snapshot.Jobs = append(p.snapshot.Jobs, job)
}

func (p *problem) addGang(n func(int, int, string) int, members int, mixed bool) {
	p.gang = &model.Job{
		Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang", Version: 99, Priority: 4,
		Need: model.Need{MinMember: int32(n(1, members, "gang's min"))},
	}
	for i := range members {
		task := p.task(p.gang, fmt.Sprint("m", i))
		task.Priority = 4
		if i > 0 && (!mixed || n(0, 1, "alike") == 0) {
			task.Request, task.Pod.Annotations = p.gang.Tasks[i-1].Request, p.gang.Tasks[i-1].Pod.Annotations
		} else {
			task.Request = model.Resources{int64(n(0, 4, "wants cpu")), int64(n(0, 4, "wants memory"))}
			for _, node := range p.snapshot.Nodes {
				if n(0, 5, "barred") == 0 {
					task.Pod.Annotations[node.Name] = ""
				}
			}
		}
		task.Shape = unique.Make(fmt.Sprint(task.Request, task.Pod.Annotations))
		p.gang.Tasks = append(p.gang.Tasks, task)
	}
	p.snapshot.Jobs = append(p.snapshot.Jobs, p.gang)
}

// addHopeless adds a job that is planned for before the gang, in vain.
func (p *problem) addHopeless() {
	job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "a"}, UID: "a", Version: 98, Priority: 4, Need: model.Need{MinMember: 1}}
	task := p.task(job, "a")
	task.Priority, task.Request = 4, model.Resources{1000, 0}
	job.Tasks = []*model.Task{task}
	p.snapshot.Jobs = slices.Insert(p.snapshot.Jobs, 0, job)
}

func (p *problem) task(job *model.Job, name string) *model.Task {
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{}
	return &model.Task{
		PodRef: model.PodRef{UID: types.UID(name), Namespace: "default", Name: name}, Job: job.Key, Pod: pod,
		Shape: unique.Make(name),
	}
}

// bill is what a set of victims costs, as far as the solver cares.
type bill struct {
	violations, highest, gangs, pods int
}

// sets calls with every set of pods that may be evicted together, by UID, and what it costs.
func (p *problem) sets(with func(set map[types.UID]bool, costs bill)) {
	set := map[types.UID]bool{}
	var next func(i int, costs bill)
	next = func(i int, costs bill) {
		if i == len(p.others) {
			costs.violations = p.violations(set)
			with(set, costs)
			return
		}
		job := p.others[i]
		for mask := range 1 << len(job.Tasks) {
			after, ok := p.bill(job, mask, costs)
			if !ok {
				continue
			}
			for j, task := range job.Tasks {
				if mask&(1<<j) != 0 {
					set[task.UID] = true
				}
			}
			next(i+1, after)
			for _, task := range job.Tasks {
				delete(set, task.UID)
			}
		}
	}
	next(0, bill{highest: -1 << 31})
}

// bill adds the cost of some of a job's pods; false when they cannot go together.
func (p *problem) bill(job *model.Job, mask int, costs bill) (bill, bool) {
	gone, highest := 0, math.MinInt32
	for j, task := range job.Tasks {
		if mask&(1<<j) != 0 {
			gone++
			highest = max(highest, int(task.Priority))
		}
	}
	whole := gone == len(job.Tasks)
	if highest = min(highest, int(job.Priority)); whole {
		highest = int(job.Priority)
	}
	switch {
	case gone == 0:
		return costs, true
	case !whole && len(job.Tasks)-gone < int(job.MinMember), highest >= int(p.gang.Priority):
		return costs, false
	case whole && gone > 1:
		costs.gangs++
	}
	costs.pods += gone
	costs.highest = max(costs.highest, highest)
	return costs, true
}

func (p *problem) violations(set map[types.UID]bool) int {
	sum := 0
	for i := range p.snapshot.Budgets {
		lost := 0
		for _, job := range p.others {
			for _, task := range job.Tasks {
				if set[task.UID] && p.snapshot.Budgets[i].Covers(task) {
					lost++
				}
			}
		}
		sum += max(0, lost-int(p.snapshot.Budgets[i].Allowed))
	}
	return sum
}

// starts reports whether the gang can start without those pods: it tries every member on every node, and left out.
func (p *problem) starts(without map[types.UID]bool) bool {
	idle := make([]model.Resources, len(p.snapshot.Nodes))
	for i, node := range p.snapshot.Nodes {
		idle[i] = node.Allocatable().Clone()
		for _, job := range p.others {
			for _, task := range job.Tasks {
				if task.Node == node.Name && !without[task.UID] {
					idle[i].Sub(task.Request)
				}
			}
		}
	}
	return p.fit(idle, 0, 0)
}

func (p *problem) fit(idle []model.Resources, i, placed int) bool {
	if placed >= int(p.gang.MinMember) {
		return true
	}
	if placed+len(p.gang.Tasks)-i < int(p.gang.MinMember) {
		return false
	}
	task := p.gang.Tasks[i]
	for n, node := range p.snapshot.Nodes {
		if _, no := task.Pod.Annotations[node.Name]; no || !holdsNomination(idle[n], task.Request) {
			continue
		}
		idle[n].Sub(task.Request)
		fits := p.fit(idle, i+1, placed+1)
		idle[n].Add(task.Request)
		if fits {
			return true
		}
	}
	return p.fit(idle, i+1, placed)
}

func holdsNomination(idle, request model.Resources) bool {
	return (request.At(0) == 0 || request.At(0) <= idle.At(0)) && (request.At(1) == 0 || request.At(1) <= idle.At(1))
}

// compare is negative when a is to be preferred: fewer violations, a lower highest priority, fewer gangs that end, fewer pods.
func (a bill) compare(b bill) int {
	return cmp.Or(cmp.Compare(a.violations, b.violations), cmp.Compare(a.highest, b.highest), cmp.Compare(a.gangs, b.gangs), cmp.Compare(a.pods, b.pods))
}

// best returns the cheapest bill, without violations unless they may be.
func (p *problem) best(strict bool) (cheapest bill, found bool) {
	p.sets(func(set map[types.UID]bool, costs bill) {
		if strict && costs.violations > 0 {
			return
		}
		if !(found && costs.compare(cheapest) >= 0) && p.starts(set) {
			cheapest, found = costs, true
		}
	})
	return cheapest, found
}
