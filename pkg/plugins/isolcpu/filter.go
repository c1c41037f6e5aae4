package isolcpu

import (
	"fmt"
	"slices"

	helpers "k8s.io/component-helpers/resource"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// question is a task's request of isolated CPUs.
type question struct {
	plugin *plugin
	task   *model.Task
	isolated.Policies
	// count is the number of CPUs that the pod runs on, charge the number that it holds.
	count, charge int
}

// ask returns the task's request; ok is false when it has none.
func (p *plugin) ask(task *model.Task) (q question, ok bool) {
	if p.chargedResource < 0 || task.Request.At(p.chargedResource) == 0 {
		return question{}, false
	}
	policies, ok := task.Asks.Policies()
	if !ok {
		return question{}, false // the task is refused elsewhere
	}
	charge := int(task.Request.At(p.chargedResource))
	return question{plugin: p, task: task, Policies: policies, count: charge / policies.ThreadsPerCPU(), charge: charge}, true
}

// PreFilter returns, for a task with isolated CPUs, whether nodes have enough of them and whether the policies can be met;
// for every task, where a kubelet may count isolated CPUs as ordinary ones, whether it admits the pod.
func (p *plugin) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if p.chargedResource < 0 {
		return nil, nil
	}
	q, asks := p.ask(task)
	switch {
	case scope == framework.NodeOnly && asks:
		return []framework.NodeFilterFunc{q.allocatable}, nil
	case scope == framework.NodeWithPods && asks:
		return []framework.NodeFilterFunc{q.fits}, nil
	case scope == framework.NodeWithPods && (p.seen.excluded || p.overcommitted) && task.Request.At(model.CPU) > 0:
		q.plugin, q.task = p, task
		return []framework.NodeFilterFunc{q.isAllowed}, nil
	}
	return nil, nil
}

// allocatable reports whether a node could ever have the CPUs for the task.
func (q *question) allocatable(node *model.Node) *model.Refusal {
	topology := node.Isolated
	say := q.plugin.refusals.never
	switch {
	case topology == nil:
		return say("no isolated cpu")
	case len(topology.Problems) > 0:
		return say("isolcpu agent reports: " + topology.Problems[0])
	case node.AgentExpired:
		return say("isolcpu agent not ready: it has no valid Lease " + isolated.LeasePrefix + "NODE in the namespace of --agent-lease-namespace")
	case q.SMT == isolated.OnePerCore && topology.ThreadsPerCore != q.ThreadsPerCPU():
		return say(fmt.Sprintf("one-per-core is for cores of %d threads, not %d", q.ThreadsPerCPU(), topology.ThreadsPerCore))
	case q.SMT == isolated.RequireFullCore && q.count%topology.ThreadsPerCore != 0:
		return say(fmt.Sprintf("cpu request not of full cores (need %d, %d threads each)", q.count, topology.ThreadsPerCore))
	}
	return nil
}

// fits reports whether a node has ids for the task that are free, or will be where terminating pods are excluded.
func (q *question) fits(node *model.Node) *model.Refusal {
	if refusal := q.isAllowed(node); refusal != nil || node.Isolated == nil {
		return refusal
	}
	claimed, unmet := q.plugin.heldByNominations(node, isolated.CPUSet{})
	free := q.plugin.free(node).Minus(claimed)
	if claimed.Empty() && !q.Strict() && free.Len() >= q.count {
		return nil
	}
	if most := isolated.MaxCPUs(node.Isolated, free, q.Policies); most < q.count {
		return q.isFragmented(node, most)
	}
	if claimed.Empty() || q.plugin.reservedForJob(node) {
		return nil
	}
	// Without these ids the remaining nominations may get other ids, and then not enough.
	ids, _ := isolated.Pick(node.Isolated, free, q.count, q.Policies)
	if _, then := q.plugin.heldByNominations(node, ids); then > unmet {
		return q.plugin.refusals.room(fmt.Sprintf("isolated cpu fragmented (need %d beside those that are nominated to others)", q.count), true)
	}
	return nil
}

// isFragmented returns the refusal when there are enough ids but none that meet the policies.
func (q *question) isFragmented(node *model.Node, most int) *model.Refusal {
	where := "not nominated to others"
	switch {
	case q.NUMA == isolated.NUMARequired:
		where = "on one NUMA node"
	case q.Strict():
		where = "in full cores"
	}
	ever := isolated.MaxCPUs(node.Isolated, node.Isolated.Isolated, q.Policies) >= q.count
	return q.plugin.refusals.room(fmt.Sprintf("isolated cpu fragmented (need %d %s, max %d)", q.count, where, most), ever)
}

