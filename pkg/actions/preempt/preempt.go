// Package preempt makes room for jobs that found none: it evicts pods of lower priority, as few and as unimportant ones as
// will do, and only when the whole minimum of a job can then start.
//
// A plan is made as a whole, over all nodes, on idle room, on room that is being released and on that of victims together.
// What is freed stays promised to whom it was freed for. The package decides whom to evict for whom; whether a job fits is for
// pkg/start to say, who may be evicted at all for the engine and the victim pickers.
package preempt

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/start"
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
	past past
	// run is that of the session at hand.
	run *run
}

// Name returns "preempt".
func (*action) Name() string { return Name }

// Forget drops what earlier plans have shown.
func (a *action) Forget() { a.past, a.run = past{}, nil }

// Execute makes a plan for each job that was refused and that eviction could help, the highest priority first.
func (a *action) Execute(session *framework.Session) {
	a.past.turns(session)
	a.plan(session, session.Snapshot.Jobs)
}

// Resume makes plans for those of the deferred jobs that were refused in the end.
func (a *action) Resume(session *framework.Session, deferred []*model.Job) { a.plan(session, deferred) }

// MayPreempt reports whether there are possible victims for the job.
func (a *action) MayPreempt(session *framework.Session, job *model.Job) bool {
	return !job.Patient && a.runOf(session).pool(job).pods > 0
}

func (a *action) plan(session *framework.Session, candidates []*model.Job) {
	if jobs := refused(session, candidates); len(jobs) > 0 {
		if a.past.follow(session.Snapshot); session.Afresh() {
			a.past.known, a.past.drafts = map[model.JobKey]failure{}, map[model.JobKey]*draft{} // nothing may be remembered
		}
		run, stuck := a.runOf(session), stuckIn(session.Snapshot)
		run.drafts, run.seed, run.seen, run.failed = a.past.drafts, a.past.seed, false, nil
		giveUp(session, jobs)
		for _, round := range a.rounds(jobs) {
			a.play(run, round)
		}
		run.explain()
		a.takeDown(run, stuck)
	}
	if !session.Deferring() {
		a.run = nil
	}
}

// runOf returns the run of the session, a new one the first time.
func (a *action) runOf(session *framework.Session) *run {
	if a.run == nil || a.run.session != session {
		a.run = &run{
			session: session, options: a.options, tiny: a.tiny, largest: start.Largest(session.Snapshot),
			exact: start.Budget, left: a.options.Budget, guard: newGuard(session.Snapshot, !a.options.Delete),
			reviews: reviewsPerCycle, pools: map[int32]*pool{}, boards: map[boardKey]*board{},
			hopeless: map[hopelessKey]*failed{}, paid: map[model.JobKey]bool{},
		}
	}
	return a.run
}

// giveUp ends what was promised to those who will have no turn, since eviction cannot help them: nobody is to be evicted for the
// want of their room.
func giveUp(session *framework.Session, turns []*model.Job) {
	for _, job := range session.Lapsed() {
		if !slices.Contains(turns, job) {
			session.GiveBack(job)
		}
	}
}

// play makes plans for the jobs, and for those whose room was promised for this cycle only and is taken back for them.
func (a *action) play(run *run, refused []*model.Job) {
	lapsed := run.lapse(refused)
	turns := inTurn(run.session, refused, lapsed)
	for len(turns) > 0 {
		equals := holdersOf(turns[0].Priority, turns)
		if len(equals) < 2 {
			a.turn(run, turns[0], lapsed, false)
			turns = turns[1:]
			continue
		}
		a.turnOf(run, equals, lapsed)
		turns = turns[len(equals):]
	}
}

// turn makes a plan for one job, or ends what it was promised in earlier cycles. But the room stays with a job whose search goes on,
// and with one around whose room others have been evicted a moment ago.
func (a *action) turn(run *run, job *model.Job, lapsed []*model.Job, around bool) {
	taken := slices.Contains(lapsed, job) // who has it now is for those above to say
	if taken && run.renew(job) {
		return
	}
	if known, ok := a.past.recall(run, job); ok {
		run.note(job, known, false)
		run.giveBack(job)
	} else if !run.try(job) {
		if f := run.failed[len(run.failed)-1]; !taken && (around || f.goesOn()) {
			run.session.Keep(job)
		} else {
			run.giveBack(job)
		}
	}
}

// takeDown says why there are no plans, and keeps that as long as it holds.
func (a *action) takeDown(run *run, stuck []*model.Task) {
	for _, f := range run.failed {
		if f.cut && f.search != nil && !run.moved {
			a.past.drafts[f.job.Key] = f.search.draft
		}
		f.why += stuckFor(f.job, stuck)
		run.note(f.job, f.why, f.cut || f.fleeting)
		switch {
		case f.missed:
			a.past.missed(run.session, f.job)
			run.session.WakeAt(run.session.Snapshot.Now.Add(again))
		case !f.cut && !f.fleeting:
			a.past.remember(run.session, f)
		}
	}
}

// again is how long those wait for another cycle who had no turn in this one, if nothing happens.
const again = 5 * time.Second

// rounds returns the jobs in one round, or in two: in the first are those who had no turn in the cycle before, and whoever holds room
// that is kept from them.
func (a *action) rounds(refused []*model.Job) [][]*model.Job {
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
		if a.past.early[job.Key] || holds(job) && job.Priority >= lowest {
			first = append(first, job)
		} else {
			rest = append(rest, job)
		}
	}
	return [][]*model.Job{first, rest}
}

