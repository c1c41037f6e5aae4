package preempt

import (
	"maps"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// candidateVictims are all pods that may be evicted for jobs of one priority and queue.
type candidateVictims struct {
	// sources are in the order of their jobs, pods of other schedulers behind them.
	sources []*victimJob
	of      map[*model.Task]*victimJob
	// pods is how many may be evicted in all.
	pods int
	// claim is by which units of other queues may go; nil for units of the job's own.
	claim framework.Claim
	// byCost are the units when they were first asked for, the least important first: some may have been evicted since.
	byCost []victimUnit
	// costHeaps are by the shape of the task that the victims on a node are for.
	costHeaps map[model.Shape]*nodeCostHeap
}

// victimJob is a job that victims may come from, or a single pod of another scheduler.
type victimJob struct {
	// job is nil for a pod of another scheduler.
	job *model.Job
	// priority is that of the job or the highest of its pods.
	priority int32
	// tasks are those that may be evicted, the least important first.
	tasks []*model.Task
	// singles are those of them that may go alone, nil when none may, as long as surplus lasts, and the roles' surplus; whole reports
	// that the job may go as a whole.
	singles   map[*model.Task]bool
	surplus   int
	roles     map[string]int
	wholeUnit bool
	// wholeOnly is the unit of the whole job, gang that it is one of several members.
	wholeOnly victimUnit
	gang      bool
	// claim has the price of units of another queue; nil for those of the job's own.
	claim framework.Claim
}

// victimUnit is what is evicted together: one surplus task, or a whole job.
type victimUnit struct {
	of    *victimJob
	tasks []*model.Task
	whole bool
	cost  cost
}

// poolKey is what a pool is for: jobs of a priority and a queue, or one job that others may be evicted for besides, since they
// overstay on capacity that is reserved for it.
type poolKey struct {
	priority int32
	holder   model.JobKey
	// queue is the name of the queue of these jobs; empty while there are no queues.
	queue string
}

// pool returns the tasks that may be evicted for the job, as the victim pickers say of the first job of its pool.
func (r *run) pool(job *model.Job) *candidateVictims {
	key, overstayed := poolKey{priority: job.Priority, queue: job.Queue}, r.session.Overstayed(job)
	if len(overstayed) > 0 {
		key.holder = job.Key
	}
	if known := r.pools[key]; known != nil {
		return known
	}
	p := &candidateVictims{}
	r.pools[key] = p
	for _, other := range r.inQueueOf(job) {
		if other != job && (other.Priority < job.Priority || hasSurplusBelow(other, job.Priority) || slices.Contains(overstayed, other)) {
			if s := r.victimJobOf(other); s != nil {
				p.sources = append(p.sources, s)
			}
		}
	}
	if r.options.Foreign {
		for _, node := range r.session.Snapshot.Nodes {
			for _, task := range node.Tasks {
				if task.Job == (model.JobKey{}) && task.Priority < job.Priority && r.evictable(task) && !ofNode(task) {
					p.sources = append(p.sources, &victimJob{tasks: []*model.Task{task}, wholeUnit: true, priority: task.Priority})
				}
			}
		}
	}
	p.keep(r.policy.pick(r.session, job, p.units()))
	p.index()
	return p
}

// inQueueOf returns the jobs of the queue of a job, all of them while there are no queues, in their order.
func (r *run) inQueueOf(job *model.Job) []*model.Job {
	if len(r.session.Snapshot.Queues) == 0 {
		return r.session.Snapshot.Jobs
	}
	if r.byQueue == nil {
		r.byQueue = map[string][]*model.Job{}
		for _, other := range r.session.Snapshot.Jobs {
			r.byQueue[other.Queue] = append(r.byQueue[other.Queue], other)
		}
	}
	return r.byQueue[job.Queue]
}

// hasSurplusBelow reports whether the job has members beyond its minimum, and members of a priority below this one.
func hasSurplusBelow(job *model.Job, priority int32) bool {
	return job.MaySpare() &&
		slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Priority < priority })
}

// index makes the tasks of the sources findable.
func (p *candidateVictims) index() {
	for _, s := range p.sources {
		p.pods += len(s.tasks)
	}
	p.of, p.costHeaps = make(map[*model.Task]*victimJob, p.pods), map[model.Shape]*nodeCostHeap{}
	for _, s := range p.sources {
		s.wholeOnly = newUnit(s, s.tasks, true)
		for _, task := range s.tasks {
			p.of[task] = s
		}
	}
}

