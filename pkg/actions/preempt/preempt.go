package preempt

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/internal/placement"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Name is the action's name in the configuration.
const Name = "preempt"

// New returns the action. Between sessions it keeps which jobs it can do nothing for, until something that could help has
// changed.
func New(options Options) framework.Action { return &action{options: options, tiny: exhaustivePods} }

type action struct {
	options Options
	// tiny is up to how many pods that may be evicted every set of them is looked at.
	tiny int
	past failureCache
	// run is that of the session at hand.
	run *run
}

// Name returns "preempt".
func (*action) Name() string { return Name }

// ResetCache drops what earlier plans have shown.
func (a *action) ResetCache() { a.past, a.run = failureCache{}, nil }

// Execute makes a plan for each job that was refused and that eviction could help, the highest priority first.
func (a *action) Execute(session *framework.Session) {
	a.past.beginCycle(session)
	a.plan(session, session.Snapshot.Jobs)
}

// Resume makes plans for those of the deferred jobs that were refused in the end.
func (a *action) Resume(session *framework.Session, deferred []*model.Job) { a.plan(session, deferred) }

// MayPreempt reports whether there are possible victims for the job.
func (a *action) MayPreempt(session *framework.Session, job *model.Job) bool {
	return !job.NeverPreempts && a.runOf(session).pool(job).pods > 0
}

func (a *action) plan(session *framework.Session, candidates []*model.Job) {
	if jobs := refused(session, candidates); len(jobs) > 0 {
		if a.past.invalidate(session.Snapshot); session.Uncached() {
			a.past.known, a.past.drafts = map[model.JobKey]cachedFailure{}, map[model.JobKey]*savedSearch{} // nothing may be remembered
		}
		run, stuck := a.runOf(session), terminationOverdue(session.Snapshot)
		run.drafts, run.tieBreakSeed, run.seen, run.failed = a.past.drafts, a.past.seed, false, nil
		releaseUnplanned(session, jobs)
		jobs = deferBehind(session, jobs)
		for _, round := range a.roundsByHolders(jobs) {
			a.planAll(run, round)
		}
		run.explain()
		a.recordFailures(run, stuck)
	}
	if _, more := session.HighestDeferred(); !more {
		a.run = nil
	}
}

// deferBehind defers the jobs that are not above all deferred ones, and returns the others: a plan must not count on room
// that a deferred job takes in its turn.
func deferBehind(session *framework.Session, jobs []*model.Job) []*model.Job {
	highest, any := session.HighestDeferred()
	return slices.DeleteFunc(jobs, func(job *model.Job) bool {
		behind := any && job.Priority <= highest
		if behind {
			session.Defer(job)
		}
		return behind
	})
}

// runOf returns the run of the session, a new one the first time.
func (a *action) runOf(session *framework.Session) *run {
	if a.run == nil || a.run.session != session {
		a.run = &run{
			session: session, options: a.options, exhaustiveLimit: a.tiny, largest: placement.MaxAllocatable(session.Snapshot),
			exhaustiveBudget: placement.Budget, budget: a.options.Budget, guard: newPDBBudget(session.Snapshot, !a.options.Delete),
			reviews: reviewsPerCycle, pools: map[int32]*candidateVictims{}, boards: map[heapKey]*nodeCostHeap{},
			hopeless: map[infeasibleKey]*unplanned{}, evicted: map[model.JobKey]bool{},
		}
	}
	return a.run
}

// releaseUnplanned ends the nominations of the jobs that will have no turn, since eviction cannot help them: no pod is to be
// evicted for want of their capacity.
func releaseUnplanned(session *framework.Session, turns []*model.Job) {
	for _, job := range session.Expired() {
		if !slices.Contains(turns, job) {
			session.ReleaseNominations(job)
		}
	}
}

// planAll makes plans for the jobs, and for those whose room was promised for this cycle only and is taken back for them.
func (a *action) planAll(run *run, refused []*model.Job) {
	lapsed := run.reclaimFreeNominations(refused)
	turns := inPlanningOrder(run.session, refused, lapsed)
	for len(turns) > 0 {
		equals := leadingHolders(turns[0].Priority, turns)
		if len(equals) < 2 {
			a.planJob(run, turns[0], lapsed, false)
			turns = turns[1:]
			continue
		}
		a.orderEquals(run, equals, lapsed)
		turns = turns[len(equals):]
	}
}

