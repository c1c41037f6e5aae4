package preempt

import (
	"cmp"
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

// NewPlanner returns what plans by such rules.
func NewPlanner(options Options, rules Rules) *Planner {
	return &Planner{options: options, policy: byClaims{rules}}
}

// byClaims is the policy of such an action.
type byClaims struct{ Rules }

func (byClaims) mayPreempt(_ *Planner, session *engine.Session, job *model.Job) bool {
	claims, _ := session.Claims(job)
	return len(claims) > 0
}

func (byClaims) pick(session *engine.Session, job *model.Job, units []framework.EvictionUnit) []framework.EvictionUnit {
	return session.ReclaimVictims(job, units)
}

// plan gives each of the refused jobs its turn, in the order of queues, which every plan changes. The guarantees come first: they
// lower the shares of other queues, so that a unit that had been taken by share would be taken back. Jobs without a plan keep
// their nominations: an action behind this one may still plan with them.
func (c byClaims) plan(a *Planner, session *engine.Session, candidates []*model.Job) {
	if len(session.Snapshot.Queues) == 0 {
		return
	}
	r := a.runOf(session)
	for _, left := range a.rounds(session, deferBehind(session, refused(session, candidates))) {
		left = turns(session, left, func(job *model.Job) bool {
			f := &failure{job: job} // is not reported: a job without a plan has another turn, by each right
			return !r.mayNotPlan(f) && c.planBy(r, f, model.ByGuarantee) == nil
		})
		turns(session, left, func(job *model.Job) bool { return a.planFor(r, job) == nil })
	}
	r.report(c.Name(), nil)
}

// turns gives each job its turn and returns those without a plan. Behind each plan the order is another one.
func turns(session *engine.Session, jobs []*model.Job, plan func(*model.Job) bool) (without []*model.Job) {
	for left := slices.Clone(jobs); len(left) > 0; {
		had := map[*model.Job]bool{}
		for job := range session.InOrder(left) {
			if had[job] = true; plan(job) {
				break
			}
			without = append(without, job)
		}
		left = slices.DeleteFunc(left, func(job *model.Job) bool { return had[job] })
	}
	return without
}

// planFor looks for a plan by each right of the job, and by one alone, with what gives way to it.
func (c byClaims) planFor(r *run, f *failure) *failure { return c.planBy(r, f, "") }

// planBy looks for a plan by one right, only; by each right of the job where it is empty.
func (c byClaims) planBy(r *run, f *failure, only model.Right) (failed *failure) {
	claims, why := r.session.Claims(f.job)
	if only != "" {
		claims = slices.DeleteFunc(claims, func(claim framework.Claim) bool { return claim.Right() != only })
	}
	if len(claims) == 0 {
		f.why = why
		return f
	}
	var reasons []string
	if why != "" {
		reasons = append(reasons, why)
	}
	r.session.Ask(f.job, model.FutureIdle).TakeReserved(func(ask engine.Ask) bool {
		failed = r.searchOnce(f, ask, only, func() bool {
			var until time.Time
			for i, claim := range claims {
				pool, kept := c.pool(r, f.job, claim)
				if r.search(f, ask, pool) {
					return true
				}
				if i > 0 && claims[i-1].Right() == claim.Right() {
					reasons = reasons[:len(reasons)-1] // the second claim by a right takes more
				}
				reasons = append(reasons, byRight[claim.Right()]+r.whyNotByClaim(f, claim, kept))
				f.blockedByProtected = f.blockedByProtected || kept.protected > 0 && claim.Right() == model.ByGuarantee
				until = model.Sooner(until, f.until)
			}
			f.until = until
			return false
		})
		return failed == nil
	})
	f.why = cmp.Or(f.why, strings.Join(reasons, "; "))
	return failed
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

// pool returns the units of other queues that a claim takes.
func (c byClaims) pool(r *run, job *model.Job, claim framework.Claim) (p *candidateVictims, kept keptUnits) {
	p = &candidateVictims{claim: claim}
	r.inQueueOf(job)
	for _, queue := range r.session.Snapshot.Queues {
		if !claim.From(queue) {
			continue
		}
		for _, other := range r.byQueue[queue.Name] {
			if s := r.victimJobOf(other); s != nil {
				s.claim = claim
				p.sources = append(p.sources, s)
				r.spend(len(s.tasks))
			}
		}
	}
	now := r.session.Snapshot.Now.Unix()
	kept.all = p.units()
	kept.stays = make([]string, len(kept.all))
	picked, units := c.pick(r.session, job, kept.all), []framework.EvictionUnit(nil)
	for i := range kept.all {
		unit := &kept.all[i]
		may := len(picked) > 0 && picked[0].WholeGang == unit.WholeGang && picked[0].Tasks[0] == unit.Tasks[0]
		if may { // the picked are some of them, in their order
			picked = picked[1:]
		}
		if !claim.Takes(unit, nil) {
			continue
		}
		until := c.SparedUntil(unit, claim.Right(), now)
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
	if why := f.why; f.skipped || why != "" {
		f.why = ""
		return why + kept.String()
	}
	s := f.search
	most := newPlan(s.guard)
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
