package isolcpu

import (
	"fmt"
	"slices"

	helpers "k8s.io/component-helpers/resource"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// question is what a task asks of isolated CPUs.
type question struct {
	plugin *plugin
	task   *model.Task
	isolated.Policies
	// count is on how many the pod runs, charge how many it holds.
	count, charge int
}

// ask returns the task's question; ok is false when it asks for none.
func (p *plugin) ask(task *model.Task) (q question, ok bool) {
	if p.chargedResource < 0 || task.Request.At(p.chargedResource) == 0 {
		return question{}, false
	}
	policies, err := isolated.PoliciesOf(task.Pod.Annotations)
	if err != nil {
		return question{}, false // the task is refused
	}
	charge := int(task.Request.At(p.chargedResource))
	return question{plugin: p, task: task, Policies: policies, count: charge / policies.ThreadsPerCPU(), charge: charge}, true
}

// PreFilter returns, for a task that asks for isolated CPUs, whether nodes have any to give and whether they are the right ones;
// for every task, where a kubelet may count isolated ones against ordinary CPU, whether it admits the pod.
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

// allocatable tells whether a node could ever give the task what it asks for.
func (q *question) allocatable(node *model.Node) *model.Refusal {
	topology := node.Isolated
	say := q.plugin.refusals.never
	switch {
	case topology == nil:
		return say("no isolated cpu")
	case len(topology.Problems) > 0:
		return say("isolcpu agent reports: " + topology.Problems[0])
	case node.AgentExpired:
		return say("isolcpu agent not ready")
	case q.SMT == isolated.OnePerCore && topology.ThreadsPerCore != q.ThreadsPerCPU():
		return say(fmt.Sprintf("one-per-core is for cores of %d threads, not %d", q.ThreadsPerCPU(), topology.ThreadsPerCore))
	case q.SMT == isolated.RequireFullCore && q.count%topology.ThreadsPerCore != 0:
		return say(fmt.Sprintf("cpu request not of full cores (need %d, %d threads each)", q.count, topology.ThreadsPerCore))
	}
	return nil
}

// fits tells whether a node has the right ids for the task, as far as they are free, or about to be where that counts.
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
	// What the others are given may be other ids without these, and then not be enough for the last of them.
	ids, _ := isolated.Pick(node.Isolated, free, q.count, q.Policies)
	if _, then := q.plugin.heldByNominations(node, ids); then > unmet {
		return q.plugin.refusals.room(fmt.Sprintf("isolated cpu fragmented (need %d that leave others what they are promised)", q.count), true)
	}
	return nil
}

// isFragmented says what keeps ids that are enough from being the right ones.
func (q *question) isFragmented(node *model.Node, most int) *model.Refusal {
	where := "free of what others are promised"
	switch {
	case q.NUMA == isolated.NUMARequired:
		where = "on one NUMA node"
	case q.Strict():
		where = "in full cores"
	}
	ever := isolated.MaxCPUs(node.Isolated, node.Isolated.Isolated, q.Policies) >= q.count
	return q.plugin.refusals.room(fmt.Sprintf("isolated cpu fragmented (need %d %s, max %d)", q.count, where, most), ever)
}

// isAllowed tells whether the kubelet of a node will admit the pod: it adds up the CPU requests of all pods, isolated or not. Where
// allocatable CPU counts the isolated ones that follows from the two pools, but where one of them is overdrawn, such as by pods on
// CPUs that are not isolated any more.
func (q *question) isAllowed(node *model.Node) *model.Refusal {
	p := q.plugin
	excluded := node.Isolated != nil && node.Isolated.Mode == isolated.Excluded
	if !excluded && node.Idle.At(model.CPU) >= 0 && node.Idle.At(p.chargedResource) >= 0 {
		return nil
	}
	asked := q.task.Request.At(model.CPU) + 1000*q.task.Request.At(p.chargedResource)
	left := node.FreeAmount(model.CPU, model.FutureIdle) + 1000*node.FreeAmount(p.chargedResource, model.FutureIdle)
	if !p.snapshot.ExcludesTerminating() { // it is one room for both, so that what one pool has promised the other may release
		left = min(left, node.Idle.At(model.CPU)+1000*node.Idle.At(p.chargedResource))
	}
	if excluded {
		left -= 1000 * node.Allocatable.At(p.chargedResource)
	}
	if asked > left && asked > left+p.freeCPUs(node)+p.freeCPUsExcluding(q.task) && asked > 0 {
		return p.refusals.room("kubelet admission limit", true)
	}
	return nil
}

