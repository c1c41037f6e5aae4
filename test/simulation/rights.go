package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file is Q8: what is taken from other queues, held to the rights that are written down in package invariants. What queues
// hold, what there is, and which units run is counted from pods and nodes; which jobs could start in an empty cluster is
// not found again: what each queue asks for is read from what the session left of it.

// takesByRight takes down a decision that evicts pods of other queues. It is judged after the session.
func (j *invariantChecker) takesByRight(p *process, decision model.Decision) {
	if decision.Right() == "" {
		return
	}
	if e := p.takes(decision); e != nil { // else its queue is in error: Q14
		p.taken = append(p.taken, e)
	}
}

// takes returns a decision with what was before it; nil where the queue of the job takes no part.
func (p *process) takes(decision model.Decision) *economy {
	told := p.asTold()
	e := p.economy(&told)
	e.Taker, e.Right, e.Gains = told.QueueOf(decision.Job), string(decision.Right()), invariants.Amounts{}
	if e.Queues[e.Taker] == nil {
		return nil
	}
	e.before(decision)
	return e
}

// keepsRights is Q8, after a step: each unit that went by right of a guarantee or of a share could go, all of them together.
func (j *invariantChecker) keepsRights(p *process) {
	for _, e := range p.taken {
		e.setDemand()
		if err := e.Check(); err != nil {
			j.violated("Q8", "%v", err)
		}
	}
	p.taken = nil
}

// economy is a decision that takes from other queues, and where it was made.
type economy struct {
	invariants.Reclaim
	process *process
	told    *expectation
	// requests are what pods ask for, of is the queue in the tree in which each job counts, by key: it, or the one above it that is
	// in no error; empty for none. exact reports that it is its own.
	requests map[types.UID]invariants.Amounts
	of       map[model.JobKey]string
	exact    map[model.JobKey]bool
}

// economy counts the queues that take part as the shares of the session have them: what they held when it began, and what there
// was for them. What is started, nominated or evicted in a session changes neither.
func (p *process) economy(told *expectation) *economy {
	e := &economy{process: p, told: told, requests: map[types.UID]invariants.Amounts{}, of: map[model.JobKey]string{}, exact: map[model.JobKey]bool{}}
	e.Queues, e.Supply = told.takingPart(), invariants.Amounts{}
	others := map[string]invariants.Amounts{} // what there is on nodes that take pods, less what no queue holds
	for _, node := range told.Nodes {
		if known := p.snapshot.Node(node.Name); known != nil && known.Invalid == nil && !node.Spec.Unschedulable {
			others[node.Name] = invariants.AmountsOf(node.Status.Allocatable)
		}
	}
	for _, pod := range told.Pods {
		task, job := p.task(pod), jobKeyOf(pod)
		if task == nil {
			continue
		}
		request := invariants.RequestOf(pod)
		if told.Kept != nil {
			request.Add(told.Kept(pod), 1)
		}
		e.requests[pod.UID] = request
		if _, known := e.of[job]; !known && ours(pod) {
			e.place(job)
		}
		queue := e.Queues[e.of[job]]
		if !ours(pod) {
			queue = nil
		}
		onNode := task.Status > model.Allocated && task.Status <= model.Releasing // when the session began
		switch there := others[task.Node]; {
		case !onNode:
		case queue == nil && there != nil:
			there.Add(request, -1)
		case queue != nil && there == nil:
			e.Supply.Add(request, 1)
		}
		if queue != nil && (onNode || task.Status <= model.Allocated && task.Nominated != "") {
			queue.Used.Add(request, 1)
		}
	}
	for _, left := range others {
		for r, amount := range left {
			e.Supply[r] += max(0, amount)
		}
	}
	return e
}

// takingPart are the queues that are in no error, the default one among them, which hold nothing yet.
func (o *expectation) takingPart() map[string]*invariants.Queue {
	all := map[string]*invariants.Queue{}
	add := func(name string, spec *v1alpha1.QueueSpec) {
		queue := &invariants.Queue{
			Parent: spec.Parent, Weight: 1, Guarantee: invariants.AmountsOf(spec.Guarantee), Limit: invariants.AmountsOf(spec.Limit),
			Used: invariants.Amounts{}, Demand: invariants.Amounts{},
		}
		if spec.Weight != nil {
			queue.Weight = int64(*spec.Weight)
		}
		if _, wrong, _ := o.Queues.Path(name); !wrong {
			all[name] = queue
		}
	}
	for name, queue := range o.Queues {
		add(name, &queue.Spec)
	}
	if o.Queues[v1alpha1.DefaultQueue] == nil {
		add(v1alpha1.DefaultQueue, &v1alpha1.QueueSpec{})
	}
	return all
}

