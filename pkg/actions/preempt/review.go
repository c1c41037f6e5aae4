package preempt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file asks the reviewers, the plugins that decide in whole plans. A plan to which they agree is decided. If they would
// have other victims on some nodes, that is a plan if the engine and the budgets allow it and the job starts by it, and they
// are asked about it once more; no pod is evicted that neither the search nor they have named. Else no pod is evicted from
// these nodes for the job, and the search begins again without them.

const (
	// reviewsPerJob is about how many plans for one job reviewers are asked in one cycle, reviewsPerCycle about how many in all:
	// they may be webhooks, and all jobs wait for their answers.
	reviewsPerJob   = 32
	reviewsPerCycle = 128
)

// extenderRound is what reviewers have said in this cycle about plans for one job.
//
// Invariant: each plan but the one they agree to adds a node to without, or one to altered, which is there only once; or it is
// the last.
type extenderRound struct {
	// rounds is about how many plans they were asked.
	rounds int
	// objections are what they have against the last plan; refusal says that there shall be none, whichever, or that a filter
	// cannot look at it any more.
	objections []framework.VictimRejection
	refusal    *model.Refusal
	// until is when filters may say something else of nodes that they refused in the search; zero is never.
	until time.Time
	// roundsExhausted reports that there was a plan which no reviewer could be asked about any more, budgetExhausted that the
	// limit of the cycle was the reason, not that of the job.
	roundsExhausted, budgetExhausted bool
	// without are the nodes from which no pod is evicted, with the name of the reviewer that objects; grown reports that there
	// are more of them than the search knows of. altered are the nodes where others leave than the search has chosen.
	without map[string]string
	grown   bool
	altered map[string]bool
}

// excludesMoreNodes tells, once, whether there are nodes to leave alone from now on.
func (h *extenderRound) excludesMoreNodes() bool {
	grown := h.grown
	h.grown = false
	return grown
}

// why says what reviewers have against plans for the job; objected is false when that is nothing.
func (h *extenderRound) why() (why string, objected bool) {
	switch {
	case h.refusal != nil:
		return h.refusal.String(), true
	case h.budgetExhausted:
		return fmt.Sprintf("%d plans were asked about, continues in the next cycle", reviewsPerCycle), true
	case h.roundsExhausted:
		return fmt.Sprintf("none of %d plans was accepted by the extenders", reviewsPerJob), true
	case len(h.without) == 0:
		return "", false
	}
	return "no plan without evictions on " + h.rejections(), true
}

// rejections names the nodes to leave alone, up to a few, and for each of them the plugin that says so.
func (h *extenderRound) rejections() string {
	const few = 3
	byWhom := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(h.without)) {
		byWhom[h.without[node]] = append(byWhom[h.without[node]], node)
	}
	var parts []string
	for _, by := range slices.Sorted(maps.Keys(byWhom)) {
		names := byWhom[by]
		if len(names) > few {
			names = append(names[:few:few], fmt.Sprintf("%d more", len(names)-few))
		}
		parts = append(parts, fmt.Sprintf("%s, to which %s does not agree", strings.Join(names, ", "), by))
	}
	return strings.Join(parts, ", and on ")
}

// excludingNodes returns a search for the same job that evicts no pod from the nodes which the extender round excludes.
func (s *search) excludingNodes() *search {
	again := s.newSearch(s.ask, s.pool.excludingNodes(s.rounds.without), s.claim)
	again.rounds, again.costHeaps = s.rounds, map[heapKey]*nodeCostHeap{}
	return again
}

// applyOrRevise decides a plan, or what reviewers make of it; false when that comes to nothing.
func (s *search) applyOrRevise(p *plan) bool {
	var before []framework.VictimRejection
	for {
		s.rounds.objections = nil
		if s.decide(p) {
			return true
		}
		objections := s.rounds.objections
		if s.rounds.refusal != nil || s.rounds.roundsExhausted {
			return false
		}
		if len(objections) == 0 { // what they have made of the plan before is none
			s.excludeNodes(before)
			return false
		}
		if p = s.revise(p, objections); p == nil {
			s.excludeNodes(objections)
			return false
		}
		before = objections
	}
}

