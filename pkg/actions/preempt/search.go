package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// search looks for the victims of one job.
type search struct {
	*run
	job *model.Job
	// ask is the question that the search answers; of the search in one domain it supposes that the job starts there.
	ask   engine.Ask
	pool  *candidateVictims
	trial *place.Placer
	// rounds is what extenders have said about plans for the job.
	rounds *extenderRound
	// plain reports that shape and capacity alone decide where members may go, uniform that they also are all of one shape,
	// limited that what the queue of the job holds is limited: then pods may have to go that are on no node of a member.
	plain, uniform, limited bool
	// nodes are those by index that are searched, nil for all.
	nodes []int
	// touchedBy are the jobs that plans took victims from.
	touchedBy []*victimJob
}

// memberPlacement is a place for one member.
type memberPlacement struct {
	task *model.Task
	node *model.Node
}

// undone is the refusal that takes back what was done to answer a question.
func undone() *model.Refusal { return &model.Refusal{} }

func (r *run) newSearch(ask engine.Ask, pool *candidateVictims) *search {
	s := &search{
		run: r, job: ask.Job, ask: ask, pool: pool, trial: place.New(ask, r.largest, &r.placementBudget), rounds: &extenderRound{},
		limited: ask.Job.InQueue().Limited(),
	}
	s.compareMembers()
	return s
}

// compareMembers sets what the members have in common, as the session stands.
func (s *search) compareMembers() {
	members := s.trial.Members()
	s.plain = !slices.ContainsFunc(members, func(task *model.Task) bool { return !s.ask.Rests(task, engine.OnShape) })
	s.uniform = s.plain && !slices.ContainsFunc(members, func(task *model.Task) bool {
		return task.Shape != members[0].Shape || task.Role != members[0].Role || task.Invalid != nil
	})
}

// find returns the plan, nil when there is none, and the domain of the victims, in which the job starts; zero where they are
// anywhere.
func (s *search) find() (*plan, engine.Start) {
	shared := s.trial.Unsettled()
	if shared == nil {
		return s.findOnNodes(), engine.Start{}
	}
	inside, start, all := s.searchDomains(shared)
	if !s.limited && (inside != nil || all) || inside != nil && s.session.ValidateJob(s.job) == nil {
		return inside, start
	}
	// Its limit may keep the job waiting, not capacity in a domain; or there are too many domains.
	if anywhere := s.findOnNodes(); anywhere.isCheaperThan(inside) {
		return anywhere, engine.Start{}
	}
	return inside, start
}

// findOnNodes returns the plan on the nodes that are searched: each unit first on one node, then, where that may cost less, from
// anywhere, and at last with units exchanged.
func (s *search) findOnNodes() *plan {
	found := s.reprieve(s.searchGreedy())
	if !found.breaks() && (s.onOneNode(found) || !s.mayCostLess(found)) {
		return found
	}
	if !s.uniform || found.breaks() || found == nil && (s.limited || s.pool.claim != nil) {
		if anywhere := s.reprieve(s.searchClusterWide()); anywhere.isCheaperThan(found) {
			found = anywhere
		}
	}
	if found = s.exchange(found); found.breaks() {
		return nil
	}
	return found
}

// allows reports whether the job has a right to the units, as the session stands: they are gone, and the members have their
// places.
func (s *search) allows(units []victimUnit) bool {
	return s.pool.claim == nil || len(units) == 0 || s.pool.claim.Allows(evictionUnits(units))
}

func evictionUnits(units []victimUnit) []framework.EvictionUnit {
	all := make([]framework.EvictionUnit, len(units))
	for i := range units {
		all[i] = *units[i].evictionUnit()
	}
	return all
}

// whyNot returns why the job cannot start when all units of a plan leave, or has no right to it; nil when it can. Then the plan
// has the places.
func (s *search) whyNot(p *plan) (why *model.Refusal) {
	for i := range p.units {
		s.spend(len(p.units[i].tasks))
	}
	s.spend(s.placementCost())
	s.session.Try(func(statement *engine.Statement) *model.Refusal {
		if why = s.evict(statement, p.units...); why == nil {
			why = s.trial.Place()
		}
		if why == nil && !s.allows(p.units) {
			why = &model.Refusal{Code: model.InsufficientResources}
		}
		if why == nil {
			p.places = s.pipelined()
		}
		return undone()
	})
	if why != nil {
		s.rounds.until = model.Sooner(s.rounds.until, why.Until)
	}
	return why
}

// placementCost is what a placement costs in looks at nodes: one for each member, or more where each is asked about all nodes.
func (s *search) placementCost() int {
	members := len(s.trial.Members())
	if s.plain {
		return members
	}
	return members * max(1, len(s.session.Snapshot.Nodes)/8)
}

// decide carries the plan out; false when an extender objects, or a filter has no more time.
func (s *search) decide(p *plan) bool {
	if len(s.policy.pick(s.session, s.job, evictionUnits(p.units))) < len(p.units) { // asked before about the first of its priority
		return false
	}
	sortUnits(p.units)
	refusal := s.session.Try(func(statement *engine.Statement) *model.Refusal {
		if refusal := s.evict(statement, p.units...); refusal != nil {
			return refusal
		}
		if refusal := s.trial.Place(); refusal != nil {
			if !refusal.Until.IsZero() && !s.trial.BudgetExhausted() { // of the places that it found, time may have chosen some
				s.rounds.refusal = refusal
				return refusal
			}
			if refusal := s.takePlaces(statement, p.places); refusal != nil {
				return refusal
			}
		}
		return s.review(p)
	})
	if refusal != nil {
		return false
	}
	for i := range p.covered {
		s.guard.used[i] += p.covered[i]
	}
	s.removeEvicted(p.units)
	for _, u := range p.units {
		waits := func(task *model.Task) bool { return task.Status == model.Pending }
		if job := u.of.job; job != nil && slices.ContainsFunc(job.Tasks, waits) && s.session.JobReady(job, framework.Ready) != nil {
			s.session.Defer(job) // its minimum waits from now on: a lower job must not start on what it may get
		}
	}
	s.evictions = s.session.Evictions()
	s.planned[s.job.Key] = len(p.units) > 0 || s.session.HoldsNominations(s.job)
	waits := place.WaitingForVictims(s.session.Snapshot, s.job)
	if len(p.units) == 0 { // others have left capacity over since it was refused
		waits.Detail = "starts on capacity that is being released, once it is free; " + s.session.Refusal(s.job).String()
	}
	s.session.Refuse(s.job, waits)
	return true
}

// takePlaces nominates the members to the places that the search has found for them.
func (s *search) takePlaces(statement *engine.Statement, places []memberPlacement) *model.Refusal {
	for _, member := range places {
		if refusal := statement.Put(s.ask, member.task, member.node); refusal != nil {
			return refusal
		}
	}
	return s.session.JobReady(s.job, framework.Pipelined)
}

// overLimit returns why a queue would hold more than its limit with the members where they are nominated; nil when none would.
func (s *search) overLimit() *model.Refusal {
	if !s.limited {
		return nil
	}
	for _, task := range s.trial.Members() {
		if !isPipelined(task) {
			continue
		}
		if refusal := s.ask.OverLimit(task); refusal != nil || s.uniform {
			return refusal
		}
	}
	return nil
}

// markDirty makes the cost heaps compute again the nodes of every job that a search took victims from.
func (r *run) markDirty(s *search) {
	for _, of := range s.touchedBy {
		if of.job == nil {
			continue
		}
		for _, task := range of.tasks {
			if node := r.session.Snapshot.Node(task.Node); node != nil {
				r.touched = append(r.touched, node)
			}
		}
	}
}
