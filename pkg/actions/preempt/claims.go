package preempt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the same planning for an action that evicts pods of other queues. What differs is which pods may go and what they
// cost, which the claims of the session say, and that jobs have their turns in the order of queues.

// Rules are what such an action has of its own.
type Rules interface {
	// Name is the action's; reasons begin with it.
	Name() string
	// SparedUntil returns until when a unit is left alone although a claim by that right takes it, in seconds since 1970.
	SparedUntil(unit *framework.EvictionUnit, right model.Right, now int64) int64
}

// Planner is an action of which the name is missing.
type Planner interface {
	Execute(session *engine.Session)
	MayPreempt(session *engine.Session, job *model.Job) bool
	Resume(session *engine.Session, deferred []*model.Job)
	framework.CacheResetter
}

// NewPlanner returns what plans by such rules.
func NewPlanner(options Options, rules Rules) Planner {
	return &action{options: options, rules: rules}
}

// planForQueues gives each of the refused jobs its turn, in the order of queues, which every plan changes.
func (a *action) planForQueues(session *engine.Session, candidates []*model.Job) {
	if len(session.Snapshot.Queues) == 0 {
		return
	}
	r := a.runOf(session)
	for _, left := range a.rounds(session, deferBehind(session, refused(session, candidates))) {
		had := map[*model.Job]bool{}
		for len(left) > 0 {
			for job := range session.InOrder(left) {
				had[job] = true
				f := r.planFor(job)
				if f == nil {
					break
				}
				a.fail(r, f)
			}
			left = slices.DeleteFunc(left, func(job *model.Job) bool { return had[job] })
		}
	}
	for _, f := range r.failures {
		if f.same != nil {
			f.why, f.blockedByBudgets, f.blockedByProtected = f.same.why, f.same.blockedByBudgets, f.same.blockedByProtected
		}
		refusal := session.Refusal(f.job).WithNote(r.rules.Name() + ": " + f.why)
		refusal.Until = model.Sooner(refusal.Until, f.until)
		refusal.BlockedByBudgets = refusal.BlockedByBudgets || f.blockedByBudgets
		refusal.BlockedByProtected = f.blockedByProtected
		session.Refuse(f.job, refusal)
	}
	r.failures = nil
}

// planByClaims looks for a plan by each right of the job, and by one alone, with what gives way to it.
func (r *run) planByClaims(f *failure) (failed *failure) {
	claims, why := r.session.Claims(f.job)
	if len(claims) == 0 {
		f.why = why
		return f
	}
	r.session.Ask(f.job, model.FutureIdle).TakeReserved(func(ask engine.Ask) bool {
		failed = r.planByEachClaim(f, ask, claims, why)
		return failed == nil
	})
	return failed
}

func (r *run) planByEachClaim(f *failure, ask engine.Ask, claims []framework.Claim, why string) *failure {
	key, shares := r.searchKey(ask)
	if same := r.searched[key]; shares && same != nil {
		f.same = same
		return f
	}
	if r.budget <= 0 {
		r.session.SearchCut()
		f.why, f.skipped, f.until = r.exhausted(), true, r.session.Snapshot.Now
		return f
	}
	var reasons []string
	if why != "" {
		reasons = append(reasons, why)
	}
	var until time.Time
	for i, claim := range claims {
		pool, kept := r.claimPool(f.job, claim)
		if r.search(f, ask, pool, claim) {
			return nil
		}
		if i > 0 && claims[i-1].Right() == claim.Right() {
			reasons = reasons[:len(reasons)-1] // the second claim by a right takes more
		}
		reasons = append(reasons, byRight[claim.Right()]+r.whyNotByClaim(f, claim, kept))
		f.blockedByProtected = f.blockedByProtected || kept.protected > 0 && claim.Right() == model.ByGuarantee
		until = model.Sooner(until, f.until)
	}
	f.until = until
	f.why = strings.Join(reasons, "; ")
	if shares && f.until.IsZero() {
		r.searched[key] = f
	}
	return f
}

var byRight = map[model.Right]string{model.ByGuarantee: "by its guarantee ", model.ByShare: "by its share "}

// keptUnits are all units that were looked at for a claim, and how many that it takes stay: those left alone for now, and those
// that are never evicted.
type keptUnits struct {
	spared, protected int
	all               []framework.EvictionUnit
	// stays is why each of them stays that the claim takes; of one that may go, what can still be in the way.
	stays []string
}