// excludeNodes takes down that no pod shall be evicted from the nodes. Where some are out of the question as they are, the
// objections to others, where only another pod should leave, are for another plan.
func (s *search) excludeNodes(objections []framework.VictimRejection) {
	never := func(o framework.VictimRejection) bool { return len(o.Victims) == 0 || s.rounds.altered[o.Node.Name] }
	some := slices.ContainsFunc(objections, never)
	for _, o := range objections {
		if some && !never(o) {
			continue
		}
		if s.rounds.without == nil {
			s.rounds.without = map[string]string{}
		}
		s.rounds.without[o.Node.Name], s.rounds.grown = o.By, true
	}
}

// revise returns the plan as the objections would have it, nil when that is none. On each node that may be once.
func (s *search) revise(p *plan, objections []framework.VictimRejection) *plan {
	leave := map[*model.Task]bool{}
	for _, u := range p.units {
		for _, task := range u.tasks {
			leave[task] = true
		}
	}
	for _, o := range objections {
		if len(o.Victims) == 0 || s.rounds.altered[o.Node.Name] {
			return nil
		}
		maps.DeleteFunc(leave, func(task *model.Task, _ bool) bool { return task.Node == o.Node.Name })
		for _, task := range o.Victims {
			leave[task] = true
		}
	}
	again := s.planOf(leave)
	if again == nil {
		return nil
	}
	for _, o := range objections {
		if s.rounds.altered == nil {
			s.rounds.altered = map[string]bool{}
		}
		s.rounds.altered[o.Node.Name] = true
	}
	return again
}

// planOf returns the plan by which these tasks leave and no others; nil when they may not, or not together.
func (s *search) planOf(leave map[*model.Task]bool) *plan {
	p := newPlan(s.guard, s.claim)
	left := len(leave)
	for _, from := range s.pool.sources {
		some := slices.DeleteFunc(slices.Clone(from.tasks), func(task *model.Task) bool { return !leave[task] })
		left -= len(some)
		var units []victimUnit
		if from.wholeUnit && len(some) > 0 && len(some) == len(from.tasks) {
			units = []victimUnit{from.wholeOnly}
		} else {
			for i, task := range some {
				if !from.singles[task] {
					return nil
				}
				units = append(units, newUnit(from, some[i:i+1], false))
			}
		}
		for _, u := range units {
			if !p.admits(&u) {
				return nil
			}
			p.add(u)
		}
	}
	if left > 0 {
		return nil
	}
	return p
}

// review asks the reviewers about a plan as the session stands: the victims gone, the members nominated to their places. Nil
// means that they agree, or that there is nothing to ask.
func (s *search) review(p *plan) *model.Refusal {
	if !s.session.HasPreemptionExtender() {
		return nil
	}
	proposals := s.nodeVictims(p)
	if len(proposals) == 0 {
		return nil
	}
	h := s.rounds
	if h.rounds >= reviewsPerJob || s.reviews <= 0 {
		h.roundsExhausted, h.budgetExhausted = true, h.rounds < reviewsPerJob
		return undone()
	}
	h.rounds++
	s.reviews--
	if h.objections, h.refusal = s.session.ProcessPreemption(s.job, proposals); h.refusal != nil {
		return h.refusal
	}
	if len(h.objections) > 0 {
		return undone()
	}
	return nil
}

// nodeVictims returns what the plan does on each node where both a victim leaves and a member of the job is placed.
func (s *search) nodeVictims(p *plan) []framework.NodeVictims {
	byNode := map[string]*framework.NodeVictims{}
	for _, task := range s.trial.Members() {
		if !isPipelined(task) {
			continue
		}
		if byNode[task.Node] == nil {
			byNode[task.Node] = &framework.NodeVictims{Node: s.session.Snapshot.Node(task.Node)}
		}
		byNode[task.Node].Members = append(byNode[task.Node].Members, task)
	}
	for _, u := range p.units {
		for _, task := range u.tasks {
			if proposal := byNode[task.Node]; proposal != nil {
				proposal.Victims = append(proposal.Victims, task)
			}
		}
	}
	var proposals []framework.NodeVictims
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		proposal := byNode[name]
		if len(proposal.Victims) == 0 {
			continue
		}
		slices.SortFunc(proposal.Victims, func(a, b *model.Task) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), model.StartTime(a).Compare(model.StartTime(b)), cmp.Compare(a.UID, b.UID))
		})
		alone := newPlan(s.guard, s.claim)
		alone.markCovered(&victimUnit{tasks: proposal.Victims}, 1)
		proposal.Violations = s.guard.violationsWith(alone.covered)
		proposals = append(proposals, *proposal)
	}
	return proposals
}