// freeCPUs returns what pods that stay on the node are charged for and the kubelet does not count, in thousandths of a core.
func (p *plugin) freeCPUs(node *model.Node) (sum int64) {
	for _, task := range node.Tasks {
		if task.Status.Occupies() && !task.ReleasesResources() {
			sum += p.freeCPUsExcluding(task)
		}
	}
	return sum
}

// freeCPUsExcluding returns that of a task: the siblings of the threads that it runs on. Of a pod that others have bound not even the
// annotation is believed, but what it requests.
func (p *plugin) freeCPUsExcluding(task *model.Task) int64 {
	q, asks := p.ask(task)
	if !asks || q.SMT != isolated.OnePerCore {
		return 0
	}
	counted := helpers.PodRequests(task.Pod, helpers.PodResourcesOptions{UseStatusResources: true})
	charged := 1000*int64(q.charge) + task.Request.At(model.CPU)
	return max(0, min(1000*int64(q.charge-q.count), charged-counted.Cpu().MilliValue()))
}

// available returns the ids on a node that nobody holds, nor is promised.
func (p *plugin) available(node *model.Node) isolated.CPUSet {
	claimed, _ := p.heldByNominations(node, isolated.CPUSet{})
	return p.free(node).Minus(claimed)
}

// free returns the ids on a node that nobody holds.
func (p *plugin) free(node *model.Node) isolated.CPUSet {
	return node.Isolated.Isolated.Minus(node.HeldCPUs(p.snapshot.ExcludesTerminating()))
}

// reservedForJob tells whether whoever looks is promised room on the node: they take it as they can.
func (p *plugin) reservedForJob(node *model.Node) bool {
	viewer := p.snapshot.Viewpoint().Job
	return slices.ContainsFunc(p.snapshot.Held(), func(h model.HeldCapacity) bool {
		return h.Job == viewer && h.Node == node.Name && !h.Reserved()
	})
}

// heldByNominations returns ids for those who are promised some on a node and for whom not any will do: the others must leave them as many of
// the right ones. It is what they would be given, in a fixed order, if all who are about to leave were gone and these ids were taken;
// unmet is how many of them there is nothing for.
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
	if node.Pipelined.At(p.chargedResource) > 0 {
		for _, task := range node.Tasks {
			if task.Status == model.Pipelined {
				claim(task)
			}
		}
	}
	return claimed, unmet
}

// member returns whom a hold is for; nil when it is reserved, or for nobody any more.
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
	free := max(0, node.FreeAmount(position, room))
	return p.refusals.room(fmt.Sprintf("insufficient isolated cpu (need %d, free %d)", task.Request.At(position), free), true)
}

// refusals are those of one session, made once for each text and shared between nodes. The zero refusals are ready.
type refusals struct {
	made map[refusalKey]*model.Refusal
}

type refusalKey struct {
	code      model.Code
	detail    string
	evictable bool
}

// never is of a node that will not do whoever leaves it, room of one that has too little.
func (r *refusals) never(detail string) *model.Refusal {
	return r.get(refusalKey{model.NodesFiltered, detail, false})
}

func (r *refusals) room(detail string, evictable bool) *model.Refusal {
	return r.get(refusalKey{model.InsufficientResources, detail, evictable})
}

func (r *refusals) get(key refusalKey) *model.Refusal {
	refusal, known := r.made[key]
	if !known {
		if r.made == nil {
			r.made = map[refusalKey]*model.Refusal{}
		}
		refusal = &model.Refusal{Plugin: Name, Code: key.code, Detail: key.detail, Evictable: key.evictable}
		r.made[key] = refusal
	}
	return refusal
}