// isAllowed reports whether the kubelet of a node will admit the pod: it adds up the CPU requests of all pods, isolated or
// not. Where allocatable CPU counts the isolated ones this follows from the two pools, except where one is overcommitted,
// such as by pods on CPUs that are no longer isolated.
func (q *question) isAllowed(node *model.Node) *model.Refusal {
	p := q.plugin
	excluded := node.Isolated != nil && node.Isolated.Mode == isolated.Excluded
	if !excluded && node.Idle(model.CPU) >= 0 && node.Idle(p.chargedResource) >= 0 {
		return nil
	}
	asked := q.task.Request.At(model.CPU) + 1000*q.task.Request.At(p.chargedResource)
	free := node.Free(model.FutureIdle)
	left := free.Of(model.CPU) + 1000*free.Of(p.chargedResource)
	if !p.snapshot.ExcludesTerminating() { // idle capacity is shared, so that one pool may release what is nominated in the other
		left = min(left, node.Idle(model.CPU)+1000*node.Idle(p.chargedResource))
	}
	if excluded {
		left -= 1000 * node.Allocatable().At(p.chargedResource)
	}
	if asked > left && asked > left+p.freeCPUs(node)+p.freeCPUsExcluding(q.task) && asked > 0 {
		return p.refusals.room("kubelet admission limit", true)
	}
	return nil
}

// freeCPUs returns what the pods that stay on the node are charged beyond the kubelet's count, in thousandths of a core.
func (p *plugin) freeCPUs(node *model.Node) (sum int64) {
	for _, task := range node.Tasks {
		if task.Status.Occupies() && !task.ReleasesResources() {
			sum += p.freeCPUsExcluding(task)
		}
	}
	return sum
}

// freeCPUsExcluding returns the same for one task: the siblings of the threads that it runs on. For a pod that another
// scheduler bound it uses the request, not the annotation.
func (p *plugin) freeCPUsExcluding(task *model.Task) int64 {
	q, asks := p.ask(task)
	if !asks || q.SMT != isolated.OnePerCore {
		return 0
	}
	counted := helpers.PodRequests(task.Pod, helpers.PodResourcesOptions{UseStatusResources: true})
	charged := 1000*int64(q.charge) + task.Request.At(model.CPU)
	return max(0, min(1000*int64(q.charge-q.count), charged-counted.Cpu().MilliValue()))
}

// available returns the ids on a node that are neither held nor nominated.
func (p *plugin) available(node *model.Node) isolated.CPUSet {
	claimed, _ := p.heldByNominations(node, isolated.CPUSet{})
	return p.free(node).Minus(claimed)
}

// free returns the ids on a node that no pod holds.
func (p *plugin) free(node *model.Node) isolated.CPUSet {
	return node.Isolated.Isolated.Minus(node.HeldCPUs(p.snapshot.ExcludesTerminating()))
}

// reservedForJob reports whether the present job has nominated capacity on the node: it needs no protection from itself.
func (p *plugin) reservedForJob(node *model.Node) bool {
	viewer := p.snapshot.Viewpoint().Job
	return slices.ContainsFunc(p.snapshot.Held(), func(h model.HeldCapacity) bool {
		return h.Job == viewer && h.Node == node.Name && !h.Reserved()
	})
}

// heldByNominations returns ids for tasks that are nominated to the node and whose policies need particular ids, which others
// must leave. They are the ids these tasks would get, in a fixed order, if all terminating pods were gone and the taken ids
// in use; unmet is the number of tasks without ids.
func (p *plugin) heldByNominations(node *model.Node, taken isolated.CPUSet) (claimed isolated.CPUSet, unmet int) {
	left := node.Isolated.Isolated
	first := true
	claim := func(task *model.Task) {
		q, asks := p.ask(task)
		if !asks || !q.Strict() {
			return
		}
		if first {
			left, first = left.Minus(node.HeldCPUs(true)).Minus(taken), false
		}
		ids, ok := isolated.Pick(node.Isolated, left, q.count, q.Policies)
		if !ok {
			unmet++
		}
		claimed, left = claimed.Union(ids), left.Minus(ids)
	}
	for _, hold := range p.snapshot.HeldOn(node) {
		if task := p.member(hold); task != nil {
			claim(task)
		}
	}
	for _, task := range node.Tasks {
		if task.Status == model.Pipelined {
			claim(task)
		}
	}
	return claimed, unmet
}

// member returns the task that capacity is held for; nil when it is reserved, or the task is gone.
func (p *plugin) member(hold *model.HeldCapacity) *model.Task {
	job := p.snapshot.Job(hold.Job)
	if job == nil || hold.Reserved() || hold.Request.At(p.chargedResource) == 0 {
		return nil
	}
	for _, task := range job.Tasks {
		if task.UID == hold.Pod.UID {
			return task
		}
	}
	return nil
}

// ExplainShortage says how many isolated CPUs a node has left, where it has too few; see framework.CPUAllocator.
func (p *plugin) ExplainShortage(task *model.Task, node *model.Node, position int, room model.CapacityKind) *model.Refusal {
	if position != p.chargedResource {
		return nil
	}
	free := max(0, node.Free(room).Of(position))
	return p.refusals.room(fmt.Sprintf("insufficient isolated cpu (need %d, free %d)", task.Request.At(position), free), true)
}

// refusals are those of one session.
type refusals struct{ made framework.Refusals }

// never is the refusal of a node that no eviction helps, capacity the refusal of one with too few ids.
func (r *refusals) never(detail string) *model.Refusal {
	return r.made.Get(Name, model.NodesFiltered, detail, false)
}

func (r *refusals) room(detail string, evictable bool) *model.Refusal {
	return r.made.Get(Name, model.InsufficientResources, detail, evictable)
}
