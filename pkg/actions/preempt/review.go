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

// This file asks the reviewers, the plugins that decide in whole plans. A plan to which they agree is decided. From nodes to
// which they object no pod is evicted for the job, and the search begins again without these nodes.

const (
	// reviewsPerJob is about how many plans for one job reviewers are asked in one cycle, reviewsPerCycle about how many in all:
	// they may be webhooks, and all jobs wait for their answers.
	reviewsPerJob   = 32
	reviewsPerCycle = 128
)

// extenderRound is what reviewers have said in this cycle about plans for one job.
//
// Invariant: each plan but the one they agree to adds a node to without, or it is the last.
type extenderRound struct {
	// rounds is about how many plans they were asked.
	rounds int
	// refusal is set when a reviewer refuses all plans, or when a filter has no time left to look at one.
	refusal *model.Refusal
	// until is when filters may say something else of nodes that they refused in the search; zero is never.
	until time.Time
	// roundsExhausted reports that there was a plan which no reviewer could be asked about any more, budgetExhausted that the
	// limit of the cycle was the reason, not that of the job.
	roundsExhausted, budgetExhausted bool
	// without are the nodes from which no pod is evicted, with the name of the reviewer that objects; grown reports that there
	// are more of them than the search knows of.
	without map[string]string
	grown   bool
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

// excluding returns a search for the same job by which some pods stay.
func (s *search) excluding(stays func(*model.Task) bool) *search {
	again := s.newSearch(s.ask, s.pool.excluding(stays))
	again.rounds = s.rounds
	return again
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
	objections, refusal := s.session.ProcessPreemption(s.job, proposals)
	if h.refusal = refusal; refusal != nil || len(objections) == 0 {
		return refusal
	}
	if h.without == nil {
		h.without = map[string]string{}
	}
	for _, o := range objections {
		h.without[o.Node.Name], h.grown = o.By, true
	}
	return undone()
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
		proposal.Violations = int(newPlan(s.guard).violationsWith(&victimUnit{tasks: proposal.Victims}))
		proposals = append(proposals, *proposal)
	}
	return proposals
}