// planJob makes a plan for one job, or ends what it was promised in earlier cycles. But the room stays with a job whose
// search goes on, and with one around whose room others have been evicted a moment ago.
func (a *action) planJob(run *run, job *model.Job, lapsed []*model.Job, around bool) {
	taken := slices.Contains(lapsed, job) // who has it now is for those above to say
	if taken && run.renominate(job) {
		return
	}
	if known, ok := a.past.lookup(run, job); ok {
		run.note(job, known, false)
		run.giveBack(job)
	} else if !run.try(job) {
		if f := run.failed[len(run.failed)-1]; !taken && (around || f.resumable()) {
			run.session.KeepNominations(job)
		} else {
			run.giveBack(job)
		}
	}
}

// recordFailures says why there are no plans, and keeps that as long as it holds.
func (a *action) recordFailures(run *run, stuck []*model.Task) {
	for _, f := range run.failed {
		if f.cut && f.search != nil && !run.moved {
			a.past.drafts[f.job.Key] = f.search.draft
		}
		f.why += stuckFor(f.job, stuck)
		run.note(f.job, f.why, f.cut || f.fleeting)
		switch {
		case f.skipped:
			a.past.recordSkipped(run.session, f.job)
			run.session.WakeAt(run.session.Snapshot.Now.Add(retryNote))
		case !f.cut && !f.fleeting:
			a.past.put(run.session, f)
		}
	}
}

// retryNote is how long those wait for another cycle who had no turn in this one, if nothing happens.
const retryNote = 5 * time.Second

// roundsByHolders returns the jobs in one round, or in two: in the first are the jobs that had no turn in the cycle before,
// and the jobs that hold capacity which is kept from them.
func (a *action) roundsByHolders(refused []*model.Job) [][]*model.Job {
	lowest, any := int32(0), false
	for _, job := range refused {
		if a.past.early[job.Key] && (!any || job.Priority < lowest) {
			lowest, any = job.Priority, true
		}
	}
	if !any {
		return [][]*model.Job{refused}
	}
	var first, rest []*model.Job
	for _, job := range refused {
		if a.past.early[job.Key] || holdsNomination(job) && job.Priority >= lowest {
			first = append(first, job)
		} else {
			rest = append(rest, job)
		}
	}
	return [][]*model.Job{first, rest}
}

// inPlanningOrder returns all of the jobs in the order to look at them: by priority, which decides which pods may be evicted
// and which capacity is seen, and by job order among equals. But first among equals come the jobs whose nominations are not
// enough any more: with no plan for them their capacity is for others, before any pod is evicted for want of it. Before them
// come the jobs that need only the nominations again that were taken back a moment ago, since no job keeps that capacity from
// the others.
func inPlanningOrder(session *framework.Session, refused, lapsed []*model.Job) []*model.Job {
	const again, holder, other = 0, 1, 2
	part := func(job *model.Job) int {
		switch {
		case !holdsNomination(job):
			return other
		case slices.Contains(lapsed, job):
			return again
		}
		return holder
	}
	return slices.SortedFunc(slices.Values(slices.Concat(refused, lapsed)), func(x, y *model.Job) int {
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(part(x), part(y)), session.CompareJobs(x, y))
	})
}

// holdsNomination reports whether members of the job were promised room in earlier cycles.
func holdsNomination(job *model.Job) bool {
	return slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Nominated != "" })
}

// terminationOverdue returns the pods that are being deleted and do not go.
func terminationOverdue(snapshot *model.Snapshot) (stuck []*model.Task) {
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if task.TerminationOverdue {
				stuck = append(stuck, task)
			}
		}
	}
	return stuck
}

// stuckFor names those who are stuck to users of the job, up to a few, as the end of a sentence; empty when there are none.
func stuckFor(job *model.Job, stuck []*model.Task) string {
	if len(stuck) == 0 {
		return ""
	}
	names := model.NameList{Noun: "pod", Reader: job.Key.Namespace}
	for _, task := range stuck {
		names.Add(task.Namespace, fmt.Sprintf("%s on %s", task, task.Node))
	}
	return "; stuck, being deleted for too long: " + names.String()
}