// excluding returns the pool of the pods that can leave while some stay: a job with such a member does not go as a whole.
func (p *candidateVictims) excluding(stays func(*model.Task) bool) *candidateVictims {
	left := &candidateVictims{claim: p.claim}
	for _, s := range p.sources {
		if slices.ContainsFunc(s.tasks, stays) {
			part := *s
			part.wholeUnit, part.singles = false, maps.Clone(s.singles)
			maps.DeleteFunc(part.singles, func(task *model.Task, _ bool) bool { return stays(task) })
			part.tasks = slices.DeleteFunc(slices.Clone(s.tasks), func(task *model.Task) bool { return !part.singles[task] })
			s = &part
		}
		if len(s.tasks) > 0 {
			left.sources = append(left.sources, s)
		}
	}
	left.index()
	return left
}

// evictable reports whether a pod is there to be evicted: on its node, not in flight there or gone, and not one that the API
// server has lately refused to evict.
func (r *run) evictable(task *model.Task) bool {
	return inPlace(task) && r.session.Snapshot.EvictionBackoff[task.UID] == nil && !r.isJoined(task)
}

// isJoined reports whether another pod that uses a claim of the task starts in this cycle: the devices would not become free.
func (r *run) isJoined(task *model.Task) bool {
	if task.Devices == nil {
		return false
	}
	node := r.session.Snapshot.Node(task.Node)
	return node != nil && slices.ContainsFunc(node.Tasks, func(other *model.Task) bool { return other.Status == model.Allocated && other.SharesClaim(task) })
}

func inPlace(task *model.Task) bool {
	return task.Status == model.Bound || task.Status == model.Running
}

// ofNode reports whether a pod belongs to its node, as those of DaemonSets do, and those that the kubelet has from files:
// evicted, it would be back immediately, there and nowhere else.
func ofNode(task *model.Task) bool {
	controller := metav1.GetControllerOfNoCopy(task.Pod)
	return controller != nil && (controller.Kind == "DaemonSet" || controller.Kind == "Node")
}

// victimJobOf returns the pods that a job has to give, nil when there are none.
func (r *run) victimJobOf(job *model.Job) *victimJob {
	s := &victimJob{job: job, wholeUnit: true, priority: job.Priority}
	alive := 0
	for _, task := range job.Tasks {
		switch {
		case r.evictable(task):
			s.tasks = append(s.tasks, task)
			alive++
		case task.Status.HasNode() && task.Status != model.Releasing:
			s.wholeUnit = false // part of the job would stay
			alive++
		}
	}
	if len(s.tasks) == 0 {
		return nil
	}
	s.gang = alive > 1
	s.surplusMembers()
	slices.SortFunc(s.tasks, model.CompareVictims)
	return s
}

// surplusMembers counts how many members the job has beyond its minimum and those of its roles. Only members that are on
// their nodes for certain, or have done their work, are counted on; not those that a client has deleted, with whatever grace.
// Where no other can be spared, these can.
func (s *victimJob) surplusMembers() {
	stands := func(task *model.Task) bool {
		return !task.Deleted() && (task.Status == model.Bound || task.Status == model.Running) || task.Status == model.Succeeded
	}
	if s.job.MaySpare() {
		s.surplus = max(0, s.job.Count(stands)-int(s.job.MinMember))
	}
	if s.surplus == 0 {
		for _, task := range s.tasks {
			if task.Deleted() {
				s.surplus++
				s.addSingle(task)
			}
		}
		return
	}
	s.roles = make(map[string]int, len(s.job.Roles))
	for _, role := range s.job.Roles {
		has := s.job.Count(func(task *model.Task) bool { return task.Role == role.Name && stands(task) })
		s.roles[role.Name] = max(0, has-int(role.MinMember))
	}
	for _, task := range s.tasks {
		if left, limited := s.roles[task.Role]; !limited || left > 0 {
			s.addSingle(task)
		}
	}
}

// addSingle adds a task that may go alone: most jobs have none.
func (s *victimJob) addSingle(task *model.Task) {
	if s.singles == nil {
		s.singles = map[*model.Task]bool{}
	}
	s.singles[task] = true
}

