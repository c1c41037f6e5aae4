package place

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Placer tries to find capacity for one job's minimum, as one question puts it.
type Placer struct {
	session *engine.Session
	job     *model.Job
	ask     engine.Ask
	// members are the waiting tasks in the order to place them.
	members []*model.Task
	kinds   *equivalenceClasses
	// sliced are the members of the minimum that are in slices, as of the start of the current Place.
	sliced []slicedMembers
	// tries is how many domains were chosen by the current Place.
	tries int
	// budget is how many nodes searches may still visit for this job, overall how many for all jobs together.
	budget  int
	overall *int
	// cut is set when a search failed because other jobs had used up the budget; it is that of the first Placer, for all questions.
	cut   bool
	first *Placer
	// incomplete is set when not all domains were tried.
	incomplete bool
	// searched is set when the current Place has tried every combination of members and nodes, or knows that none suffices.
	searched bool
}

// New returns a Placer of the waiting members of the job that is asked about, of its priority, in the session's present state.
// largest is what Largest returns for the snapshot; budget is how many nodes exact searches may still visit, shared by all jobs.
func New(ask engine.Ask, largest func() model.Resources, budget *int) *Placer {
	t := placerFor(ask)
	t.kinds = newKinds(ask.Job.Candidates())
	t.members, t.overall, t.first = order(t.session, t.job, t.kinds, largest), budget, t
	return t
}

// placerFor returns a Placer that knows no members.
func placerFor(ask engine.Ask) *Placer {
	return &Placer{session: ask.Session(), job: ask.Job, ask: ask}
}

// For returns the Placer for another question about the job.
func (t *Placer) For(ask engine.Ask) *Placer {
	other := *t
	other.ask, other.job = ask, ask.Job
	return &other
}

// Members are the waiting tasks in the order to place them. They must not be changed.
func (t *Placer) Members() []*model.Task { return t.members }

// BudgetExhausted reports whether Place failed only because other jobs had used up the budget, for this question or another one
// about the job.
func (t *Placer) BudgetExhausted() bool { return t.first.cut }

// Place places members until every gate agrees. If they prefer to share a domain and one has capacity for the job's minimum,
// there. Otherwise each member takes its best node. If that fails and members must share domains, domain by domain, so that a
// small first choice does not make a feasible gang fail. If they are few and affect each other, in every combination. The
// refusal is that of the free choice, which the user would expect; the session is then as before. On capacity that is still being
// released members are nominated, not placed. Nodes that the job avoids are used last.
func (t *Placer) Place() *model.Refusal {
	if avoiding, has := t.ask.Avoiding(); has && t.For(avoiding).place() == nil {
		return nil
	}
	return t.place()
}

func (t *Placer) place() *model.Refusal {
	t.ask = t.ask.Supposing(t.ask.As)
	t.tries, t.budget, t.searched, t.incomplete = 0, searchBudget, false, false
	var lacking *model.Refusal
	if len(t.job.Topology) > 0 {
		var placed, possible bool
		if placed, possible, lacking = t.placeByTopology(); placed || !possible {
			return lacking
		}
	}
	var refusal *model.Refusal
	anywhere := func() bool {
		refusal = t.placeAnywhere()
		return refusal == nil
	}
	switch {
	case t.placeInRankOrder(anywhere):
		return nil
	case lacking == nil:
		return refusal
	case t.triedAll():
		return lacking
	default:
		return lacking.WithNote(notAllTried)
	}
}

// placeAnywhere places members wherever filters let them, and where affinity wants them. The refusal is that of the free choice.
func (t *Placer) placeAnywhere() *model.Refusal {
	if t.placeColocated() {
		return nil
	}
	refusal := t.session.Try(func(statement *engine.Statement) *model.Refusal {
		return t.placeInOrder(statement, t.members, nil)
	})
	if refusal == nil {
		return nil
	}
	if ties := t.requiredColocations(); len(ties) > 0 && t.placeTied(ties, nil) || t.placeExhaustively() {
		return nil
	}
	return refusal
}

// spend takes visited nodes off the budget.
func (t *Placer) spend(looks int) {
	t.budget -= looks
	*t.overall -= looks
}

// hasBudget reports whether budget is left, and records when other jobs used it up.
func (t *Placer) hasBudget() bool {
	t.first.cut = t.first.cut || t.budget > 0 && *t.overall <= 0
	return t.budget > 0 && *t.overall > 0
}

// NominationsSuffice reports whether the job's nominations of an earlier cycle still suffice for it to start, once the
// terminating pods are gone. It changes nothing in the session.
//
// While evicted pods are still terminating, a nominated node may have lost the label of a level that members share.
func (t *Placer) NominationsSuffice() bool {
	ahead := t.For(t.ask.On(model.FutureIdle))
	return ahead.nominationsStand() || len(t.job.Topology) > 0 && victimsRemain(t.session.Snapshot, t.job) &&
		ahead.overlooking().nominationsStand()
}

// overlooking returns the Placer that overlooks labels which nodes kept for the job have lost.
func (t *Placer) overlooking() *Placer {
	as := t.ask.As
	as.LostMarks = true
	return t.For(t.ask.Supposing(as))
}

func (t *Placer) nominationsStand() bool {
	stands := false
	t.session.Try(func(statement *engine.Statement) *model.Refusal {
		for _, task := range t.members {
			if task.Nominated == "" || task.Invalid != nil {
				continue
			}
			there := func(node *model.Node) bool { return node.Name == task.Nominated }
			if node := t.ask.Best(task, there); node != nil {
				statement.Put(t.ask, task, node)
			}
		}
		stands = t.session.JobReady(t.job, framework.Pipelined) == nil
		return &model.Refusal{} // undo: only the result counts
	})
	return stands
}

