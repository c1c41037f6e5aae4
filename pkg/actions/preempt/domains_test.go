package preempt_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// This file holds plans for a gang in one rack to what each rack would cost by itself.

func racks() []config.Topology {
	return []config.Topology{{Name: "fabric", Levels: []config.Level{{Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}}}
}

// tape gives the same numbers again.
type tape struct {
	numbers []int
	next    int
}

func (s *tape) record(t *rapid.T) func(least, most int, what string) int {
	return func(least, most int, what string) int {
		s.numbers = append(s.numbers, rapid.IntRange(least, most).Draw(t, what))
		return s.numbers[len(s.numbers)-1]
	}
}

func (s *tape) play() func(least, most int, what string) int {
	s.next = 0
	return func(int, int, string) int {
		s.next++
		return s.numbers[s.next-1]
	}
}

// drawRacks returns a problem whose nodes are in up to three racks, or in none.
func drawRacks(n func(least, most int, what string) int, like taste) *problem {
	p := problemOf(n, like)
	for _, node := range p.snapshot.Nodes {
		node.Object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		if rack := n(0, 3, "rack"); rack > 0 {
			node.Object.Labels["rack"] = fmt.Sprint("r", rack)
		}
	}
	for _, job := range p.others {
		for _, task := range job.Tasks {
			task.GraceSeconds, task.Created = int64(n(0, 2, "grace")), time.Unix(int64(n(1, 3, "started")), 0)
		}
	}
	return p
}

func (p *problem) rackOf(node string) string { return p.snapshot.Node(node).Object.Labels["rack"] }

func (p *problem) mustShareRack() { p.gang.Topology = []model.TopologyConstraint{{Level: "rack"}} }

// inRack returns the problem of starting in one rack alone.
func (p *problem) inRack(rack string) *problem {
	only := &model.Snapshot{Budgets: p.snapshot.Budgets}
	for _, node := range p.snapshot.Nodes {
		if node.Object.Labels["rack"] == rack {
			only.Nodes = append(only.Nodes, node)
		}
	}
	return &problem{snapshot: only, gang: p.gang, others: p.others}
}

// price is what victims cost, by the criteria of preemption in their order: violations, the highest priority, gangs that end, the
// sum of priorities, moved up by so much that more pods cost more, the longest grace, and for how long those of the highest
// priority have run.
type price [6]int64

func (p *problem) priceOf(victims map[types.UID]bool) price {
	costs, _ := p.billOf(victims)
	sum := price{int64(costs.violations), int64(costs.highest)}
	for _, job := range p.others {
		whole := !slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return !victims[task.UID] })
		if whole && len(job.Tasks) > 1 {
			sum[2]++
		}
		for _, task := range job.Tasks {
			if !victims[task.UID] {
				continue
			}
			sum[3] += int64(job.PriorityOf(task)) - math.MinInt32
			sum[4] = max(sum[4], task.GraceSeconds)
			if whole && int64(job.Priority) == sum[1] || int64(job.PriorityOf(task)) == sum[1] {
				sum[5] = max(sum[5], 9-task.Created.Unix())
			}
		}
	}
	return sum
}

// cheapest returns what the cheapest victims cost with which the gang starts; found is false when there are none.
func (p *problem) cheapest(strict bool) (least price, found bool) {
	p.sets(func(set map[types.UID]bool, costs bill) {
		if strict && costs.violations > 0 {
			return
		}
		if sum := p.priceOf(set); (!found || slices.Compare(sum[:], least[:]) < 0) && p.starts(set) {
			least, found = sum, true
		}
	})
	return least, found
}

// holdOneRack is invariant T2: the members are nominated to one rack, and of each job that loses pods one of them is there.
func holdOneRack(t require, p *problem, o outcome) {
	inside := map[string]bool{}
	for _, task := range p.gang.Tasks {
		if task.Status == model.Pipelined {
			inside[p.rackOf(task.Node)] = true
		}
	}
	if len(inside) != 1 || inside[""] {
		t.Fatalf("nominated to the racks %v", slices.Sorted(maps.Keys(inside)))
	}
	for _, job := range p.others {
		loses, there := false, false
		for _, task := range job.Tasks {
			loses = loses || o.victims[task.UID]
			there = there || o.victims[task.UID] && inside[p.rackOf(task.Node)]
		}
		if loses && !there {
			t.Fatalf("%s loses pods, and none in the rack where the gang starts", job.Key)
		}
	}
}