// place finds the queue in which a job counts.
func (e *economy) place(job model.JobKey) {
	e.of[job] = ""
	path, _, _ := e.told.Queues.Path(e.told.QueueOf(job))
	for i, name := range path {
		if e.Queues[name] != nil {
			e.of[job], e.exact[job] = name, i == 0
			return
		}
	}
}

// before counts what queues hold without the decision, once all that terminates is gone, and divides it into units. The session
// has made the decision already: its victims run, and what is nominated to the job is what it gains.
func (e *economy) before(decision model.Decision) {
	victims, gets := invariants.VictimsOf(decision), map[types.UID]bool{}
	for uid := range invariants.NominatedBy(decision) {
		gets[uid] = true
	}
	e.Used = map[string]invariants.Amounts{}
	for name := range e.Queues {
		e.Used[name] = invariants.Amounts{}
	}
	for _, job := range e.process.snapshot.Jobs {
		queue, known := e.of[job.Key]
		if !known || queue == "" {
			continue
		}
		var running []*model.Task
		for _, task := range job.Tasks {
			request := e.requests[task.UID]
			nominated := task.Status == model.Pipelined || task.Status == model.Pending && task.HoldsNomination() || gets[task.UID]
			switch {
			case nominated && job.Key == decision.Job:
				if task.Status == model.Pipelined || gets[task.UID] {
					e.Gains.Add(request, 1)
				}
			case nominated, task.Status.Occupies() && (victims[task.UID] || !task.ReleasesResources()):
				e.Used[queue].Add(request, 1)
			}
			if task.Status.Occupies() && (victims[task.UID] || task.Status != model.Releasing) {
				running = append(running, task)
			}
		}
		if e.exact[job.Key] && len(running) > 0 {
			e.addUnits(job, running, victims)
		}
	}
}

// addUnits divides what runs of a job: what it can spare, and the rest.
func (e *economy) addUnits(job *model.Job, running []*model.Task, victims map[types.UID]bool) {
	surplus, now := model.Surplus(job, running), e.process.snapshot.Now.Unix()
	unit := func(priority int32, surplus bool) *invariants.Unit {
		e.Units = append(e.Units, invariants.Unit{
			Queue: e.of[job.Key], Job: job.Key.String(), Amounts: invariants.Amounts{}, Priority: priority, Began: now, Surplus: surplus,
		})
		return &e.Units[len(e.Units)-1]
	}
	instead := map[types.UID]bool{} // victims that go in the place of surplus that is like them
	add := func(u *invariants.Unit, task *model.Task) {
		u.Amounts.Add(e.requests[task.UID], 1)
		u.Began, u.Taken = min(u.Began, task.RunsSince(now)), u.Taken || victims[task.UID] && !instead[task.UID]
	}
	spare := map[types.UID]bool{}
	for _, task := range surplus {
		u := unit(job.PriorityOf(task), true)
		add(u, task)
		spare[task.UID] = true
		like := func(other *model.Task) bool {
			return victims[other.UID] && !instead[other.UID] && !slices.Contains(surplus, other) && other.Role == task.Role && other.Request.Equal(task.Request)
		}
		if at := slices.IndexFunc(running, like); at >= 0 && !u.Taken {
			u.Taken, instead[running[at].UID] = true, true
		}
	}
	if len(surplus) == len(running) {
		return
	}
	rest := unit(job.Priority, false)
	for _, task := range running {
		if !spare[task.UID] {
			add(rest, task)
		}
	}
}

// setDemand reads what the jobs of each queue asked for, by the session: what it says of a queue includes what those below it ask
// for within their limits.
func (e *economy) setDemand() {
	snapshot := e.process.snapshot
	for _, known := range snapshot.Queues {
		for _, part := range known.Parts {
			if queue, name := e.Queues[known.Name], snapshot.Dimensions.Name(part.Position); queue != nil && part.Position != model.Unoffered {
				queue.Demand[name] += part.Demand
				if above := e.Queues[queue.Parent]; above != nil {
					above.Demand[name] -= within(part.Demand, queue.Limit, name)
				}
			}
		}
	}
}

func within(amount int64, limit invariants.Amounts, r corev1.ResourceName) int64 {
	if most, listed := limit[r]; listed {
		return min(amount, most)
	}
	return amount
}
