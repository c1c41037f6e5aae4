// Package allocate gives idle capacity to the jobs that wait, in their order: each job's minimum as a whole or not at all,
// then, when every job has had its try, the members beyond the minimum one by one. Before all others come the jobs that have
// begun and are short of members, and, but for jobs of higher priority, those that others were evicted for.
//
// It evicts no pod. A job that cannot start leaves no trace in the session and hides nothing from the jobs behind it.
package allocate

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// Name is the action's name in the configuration.
const Name = "allocate"

// New returns the action, which takes no arguments.
func New() engine.Action { return &action{budget: place.Budget} }

type action struct {
	// budget is what exact searches may look at in one cycle.
	budget int
}

// Name returns "allocate".
func (*action) Name() string { return Name }

// Execute tries every waiting job's minimum: first the jobs that have begun and are short of members, then the jobs that pods
// were evicted for and the jobs above them. Then it hands out the capacity that is left.
func (a *action) Execute(session *engine.Session) { a.serve(session, pendingJobs(session)) }

// Resume does that for the deferred jobs: by now there are plans for the jobs above them, or it is known that there are none.
func (a *action) Resume(session *engine.Session, deferred []*model.Job) {
	for _, job := range deferred {
		session.Refuse(job, nil)
	}
	a.serve(session, deferred)
}

func (a *action) serve(session *engine.Session, jobs []*model.Job) {
	var begun, holders, waiting []*model.Job
	for _, job := range jobs {
		switch {
		case !slices.ContainsFunc(job.Tasks, pending) && (!job.HasGroup || job.Finished()):
			continue // no member waits: those there are run, end or have ended
		case session.Snapshot.HasBegun(job) && belowMinimum(session, job) && job.Count(place.IsSettledOnNode) > 0:
			begun = append(begun, job)
		case session.HoldsNominations(job):
			holders = append(holders, job)
		default:
			waiting = append(waiting, job)
		}
	}
	run := &cycle{
		session: session, largest: place.Largest(session.Snapshot), budget: a.budget,
		outranking: make([]*outranking, 1+len(session.Snapshot.Queues)),
		releasing:  slices.ContainsFunc(session.Snapshot.Nodes, (*model.Node).HasReleasing),
	}
	for job := range session.InOrder(begun) {
		if !session.HoldsNominations(job) || !run.allocateNominated(job) {
			run.tryMinimum(job)
		}
	}
	for job := range session.InOrder(begun) { // once it is known which of them are whole with what is idle
		run.replaceSome(job)
		run.giveBack(job)
	}
	above, rest := partitionByNominated(session.Snapshot, waiting, holders)
	for job := range session.InOrder(slices.Concat(holders, above)) {
		if !session.HoldsNominations(job) || !run.allocateNominated(job) {
			run.tryMinimum(job)
			run.replaceSome(job)
			run.giveBack(job)
		}
	}
	for job := range session.InOrder(rest) {
		run.tryMinimum(job)
		run.replaceSome(job)
	}
	all := slices.Concat(begun, holders, waiting)
	run.allocateBeyondMinimum(all, run.startWithStandIns(all))
	for _, job := range all {
		if role := job.HeldRole(); role != "" && session.Refusal(job) == nil {
			session.Refuse(job, &model.Refusal{
				Code: model.NotEnoughMembers, Detail: fmt.Sprintf("role %s starts when the others have what they have lost", role),
			})
		}
	}
}

// partitionByNominated returns those of the waiting jobs that are above any of their queue for which others were evicted, and
// the rest. Jobs above a holder are tried together with the holders: they may use nominated capacity, and would otherwise evict,
// soon after, the job that has just taken it.
func partitionByNominated(snapshot *model.Snapshot, waiting, holders []*model.Job) (above, rest []*model.Job) {
	for _, job := range waiting {
		if slices.ContainsFunc(holders, func(holder *model.Job) bool {
			return job.Priority > holder.Priority && !snapshot.CrossesQueues(job, holder)
		}) {
			above = append(above, job)
		} else {
			rest = append(rest, job)
		}
	}
	return above, rest
}

// pendingJobs returns the jobs that may have waiting members.
func pendingJobs(session *engine.Session) []*model.Job {
	var jobs []*model.Job
	for _, job := range session.Snapshot.Jobs {
		if !job.NothingPending || session.Uncached() {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

func belowMinimum(session *engine.Session, job *model.Job) bool {
	return session.JobReady(job, framework.Ready) != nil
}

func pending(task *model.Task) bool { return task.Status == model.Pending }

// cycle is one execution of the action.
type cycle struct {
	session *engine.Session
	largest func() model.Resources
	// releasing reports whether any node has capacity that is being released.
	releasing bool
	// budget is what exact searches may still look at, for all jobs together.
	budget int
	// outranking are by queue, the first for jobs in none: priorities of jobs in different queues are not compared. Nil is of a
	// queue of which nothing is known.
	outranking []*outranking
}

// outrankingIn returns what is known of the job's queue.
func (r *cycle) outrankingIn(job *model.Job) *outranking {
	at := 0
	if queue := job.InQueue(); queue != nil {
		at = 1 + queue.Index
	}
	if r.outranking[at] == nil {
		r.outranking[at] = newOutranking()
	}
	return r.outranking[at]
}

// tryMinimum starts the job if its minimum finds capacity, nominates it to capacity that is being released if it needs that,
// and records why it waits otherwise.
func (r *cycle) tryMinimum(job *model.Job) {
	session := r.session
	if !belowMinimum(session, job) {
		return
	}
	if refusal := session.ValidateJob(job); refusal != nil {
		session.Refuse(job, refusal)
		return
	}
	question := engine.Question{Action: Name, Class: job.Class.Placement(), ByFit: !r.releasing}
	refusal := session.Ask(job, model.Idle).Remember(question, r.start)
	if refusal != nil {
		session.Refuse(job, explainReserved(session, job, refusal))
		r.outrankingIn(job).add(job, refusal)
	}
}

// start places the minimum of the job, or nominates it to capacity that is being released. It returns why the job has to wait,
// and for which other jobs that holds.
func (r *cycle) start(ask engine.Ask) (*model.Refusal, engine.Reach) {
	job, trial := ask.Job, place.New(ask, r.largest, &r.budget)
	refusal := r.place(job, trial)
	if refusal == nil {
		return nil, engine.ForNow
	}
	if refusal == engine.Deferred {
		return refusal, engine.ForNow
	}
	if r.releasing && trial.For(ask.On(model.FutureIdle)).Place() == nil {
		return &model.Refusal{
			Code:   model.WaitingForVictims,
			Detail: "starts on capacity that is being released, once it is free; " + refusal.String(),
		}, engine.ForNow
	}
	if trial.BudgetExhausted() {
		refusal = cutShort(r.session, refusal)
	}
	if refusal.Code != model.NoDomainFits && len(refusal.NodeReasons) == 0 || job.Class.Uniform && refusal.Needs != int64(job.MinMember) {
		return refusal, engine.ForJob // it is not nodes, or not their number, that it lacks
	}
	if slices.ContainsFunc(job.Topology, func(shared model.TopologyConstraint) bool { return shared.WaitSeconds > 0 }) {
		return refusal, engine.ForJob // others like it may wait for a domain, and evict nothing as long as they do
	}
	return refusal, engine.ForClass
}

// cutShort returns the refusal of members whose search has used up the budget: with more to spend they might have started, as
// they may in the next cycle.
func cutShort(session *engine.Session, refusal *model.Refusal) *model.Refusal {
	session.SearchCut()
	again := *refusal
	again.Until = session.Snapshot.Now
	return &again
}
