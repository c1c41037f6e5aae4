package isolcpu

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// AllocateCPUs chooses the task's ids, and which of its containers runs on which; see framework.CPUAllocator.
func (p *plugin) AllocateCPUs(task *model.Task, node *model.Node) (*isolated.Assignment, *model.Refusal) {
	q, asks := p.ask(task)
	if !asks {
		return nil, nil
	}
	if refusal := q.allocatable(node); refusal != nil {
		return nil, refusal
	}
	asked, err := task.Asks.Request()
	if err != nil {
		return nil, &model.Refusal{Plugin: Name, Code: model.InvalidRequest, Detail: err.Error()}
	}
	free := p.available(node)
	ids, ok := isolated.Pick(node.Isolated, free, q.count, q.Policies)
	if !ok {
		return nil, q.isFragmented(node, isolated.MaxCPUs(node.Isolated, free, q.Policies))
	}
	return &isolated.Assignment{
		Version: 1, Node: node.Name, UID: string(task.UID), CPUs: ids, NUMA: node.Isolated.NUMAOf(ids),
		Containers: asked.Partition(node.Isolated, ids), Generation: node.Isolated.Generation,
	}, nil
}

// utilization is the best score.
const utilization = 100

// PreScore returns the best-fit score for a task with isolated CPUs, and for others a score for nodes without any; nothing
// when no node has any.
func (p *plugin) PreScore(task *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	if !p.seen.isolated || scope == framework.ClusterWide {
		return nil
	}
	q, asks := p.ask(task)
	switch {
	case asks && scope == framework.NodeWithPods && p.options.BestFit > 0:
		return []framework.NodeScore{{Name: "bestfit", Weight: p.options.BestFit, Score: q.bestFit}}
	case !asks && scope == framework.NodeOnly && p.options.Avoid > 0:
		return []framework.NodeScore{{Name: "avoid", Weight: p.options.Avoid, Score: avoidScore}}
	}
	return nil
}

// bestFit is the higher, the fewer ids are left over on the NUMA nodes of the task's ids: above half for one NUMA node, below
// half for several.
func (q *question) bestFit(node *model.Node) int64 {
	if node.Isolated == nil {
		return 0
	}
	free := q.plugin.available(node)
	ids, ok := isolated.Pick(node.Isolated, free, q.count, q.Policies)
	if !ok {
		return 0
	}
	numa, left, all := 0, 0, 0
	for i := range node.Isolated.NUMA {
		if cpus := node.Isolated.NUMA[i].CPUs; !cpus.Intersect(ids).Empty() {
			numa++
			left += cpus.Intersect(free).Minus(ids).Len()
			all += cpus.Len()
		}
	}
	score := int64(utilization/2) * int64(all-left) / int64(all)
	if numa == 1 {
		score += utilization / 2
	}
	return score
}

func avoidScore(node *model.Node) int64 {
	if node.Isolated != nil {
		return 0
	}
	return utilization
}