// placeInOrder places the members in order until every gate agrees. A member that does not fit is skipped, since another one
// may fit; the refusal of the first of them is the reason when the gates do not agree in the end.
func (t *Placer) placeInOrder(
	statement *engine.Statement, members []*model.Task, within regions,
) *model.Refusal {
	if t.ask.Kind == model.Idle && !t.ask.As.ByNumbers && len(members) > 1 && countDevices(members) {
		if lacking := t.lacking(members, within); lacking != nil {
			return lacking
		}
	}
	readiness := t.readiness()
	var reason *model.Refusal
	evictable := false // whether an eviction could help any member without a place
	hopeless := map[model.Shape]bool{}
	short := int64(0) // how many more must be placed before the gates can agree
	for i, task := range members {
		if short <= 0 {
			gate := t.session.JobReady(t.job, readiness)
			if gate == nil {
				return nil
			}
			short = gate.Needs - gate.Has
		}
		if reason != nil && len(within) > 0 && int64(len(members)-i) < short {
			return reason // the refusal of one domain is not reported
		}
		if hopeless[task.Shape] {
			continue
		}
		refusal := task.Invalid
		if refusal == nil {
			refusal = t.placeTask(statement, task, within)
		}
		if refusal != nil {
			// A defect of one pod says nothing about others of its shape.
			hopeless[task.Shape] = hopeless[task.Shape] ||
				task.Invalid == nil && (t.ask.Rests(task, engine.OnShape) || !t.ask.HasRoom(task))
			reason, evictable = firstRefusal(reason, refusal), evictable || refusal.Evictable
			continue
		}
		short--
	}
	gate := t.session.JobReady(t.job, readiness)
	if gate == nil || reason == nil || gate.Needs == 0 && t.job.FirstUnmetMinimum(readiness.Counts) == nil {
		return gate // a gate that refuses although the minimum is placed says itself why
	}
	return t.explain(readiness, gate, reason, evictable)
}

// countDevices reports whether devices have to be reserved for members, and the numbers of nodes say where there are any.
func countDevices(members []*model.Task) bool {
	asks := func(task *model.Task) bool { return task.Devices != nil || task.MayUseDeviceClass }
	return slices.ContainsFunc(members, asks) && !slices.ContainsFunc(members, (*model.Task).SearchesDevices)
}

// lacking returns why members cannot start by the numbers of nodes alone, nil when they can. Else devices would be reserved for
// the members that have places, and given back since others have none: that takes most of the time of a cycle.
func (t *Placer) lacking(members []*model.Task, within regions) (refusal *model.Refusal) {
	as := t.ask.As
	as.ByNumbers = true
	t.session.Try(func(statement *engine.Statement) *model.Refusal {
		refusal = t.For(t.ask.Supposing(as)).placeInOrder(statement, members, within)
		return &model.Refusal{} // undo: only the result counts
	})
	return refusal
}

// maxPassedOver is how many nodes a member is tried on whose numbers say that it fits, and which turn out not to have what it
// needs when that is reserved.
const maxPassedOver = 8

// placeTask places or nominates a member. Where volumes or devices of a node cannot be reserved although its numbers say so, the
// next best node is tried.
func (t *Placer) placeTask(
	statement *engine.Statement, task *model.Task, within regions,
) *model.Refusal {
	if refusal := t.ask.OverLimit(task); refusal != nil {
		return refusal
	}
	var last *model.Node
	var refused *model.Refusal
	for range maxPassedOver {
		node, why := t.choose(task, within)
		if node == nil {
			return why
		}
		if node == last {
			return refused
		}
		if refused = statement.Put(t.ask, task, node); refused == nil {
			return nil
		}
		last = node
	}
	cut := *refused
	cut.Detail = fmt.Sprintf("%d nodes with capacity for it have refused it, and no others were tried; the last one: %s", maxPassedOver, refused.Detail)
	return &cut
}

// choose returns the best node for a member; nil and why when there is none.
func (t *Placer) choose(task *model.Task, within regions) (*model.Node, *model.Refusal) {
	if list, confined := within.of(t.kinds, task); confined {
		t.charge(placingCost + len(list)/domainDiscount)
		return t.ask.BestOf(task, list), noneOfDomain
	}
	t.charge(placingCost + len(t.session.Snapshot.Nodes)/domainDiscount)
	if node := t.selectBeside(task); node != nil {
		return node, nil
	}
	node, tally := t.ask.BestOrWhy(task, nil)
	if node == nil {
		return nil, tally.Refusal(0, 0, task.Role)
	}
	return node, nil
}

// readiness is what the gates are asked for.
func (t *Placer) readiness() framework.Readiness {
	if t.ask.Kind == model.FutureIdle {
		return framework.Pipelined
	}
	return framework.Ready
}

// explain turns the refusal of one member into the job's: how many the gate needs, how many of them fit, and why the first of
// the others did not.
func (t *Placer) explain(
	readiness framework.Readiness, gate, member *model.Refusal, evictable bool,
) *model.Refusal {
	whole := *member
	whole.Evictable = evictable
	if len(member.NodeReasons) == 0 {
		return &whole
	}
	if !sameShape(t.members) {
		whole.Unmet = ""
	}
	whole.Needs, whole.Has = gate.Needs, gate.Has
	if whole.Needs == 0 {
		whole.Needs, whole.Has = int64(t.job.MinMember), int64(t.job.Count(readiness.Counts))
	}
	switch {
	case gate.Needs != 0 && gate.Detail != "":
		whole.Detail = gate.Detail
	case whole.Detail != "":
		whole.Detail = "no capacity for role " + whole.Detail
	}
	return &whole
}

// firstRefusal returns the first, or the second when there is no first.
func firstRefusal[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}