// refused returns those of the jobs that wait for room although their members exist: those that are not waiting for victims
// already, and that eviction could help.
func refused(session *framework.Session, candidates []*model.Job) []*model.Job {
	var jobs []*model.Job
	for _, job := range candidates {
		refusal := session.Refusal(job)
		if refusal == nil || !refusal.Evictable || refusal.Code == model.WaitingForVictims ||
			session.JobReady(job, framework.Ready) == nil || session.ValidateJob(job) != nil {
			continue
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// run is one execution of the action.
type run struct {
	session         *framework.Session
	options         Options
	exhaustiveLimit int
	largest         model.Resources
	// exhaustiveBudget is what exact searches of places may still look at, left what the search for victims may, in nodes.
	exhaustiveBudget int
	budget           int64
	// reviews is how many plans reviewers may still be asked about.
	reviews int
	guard   *pdbBudget
	// pools are by the priority of those that others are evicted for.
	pools map[int32]*candidateVictims
	// least is what leastImportant has found, nil before it is asked.
	least  []preemptibleJob
	boards map[heapKey]*nodeCostHeap
	// touched are nodes on which the cost of freeing capacity may have changed, although no pod has come or gone there.
	touched []*model.Node
	// drafts are searches to go on with.
	drafts map[model.JobKey]*savedSearch
	// failed are the jobs without a plan, in their order; hopeless finds those of them that others ask the same as.
	failed   []*unplanned
	hopeless map[infeasibleKey]*unplanned
	// evicted are the jobs that have a plan by now which lasts beyond the cycle; plans is how many victims were decided for.
	evicted map[model.JobKey]bool
	plans   int
	// moved reports that a job was given a nomination for more than this cycle, or gave it back: what was found out before is of
	// no use.
	moved bool
	// scene is what sceneNow returned last, seen that nothing has changed since.
	tieBreakSeed maphash.Seed
	scene        uint64
	seen         bool
}

// unplanned is a job without a plan.
type unplanned struct {
	job *model.Job
	// search is nil when nothing was searched.
	search *search
	// same is the job that has asked the same before, nil for most.
	same *unplanned
	why  string
	// budgets are those that protect who would have to leave, where that is why.
	budgets []*model.Budget
	// cut reports that the search was not finished, missed that the job has its turn in the next cycle.
	cut, skipped bool
	// fleeting reports that an extender has a part in it, which may answer otherwise although nothing has changed.
	fleeting bool
	// scene is the one that it failed in.
	scene uint64
}

// resumable reports whether there may still be a plan, for which the next cycle looks.
func (f *unplanned) resumable() bool { return f.skipped || f.search != nil && f.search.draft != nil }

// spend counts so many looks at nodes.
func (r *run) spend(looks int) { r.budget -= int64(looks) }

// note adds to why the job waits what was tried here; again reports that the next cycle may come to something else although
// nothing has changed.
func (r *run) note(job *model.Job, why string, again bool) {
	refusal := r.session.Refusal(job).WithNote("preemption: " + why)
	refusal.Transient = refusal.Transient || again
	r.session.Refuse(job, refusal)
}

// giveBack ends what a job without a plan was promised in earlier cycles.
func (r *run) giveBack(job *model.Job) {
	if holdsNomination(job) {
		r.session.ReleaseNominations(job)
		r.toggleNomination()
	}
}

// try makes a plan for the job and decides it, or takes down that there is none and returns false.
func (r *run) try(job *model.Job) bool {
	f := &unplanned{job: job, scene: r.nominationsHash()}
	if job.NeverPreempts {
		f.why = "preemptionPolicy is Never"
	} else if pool := r.pool(job); pool.pods == 0 {
		f.why = "no lower-priority victims" + r.lowestPriorityHint(job)
	} else if r.budget <= 0 {
		r.session.ApplyReservations(job)
		if f.same = r.lookupInfeasible(r.newSearch(job, pool)); f.same == nil {
			f.why, f.cut, f.skipped = r.exhausted(), true, true
		}
	} else if r.search(f, pool) {
		return true
	}
	r.failed = append(r.failed, f)
	return false
}

// search looks for a plan and decides it; false when there is none.
func (r *run) search(f *unplanned, pool *candidateVictims) bool {
	r.session.ApplyReservations(f.job)
	s := r.newSearch(f.job, pool)
	f.fleeting = slices.ContainsFunc(s.trial.Members(), r.session.HasTransientRefusal)
	if f.same = r.lookupInfeasible(s); f.same != nil {
		return false
	}
	s = s.resume()
	delete(r.drafts, f.job.Key)
	found := s.find()
	r.markDirty(s)
	for found != nil {
		if s.applyOrRevise(found) {
			return true
		}
		if !s.rounds.excludesMoreNodes() {
			break
		}
		s = s.excludingNodes()
		found = s.find()
		r.markDirty(s)
	}
	f.search = s
	switch why, objected := s.rounds.why(); {
	case s.cut:
		f.why, f.cut = r.exhausted(), true
	case objected:
		f.why, f.fleeting, f.skipped = why, true, s.rounds.budgetExhausted
	case found != nil:
		f.why = "an extender rejects the victims found"
	default:
		f.cut = s.trial.BudgetExhausted() // others have used up what its places could be looked for with
		r.remember(f)
	}
	return false
}
