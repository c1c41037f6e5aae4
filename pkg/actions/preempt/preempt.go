package preempt

import (
	"cmp"
	"slices"
	"time"
	"unique"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// Name is the action's name in the configuration.
const Name = "preempt"

// New returns the action. Between sessions it keeps only which jobs had no turn.
func New(options Options) engine.Action {
	return &action{&Planner{options: options, policy: byPriority{}}}
}

type action struct{ *Planner }

// policy is what the actions that evict pods differ in.
type policy interface {
	// mayPreempt reports whether there are possible victims for the job.
	mayPreempt(a *Planner, session *engine.Session, job *model.Job) bool
	// plan gives the jobs that were refused their turns, and says why there is no plan for those without one.
	plan(a *Planner, session *engine.Session, candidates []*model.Job)
	// planFor looks for a plan for a job and decides it; it returns why there is none, nil when there is one.
	planFor(r *run, f *failure) *failure
	// pick returns which of the units may be evicted for the job, in their order.
	pick(session *engine.Session, job *model.Job, units []framework.EvictionUnit) []framework.EvictionUnit
}

// byPriority is the policy of this action: pods of lower priority in the job's own queue go.
type byPriority struct{}

// Planner is an action of which the name is missing.
type Planner struct {
	options Options
	policy  policy
	// waited is for how many cycles in a row each job had had no turn when the session began, skipped the same when it ends.
	waited, skipped map[model.JobKey]int
	// run is that of the present session.
	run *run
}

// Name returns "preempt".
func (*action) Name() string { return Name }

// MaxGrace returns the argument.
func (a *action) MaxGrace() time.Duration { return cmp.Or(a.options.MaxGrace, model.DefaultMaxGrace) }

// ResetCache drops what is kept.
func (a *Planner) ResetCache() { a.waited, a.skipped, a.run = nil, nil, nil }

// Execute makes a plan for each job that was refused and that eviction could help, the highest priority first.
func (a *Planner) Execute(session *engine.Session) {
	if !session.Uncached() { // a session that another one is compared with gives the same turns
		a.waited, a.skipped = a.skipped, map[model.JobKey]int{}
	}
	a.plan(session, session.Snapshot.Jobs)
}

// Resume makes plans for those of the deferred jobs that were refused in the end.
func (a *Planner) Resume(session *engine.Session, deferred []*model.Job) { a.plan(session, deferred) }

// MayPreempt reports whether there are possible victims for the job.
func (a *Planner) MayPreempt(session *engine.Session, job *model.Job) bool {
	return session.Snapshot.EvictsFor(job) && a.policy.mayPreempt(a, session, job)
}

func (byPriority) mayPreempt(a *Planner, session *engine.Session, job *model.Job) bool {
	return a.runOf(session).pool(job).pods > 0
}

func (byPriority) pick(session *engine.Session, job *model.Job, units []framework.EvictionUnit) []framework.EvictionUnit {
	return session.Victims(job, units)
}

func (a *Planner) plan(session *engine.Session, candidates []*model.Job) {
	a.policy.plan(a, session, candidates)
	if _, more := session.HighestDeferred(); !more {
		a.run = nil
	}
}

func (byPriority) plan(a *Planner, session *engine.Session, candidates []*model.Job) {
	jobs := refused(session, candidates)
	if len(jobs) == 0 {
		return
	}
	r := a.runOf(session)
	releaseUnplanned(session, jobs)
	for _, round := range a.rounds(session, deferBehind(session, jobs)) {
		a.planAll(r, round)
	}
	r.explain()
	r.report("preemption", terminationOverdue(session.Snapshot))
}

// refused returns the jobs that wait for capacity although their members exist: those that are not waiting for victims
// already, and that eviction could help.
func refused(session *engine.Session, candidates []*model.Job) []*model.Job {
	var jobs []*model.Job
	for _, job := range candidates {
		refusal := session.Refusal(job)
		if refusal == nil || !refusal.Evictable || refusal.Code == model.WaitingForVictims || session.JobReady(job, framework.Ready) == nil {
			continue
		}
		if invalid := session.ValidateJob(job); invalid != nil && !invalid.Evictable { // a limit may leave room after an eviction
			continue
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// deferBehind defers the jobs that come behind a deferred one, and returns the others: a plan must not count on capacity that a
// deferred job takes in its turn.
func deferBehind(session *engine.Session, jobs []*model.Job) []*model.Job {
	return slices.DeleteFunc(jobs, func(job *model.Job) bool {
		behind := behindDeferred(session, job)
		if behind {
			session.Defer(job)
		}
		return behind
	})
}

// behindDeferred reports whether a job is not above all deferred ones.
func behindDeferred(session *engine.Session, job *model.Job) bool {
	highest, any := session.HighestDeferred()
	return any && job.Priority <= highest
}

// rounds returns the jobs in one round, or in two: in the first are the jobs that had no turn for most cycles in a row, and the
// jobs that hold capacity which is kept from them. So each job has a turn, however fast the cluster changes. What a session with
// two rounds comes to is not repeated: the next session has another order of turns.
func (a *Planner) rounds(session *engine.Session, jobs []*model.Job) [][]*model.Job {
	longest := 0
	for _, job := range jobs {
		longest = max(longest, a.waited[job.Key])
	}
	if longest == 0 {
		return [][]*model.Job{jobs}
	}
	session.Until(session.Snapshot.Now)
	var first, rest []*model.Job
	for _, job := range jobs {
		before := func(other *model.Job) bool { return a.waited[other.Key] == longest && other.Priority <= job.Priority }
		if a.waited[job.Key] == longest || session.HoldsNominations(job) && slices.ContainsFunc(jobs, before) {
			first = append(first, job)
		} else {
			rest = append(rest, job)
		}
	}
	return [][]*model.Job{first, rest}
}

// run is one execution of the action, with those for deferred jobs.
type run struct {
	session *engine.Session
	options Options
	largest func() model.Resources
	// placementBudget is what exact searches for places may still cost, budget what is left for the search for victims: no search
	// begins when none is, and each ends. reviews is how many plans extenders may still be asked about.
	placementBudget int
	budget          int64
	reviews         int
	guard           *pdbBudget
	// pools are by the jobs that others are evicted for.
	pools map[poolKey]*candidateVictims
	// byQueue has the jobs of each queue; nil until they are asked for, and while there are no queues.
	byQueue map[string][]*model.Job
	// lowest is what lowestPriorityJobs has found, nil before.
	lowest []preemptibleJob
	// touched are nodes on which the cost of freeing capacity may have changed, although no pod has come or gone there.
	touched []*model.Node
	// planned are the jobs with a plan that lasts beyond the cycle, shared those whose nominations all equals could use.
	planned, shared map[model.JobKey]bool
	// failures are the jobs without a plan, searched those of them for which there was a search.
	failures []*failure
	searched map[searchKey]*failure
	// given is what dependencies returns, zero before.
	given  unique.Handle[string]
	policy policy
	// evictions is how many pods the session had evicted when the pools were last up to date.
	evictions int
}

// runOf returns the run of the session, a new one the first time.
func (a *Planner) runOf(session *engine.Session) *run {
	if a.run != nil && a.run.session == session && a.run.evictions != session.Evictions() {
		a.run.renew() // another action has evicted pods
	}
	if a.run == nil || a.run.session != session {
		a.run = &run{
			session: session, options: a.options, policy: a.policy, evictions: session.Evictions(), largest: place.Largest(session.Snapshot),
			placementBudget: place.Budget, budget: a.options.Budget, reviews: reviewsPerCycle,
			guard:   newPDBBudget(session.Snapshot, a.options.Method == model.ByEviction),
			pools:   map[poolKey]*candidateVictims{},
			planned: map[model.JobKey]bool{}, shared: map[model.JobKey]bool{}, searched: map[searchKey]*failure{},
		}
	}
	return a.run
}

// renew forgets what is known of pods that may be evicted.
func (r *run) renew() {
	r.guard = newPDBBudget(r.session.Snapshot, r.options.Method == model.ByEviction)
	r.pools, r.searched = map[poolKey]*candidateVictims{}, map[searchKey]*failure{}
	r.lowest, r.touched, r.evictions = nil, nil, r.session.Evictions()
}

// planAll gives each of the jobs its turn. A job whose capacity was taken back for one of them, and that does not find as much
// again, is deferred, and with it the jobs behind it: its equals may release what it would evict a pod for.
func (a *Planner) planAll(r *run, jobs []*model.Job) {
	lapsed := r.reclaimFreeNominations(jobs)
	turns := inPlanningOrder(r.session, jobs, lapsed)
	for i, job := range turns {
		r.session.InTurn(job, func() {
			switch {
			case slices.Contains(lapsed, job):
				if !r.renominate(job) {
					r.session.Defer(job)
				}
				return
			case behindDeferred(r.session, job):
				r.session.Defer(job)
				return
			case r.session.HoldsNominations(job):
				r.shareNominations(turns[i:])
			}
			f := a.planFor(r, job)
			switch { // a job that had no turn keeps what it holds of its nominations, others release it
			case f == nil || !r.session.HoldsNominations(job):
			case f.skipped && r.holdsCapacity(job):
				r.session.KeepNominations(job)
			default:
				r.session.ReleaseNominations(job)
			}
		})
	}
}

// planFor looks for a plan and decides it; it records and returns why there is none, nil when there is one.
func (a *Planner) planFor(r *run, job *model.Job) *failure {
	f := r.planFor(job)
	if f != nil {
		r.failures = append(r.failures, f)
		if f.skipped && !r.session.Uncached() {
			a.skipped[job.Key] = a.waited[job.Key] + 1
		}
	}
	return f
}

func (r *run) planFor(job *model.Job) *failure {
	f := &failure{job: job}
	if r.mayNotPlan(f) {
		return f
	}
	return r.policy.planFor(r, f)
}

// mayNotPlan says why no pod goes for the job at all.
func (r *run) mayNotPlan(f *failure) bool {
	if r.session.Snapshot.Paused {
		f.why = "the scheduler is paused"
	} else if f.job.NeverPreempts {
		f.why = "preemptionPolicy is Never"
	} else if refusal := r.session.Snapshot.QueueRefusal(f.job); refusal != nil { // of a job that has begun, and is completed
		f.why = refusal.Detail
	}
	return f.why != ""
}

func (byPriority) planFor(r *run, f *failure) *failure {
	job := f.job
	pool := r.pool(job)
	if pool.pods == 0 {
		f.why = "no lower-priority victims" + r.lowestPriorityHint(job)
		if len(r.session.Snapshot.Queues) > 0 {
			f.why = "no lower-priority victims in its queue"
		}
		return f
	}
	ask := r.session.Ask(job, model.FutureIdle)
	if known, ok := ask.Recall(r.question(job)); ok {
		f.why, f.blockedByBudgets = describe(known), known.BlockedByBudgets
		return f
	}
	return r.searchOnce(f, ask, "", func() bool { return r.search(f, ask, pool) })
}

// searchOnce calls a function that looks for a plan and reports whether one was decided, unless it has failed for another job for
// which it comes to the same, or the budget is used up. It returns why there is no plan, nil when there is one.
func (r *run) searchOnce(f *failure, ask engine.Ask, only model.Right, find func() bool) *failure {
	key, shares := r.searchKey(ask, only)
	if same := r.searched[key]; shares && same != nil {
		f.same = same
		return f
	}
	if r.budget <= 0 && !r.shared[f.job.Key] {
		r.session.SearchCut()
		f.why, f.skipped, f.until = r.exhausted(), true, r.session.Snapshot.Now
		return f
	}
	if find() {
		return nil
	}
	if shares && f.why == "" && f.until.IsZero() {
		r.searched[key] = f
	}
	return f
}

// search looks for a plan until one is decided, or none is left; then it returns false. It first looks for plans that leave pods
// near members which must be near one.
func (r *run) search(f *failure, ask engine.Ask, pool *candidateVictims) bool {
	s := r.newSearch(ask, pool)
	if stay := s.staysNear(); len(stay) > 0 && r.searchBy(f, s.excluding(func(task *model.Task) bool { return stay[task] })) {
		return true
	}
	f.why, f.skipped = "", false
	return r.searchBy(f, s)
}

// searchBy is search for one pool.
func (r *run) searchBy(f *failure, s *search) bool {
	f.revision = r.session.Snapshot.Journal.Revision()
	for {
		found, start := s.find()
		r.markDirty(s)
		if found == nil {
			break
		}
		if s.startingIn(start).decide(found) {
			return true
		}
		if !s.rounds.grown {
			f.why = "the victims found may not go for the members that would start"
			break
		}
		s.rounds.grown = false
		s = s.excluding(func(task *model.Task) bool { return s.rounds.without[task.Node] != "" })
	}
	f.search, f.until = s, s.rounds.until
	why, objected := s.rounds.why()
	if objected {
		f.why, f.skipped = why, s.rounds.budgetExhausted
	}
	if s.trial.BudgetExhausted() || s.rounds.budgetExhausted { // other jobs have used up what its places could be looked for with
		r.session.SearchCut()
	}
	if objected || s.trial.BudgetExhausted() {
		f.until = r.session.Snapshot.Now
	}
	return false
}

// spend counts so many looks at nodes.
func (r *run) spend(looks int) { r.budget -= int64(looks) }