// units returns everything that could go, were all of it allowed.
func (p *candidateVictims) units() (units []framework.EvictionUnit) {
	for _, s := range p.sources {
		for _, task := range s.tasks {
			if s.singles[task] {
				units = append(units, framework.EvictionUnit{Job: s.job, Tasks: []*model.Task{task}})
			}
		}
		if s.wholeUnit {
			units = append(units, framework.EvictionUnit{Job: s.job, Tasks: s.tasks, WholeGang: true})
		}
	}
	return units
}

// keep leaves of a pool what may go, which has the order of units.
func (p *candidateVictims) keep(units []framework.EvictionUnit) {
	mayGo := func(first *model.Task, whole bool) bool {
		is := len(units) > 0 && units[0].WholeGang == whole && units[0].Tasks[0] == first
		if is {
			units = units[1:]
		}
		return is
	}
	p.sources = slices.DeleteFunc(p.sources, func(s *victimJob) bool {
		for _, task := range s.tasks {
			if s.singles[task] && !mayGo(task, false) {
				delete(s.singles, task)
			}
		}
		s.wholeUnit = s.wholeUnit && mayGo(s.tasks[0], true)
		if !s.wholeUnit {
			s.tasks = slices.DeleteFunc(slices.Clone(s.tasks), func(task *model.Task) bool { return !s.singles[task] }) // units have the others
		}
		return len(s.tasks) == 0
	})
}

func newUnit(s *victimJob, tasks []*model.Task, whole bool) victimUnit {
	u := victimUnit{of: s, tasks: tasks, whole: whole}
	var price framework.Price
	if s.claim != nil {
		price = s.claim.Price(u.evictionUnit())
	}
	u.cost = costOf(&u, price)
	return u
}

// priority returns the highest of the tasks that go, or that of the whole job.
func (u *victimUnit) priority() int32 {
	if u.whole {
		return u.of.priority
	}
	return u.of.priorityAlone(u.tasks[0])
}

// endsGang returns 1 if a gang ends with the unit, else 0.
func (u *victimUnit) endsGang() int64 {
	if u.whole && u.of.gang {
		return 1
	}
	return 0
}

func (u *victimUnit) sumOf(what func(*model.Task) int64) (sum int64) {
	for _, task := range u.tasks {
		sum += what(task)
	}
	return sum
}

func (u *victimUnit) most(what func(*model.Task) int64) int64 {
	most := int64(math.MinInt64)
	for _, task := range u.tasks {
		most = max(most, what(task))
	}
	return most
}

// priorityAlone returns the priority of a task that goes alone.
func (s *victimJob) priorityAlone(task *model.Task) int32 {
	if s.job == nil {
		return task.Priority
	}
	return s.job.PriorityOf(task)
}

// weightOf returns the part of a task in the sum of priorities.
func (s *victimJob) weightOf(task *model.Task) int64 { return weight(s.priorityAlone(task)) }

// removeEvicted removes the evicted tasks from all pools.
func (r *run) removeEvicted(units []victimUnit) {
	r.lowest = nil
	for _, p := range r.pools {
		for _, u := range units {
			// Of a whole job only some may be in this pool: what may leave for one priority need not for another.
			in := slices.IndexFunc(u.tasks, func(task *model.Task) bool { return p.of[task] != nil })
			if in < 0 {
				continue
			}
			s := p.of[u.tasks[in]]
			for _, task := range u.tasks {
				delete(p.of, task)
				if left, limited := s.roles[task.Role]; limited {
					s.roles[task.Role] = left - 1
				}
			}
			s.surplus -= len(u.tasks)
			before := len(s.tasks)
			s.tasks = slices.DeleteFunc(slices.Clone(s.tasks), func(task *model.Task) bool { return slices.Contains(u.tasks, task) })
			s.wholeUnit = s.wholeUnit && len(s.tasks) > 0
			if s.wholeUnit {
				s.wholeOnly = newUnit(s, s.tasks, true)
			}
			p.pods -= before - len(s.tasks)
		}
	}
}

// unitsByCost returns all units of the pool, the least important first.
func (s *search) unitsByCost() []victimUnit {
	var units []victimUnit
	for _, from := range s.pool.sources {
		for i, task := range from.tasks {
			if from.singles[task] {
				units = append(units, newUnit(from, from.tasks[i:i+1], false))
			}
		}
		if from.wholeUnit && len(from.tasks) > 0 {
			units = append(units, from.wholeOnly)
		}
	}
	none := newPlan(s.guard)
	for i := range units {
		units[i].cost[violations] = none.violationsWith(&units[i])
	}
	sortUnits(units)
	return units
}