// inTurn returns all of the jobs in the order to look at them: by priority, for who is above whom decides who may be evicted and which
// room is seen, and job order among equals. But those come first of these whose promises are not enough any more: with no plan for
// them their room is for others, before anybody is evicted for the want of it; and before them those who need only be promised
// again what was taken back a moment ago, since nobody keeps it from the others.
func inTurn(session *framework.Session, refused, lapsed []*model.Job) []*model.Job {
	const again, holder, other = 0, 1, 2
	part := func(job *model.Job) int {
		switch {
		case !holds(job):
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

// holds tells whether members of the job were promised room in earlier cycles.
func holds(job *model.Job) bool {
	return slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Nominated != "" })
}

// stuckIn returns the pods that are being deleted and do not go.
func stuckIn(snapshot *model.Snapshot) (stuck []*model.Task) {
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if task.Stuck {
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
	names := model.Names{Kind: "pod", Reader: job.Key.Namespace}
	for _, task := range stuck {
		names.Add(task.Namespace, fmt.Sprintf("%s on %s", task, task.Node))
	}
	return "; stuck, being deleted for too long: " + names.String()
}

// refused returns those of the jobs that wait for room although their members exist: those that are not waiting for victims already,
// and that eviction could help.
func refused(session *framework.Session, candidates []*model.Job) []*model.Job {
	var jobs []*model.Job
	for _, job := range candidates {
		refusal := session.Refusal(job)
		if refusal == nil || !refusal.Evictable || refusal.Code == model.WaitingForVictims ||
			session.GateJob(job, framework.WithPlaced) == nil || session.ValidateJob(job) != nil {
			continue
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// run is one execution of the action.
type run struct {
	session *framework.Session
	options Options
	tiny    int
	largest model.Resources
	// exact is what exact searches of places may still look at, left what the search for victims may, in nodes.
	exact int
	left  int64
	// reviews is how many plans reviewers may still be asked about.
	reviews int
	guard   *guard
	// pools are by the priority of those that others are evicted for.
	pools map[int32]*pool
	// least is what leastImportant has found, nil before it is asked.
	least  []running
	boards map[boardKey]*board
	// touched are nodes on which it may cost something else now to make room, although nobody has come or gone there.
	touched []*model.Node
	// drafts are searches to go on with.
	drafts map[model.JobKey]*draft
	// failed are the jobs without a plan, in their order; hopeless finds those of them that others ask the same as.
	failed   []*failed
	hopeless map[hopelessKey]*failed
	// paid are the jobs that have a plan by now which lasts beyond the cycle; plans is how many victims were decided for.
	paid  map[model.JobKey]bool
	plans int
	// moved tells that somebody was given room for more than this cycle, or gave it back: what was found out before is of no use.
	moved bool
	// scene is what sceneNow returned last, seen that nothing has changed since.
	seed  maphash.Seed
	scene uint64
	seen  bool
}

// failed is a job without a plan.
type failed struct {
	job *model.Job
	// search is nil when nothing was searched.
	search *search
	// same is the job that has asked the same before, nil for most.
	same *failed
	why  string
	// budgets are those that protect who would have to leave, where that is why.
	budgets []*model.Budget
	// cut tells that the search was not finished, missed that the job has its turn in the next cycle.
	cut, missed bool
	// fleeting tells that somebody outside has a part in it, who may say something else when nothing has changed.
	fleeting bool
	// scene is the one that it failed in.
	scene uint64
}

// goesOn tells whether there may still be a plan, for which the next cycle looks.
func (f *failed) goesOn() bool { return f.missed || f.search != nil && f.search.draft != nil }

// spend counts so many looks at nodes.
func (r *run) spend(looks int) { r.left -= int64(looks) }

// note adds to why the job waits what was tried here; again tells that the next cycle may come to something else although
// nothing has changed.
func (r *run) note(job *model.Job, why string, again bool) {
	refusal := r.session.Refusal(job).With("preemption: " + why)
	refusal.Expires = refusal.Expires || again
	r.session.Refuse(job, refusal)
}

// giveBack ends what a job without a plan was promised in earlier cycles.
func (r *run) giveBack(job *model.Job) {
	if holds(job) {
		r.session.GiveBack(job)
		r.change()
	}
}

// try makes a plan for the job and decides it, or takes down that there is none and returns false.
func (r *run) try(job *model.Job) bool {
	f := &failed{job: job, scene: r.sceneNow()}
	if job.Patient {
		f.why = "preemptionPolicy is Never"
	} else if pool := r.pool(job); pool.pods == 0 {
		f.why = "no lower-priority victims" + r.lowest(job)
	} else if r.left <= 0 {
		r.session.See(job)
		if f.same = r.foretell(r.newSearch(job, pool)); f.same == nil {
			f.why, f.cut, f.missed = r.exhausted(), true, true
		}
	} else if r.search(f, pool) {
		return true
	}
	r.failed = append(r.failed, f)
	return false
}

// search looks for a plan and decides it; false when there is none.
func (r *run) search(f *failed, pool *pool) bool {
	r.session.See(f.job)
	s := r.newSearch(f.job, pool)
	f.fleeting = slices.ContainsFunc(s.trial.Members(), r.session.Fleeting)
	if f.same = r.foretell(s); f.same != nil {
		return false
	}
	s = s.takenUp()
	delete(r.drafts, f.job.Key)
	found := s.find()
	r.touch(s)
	for found != nil {
		if s.carry(found) {
			return true
		}
		if !s.hearing.narrows() {
			break
		}
		s = s.narrowed()
		found = s.find()
		r.touch(s)
	}
	f.search = s
	switch why, objected := s.hearing.why(); {
	case s.cut:
		f.why, f.cut = r.exhausted(), true
	case objected:
		f.why, f.fleeting, f.missed = why, true, s.hearing.late
	case found != nil:
		f.why = "somebody objects to the victims found"
	default:
		f.cut = s.trial.Cut() // others have used up what its places could be looked for with
		r.remember(f)
	}
	return false
}