// TestTheCheapestRackIsFound compares with a solver that tries every set of victims for every rack: no gang starts where no
// rack would do, all victims have to do with the rack, and nearly always no rack would cost less.
func TestTheCheapestRackIsFound(t *testing.T) {
	for name, options := range map[string]preempt.Options{
		"evicted": preempt.DefaultOptions(), "preferred": {Method: model.ByEvictionOrDeletion, Budget: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			plans, cheapest, strict := 0, 0, options.Method == model.ByEviction
			for seed := range *clusters / 2 {
				c := cluster{t, seed}
				p := drawRacks(numbersOf(seed), taste{nodes: 6, pods: 12, members: 4, budgets: true, mixed: true})
				p.mustShareRack()
				var least price
				found := false
				for rack := 1; rack <= 3; rack++ {
					if sum, ok := p.inRack(fmt.Sprint("r", rack)).cheapest(strict); ok && (!found || slices.Compare(sum[:], least[:]) < 0) {
						least, found = sum, true
					}
				}
				o := play(p, preempt.New(options))
				switch {
				case !found && o.nominations+o.binds > 0:
					c.Fatalf("starts, and no rack would do")
				case !found || o.binds > 0 && least[3] == 0:
					continue
				}
				plans++
				if o.nominations == 0 {
					continue
				}
				holdOneRack(c, p, o)
				if p.priceOf(o.victims) == least {
					cheapest++
				}
			}
			t.Logf("of %d plans that are needed %d cost least", plans, cheapest)
			if plans == 0 || 1000*cheapest < 990*plans {
				t.Error("fewer than 990 in a thousand")
			}
		})
	}
}

// TestEachRackAloneCostsNoLess compares with the same search for a gang that may start anywhere, on each of the racks alone: for
// equal members one by one where that costs least, as on large clusters.
func TestEachRackAloneCostsNoLess(t *testing.T) {
	plans, less := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		like := taste{nodes: 9, pods: 24, members: 4, budgets: rapid.Bool().Draw(t, "budgets")}
		numbers := &tape{}
		p := drawRacks(numbers.record(t), like)
		p.mustShareRack()
		o := play(p, preempt.New(preempt.DefaultOptions()))
		if o.binds > 0 {
			return
		}
		var least price
		found := false
		for rack := 1; rack <= 3; rack++ {
			alone := drawRacks(numbers.play(), like)
			alone.keepOutside(fmt.Sprint("r", rack))
			if in := play(alone, preempt.New(preempt.DefaultOptions())); in.nominations > 0 {
				if sum := alone.priceOf(in.victims); !found || slices.Compare(sum[:], least[:]) < 0 {
					least, found = sum, true
				}
			}
		}
		if found != (o.nominations > 0) {
			t.Fatalf("a rack alone would do: %v; %d nominations; %v", found, o.nominations, o.why)
		}
		if !found {
			return
		}
		sum := p.priceOf(o.victims)
		switch slices.Compare(sum[:], least[:]) {
		case 1:
			t.Fatalf("%v cost %v, and a rack alone %v", o.victims, sum, least)
		case -1:
			less++
		}
		holdOneRack(t, p, o)
		plans++
	})
	t.Logf("of %d plans %d cost less than one in a rack alone", plans, less)
	if plans == 0 || less > 1+plans/1000 {
		t.Error("no pod was evicted, or a search in a rack alone misses the best plan too often")
	}
}

// keepOutside keeps the members off all nodes but those of a rack.
func (p *problem) keepOutside(rack string) {
	for _, task := range p.gang.Tasks {
		task.Pod.Annotations = maps.Clone(task.Pod.Annotations)
		for _, node := range p.snapshot.Nodes {
			if p.rackOf(node.Name) != rack {
				task.Pod.Annotations[node.Name] = ""
			}
		}
		task.Shape = unique.Make(fmt.Sprint(task.Request, task.Pod.Annotations))
	}
}

// closed is a filter that lets members of gangs that wait onto no node, and counts how often it is asked about a member.
type closed struct{ asked int }

func (*closed) Name() string { return "closed" }

func (c *closed) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide || task.Priority == 0 {
		return nil, nil
	}
	c.asked++
	return []framework.NodeFilterFunc{func(*model.Node) *model.Refusal { return &model.Refusal{Code: model.NodesFiltered} }}, nil
}

// TestDomainsWithoutAPlanAreSearchedWithinTheBudget: where no domain has a plan and the budget is used up, it costs one search
// over all nodes more, and not one for each domain.
func TestDomainsWithoutAPlanAreSearchedWithinTheBudget(t *testing.T) {
	asked := func(topology ...model.TopologyConstraint) int {
		snapshot, filter := full(300, 1), &closed{}
		for _, node := range snapshot.Nodes {
			node.Object = &corev1.Node{}
		}
		job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "z"}, Need: model.Need{MinMember: 4}, Priority: 10, Version: 1, Topology: topology}
		for i := range job.MinMember {
			device(job, fmt.Sprint("z", i))
		}
		snapshot.Jobs = append(snapshot.Jobs, job)
		engine.Run(snapshot, &engine.Profile{
			Actions: []engine.Action{refusing{}, preempt.New(preempt.Options{Budget: 1})},
			Tiers: []engine.Tier{{
				{Factory: priority.New}, {Factory: gang.New}, {Factory: func() framework.Plugin { return filter }},
			}},
		}, engine.Options{})
		return filter.asked
	}
	if anywhere, onOne := asked(), asked(model.TopologyConstraint{Level: config.LevelHost}); onOne > 3*anywhere {
		t.Errorf("%d questions for a gang on one node, %d for one on any", onOne, anywhere)
	}
}