func (k keptUnits) String() (words string) {
	if k.spared > 0 {
		words = fmt.Sprintf(", %d more once they have run for long enough", k.spared)
	}
	if k.protected > 0 {
		words += fmt.Sprintf(", %d more are never evicted", k.protected)
	}
	return words
}

// claimPool returns the units of other queues that a claim takes.
func (r *run) claimPool(job *model.Job, claim framework.Claim) (p *candidateVictims, kept keptUnits) {
	p = &candidateVictims{of: map[*model.Task]*victimJob{}, byJob: map[*model.Job]*victimJob{}}
	r.inQueueOf(job)
	for _, queue := range r.session.Snapshot.Queues {
		if !claim.From(queue) {
			continue
		}
		for _, other := range r.byQueue[queue.Name] {
			if s := r.victimJobOf(other); s != nil {
				s.claim = claim
				p.sources = append(p.sources, s)
			}
		}
	}
	now := r.session.Snapshot.Now.Unix()
	for _, s := range p.sources {
		r.spend(len(s.tasks))
	}
	kept.all = p.units()
	kept.stays = make([]string, len(kept.all))
	picked, units := r.session.ReclaimVictims(job, kept.all), []framework.EvictionUnit(nil)
	for i := range kept.all {
		unit := &kept.all[i]
		may := len(picked) > 0 && picked[0].WholeGang == unit.WholeGang && picked[0].Tasks[0] == unit.Tasks[0]
		if may { // the picked are some of them, in their order
			picked = picked[1:]
		}
		if !claim.Takes(unit, nil) {
			continue
		}
		until := now
		if may {
			until = r.rules.SparedUntil(unit, claim.Right(), now)
		}
		switch {
		case !may:
			kept.protected++
			kept.stays[i] = "never evicted"
		case until > now:
			kept.spared++
			kept.stays[i] = "that have not run for long enough yet"
			r.session.Until(time.Unix(until, 0))
		default:
			kept.stays[i] = "protected by disruption budgets"
			units = append(units, *unit)
		}
	}
	p.keep(units)
	p.index()
	return p, kept
}

// whyNotByClaim says why the last search of a job has found no plan: how much there is to take, or what else is in the way.
func (r *run) whyNotByClaim(f *failure, claim framework.Claim, kept keptUnits) string {
	switch {
	case f.skipped || f.why != "":
		why := f.why
		f.why = ""
		return why + kept.String()
	case f.search.pool.pods == 0:
		return "there is nothing to take: " + claim.Keeps(kept.all, kept.stays)
	}
	s := f.search
	most := newPlan(s.guard, s.claim)
	for _, u := range s.unitsByCost() {
		if !s.guard.strict || most.violationsWith(&u) == 0 {
			most.extend(u)
		}
	}
	verdict := s.explainProtected()
	switch {
	case verdict.BlockedByBudgets:
		f.blockedByBudgets = true
		return verdict.Detail + kept.String()
	case len(most.units) == 0:
		return "there is nothing to take: " + claim.Keeps(kept.all, kept.stays)
	}
	return s.describeTaken(most) + kept.String()
}

// describeTaken says how much a plan takes of what the job lacks, and from which queues.
func (s *search) describeTaken(p *plan) string {
	var queues, amounts []string
	taken := model.Resources{}
	for _, queue := range s.session.Snapshot.Queues {
		if lost := p.lost[queue]; len(lost) > 0 {
			queues = append(queues, fmt.Sprintf("%q", queue.Name))
			taken.Add(lost)
		}
	}
	members, enough := int(s.job.MinMember)-s.job.Count(framework.Ready.Counts), ", and could not start"
	for r := range s.session.Snapshot.Dimensions.Len() {
		needs := model.LeastRequest(s.job, members, r)
		if needs == 0 || r == model.Pods {
			continue
		}
		if taken.At(r) < needs {
			enough = ""
		}
		dimensions := s.session.Snapshot.Dimensions
		number, _, _ := strings.Cut(dimensions.FormatAmount(r, min(taken.At(r), needs)), " ")
		amounts = append(amounts, number+" of "+dimensions.FormatAmount(r, needs))
	}
	return fmt.Sprintf("it could take %s from %s%s", strings.Join(amounts, ", "), strings.Join(queues, ", "), enough)
}
