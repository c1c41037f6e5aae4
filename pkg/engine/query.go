package engine

import (
	"slices"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file asks plugins and the engine about a task and its candidates: what must hold of a node, and how it is liked.

// nodeQuery is a set of questions about a task and its candidates.
type nodeQuery struct {
	session *Session
	checks  []framework.NodeFilterFunc
	// perNode are scores that need no bounds; they are asked only about nodes that pass.
	perNode []framework.NodeScore
	// bounded are the weighted scores that were normalised over all candidates, by candidate.
	bounded []int64
}

// rank adds how the candidates are liked, in addition to what the ranking knows.
func (a *Ask) rank(known *asked, task *model.Task) {
	candidates := known.answer.candidates
	known.addPlugin(known.order.bounded, candidates)
	known.addPlugin(a.session.scores(task, framework.ClusterWide, candidates), candidates)
}

func (p *nodeQuery) addPlugin(scores []framework.NodeScore, candidates []*model.Node) {
	for _, score := range scores {
		if score.Normalization == framework.NormalizeNone {
			p.perNode = append(p.perNode, score)
			continue
		}
		if p.bounded == nil {
			p.bounded = make([]int64, len(candidates))
		}
		addScore(p.bounded, score, candidates)
	}
}

func (p *nodeQuery) isEmpty() bool { return len(p.checks) == 0 && !p.scores() }

// scores reports whether the order of the nodes depends on the answers.
func (p *nodeQuery) scores() bool { return len(p.perNode) > 0 || p.bounded != nil }

func (p *nodeQuery) check(node *model.Node) *model.Refusal {
	for _, check := range p.checks {
		if refusal := check(node); refusal != nil {
			if !refusal.Until.IsZero() {
				p.session.Until(refusal.Until)
			}
			return refusal
		}
	}
	return nil
}

func (p *nodeQuery) score(node *model.Node) int64 {
	var sum int64
	for i := range p.perNode {
		sum += p.perNode[i].Weight * p.perNode[i].Score(node)
	}
	return sum
}

func (p *nodeQuery) bound(candidate int) int64 {
	if p.bounded == nil {
		return 0
	}
	return p.bounded[candidate]
}

// addScore adds one score, weighted and normalised over the candidates, to their sums.
func addScore(sums []int64, score framework.NodeScore, candidates []*model.Node) {
	raw := make([]int64, len(candidates))
	for i, node := range candidates {
		raw[i] = score.Score(node)
	}
	normalize(raw, score.Normalization)
	for i := range raw {
		sums[i] += score.Weight * raw[i]
	}
}

// checks returns what the plugins want to hold of a node for the task. The answer rests on those about the whole cluster.
func (s *Session) checks(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	var all []framework.NodeFilterFunc
	for _, filter := range s.slots.nodeFilter {
		start := s.start()
		checks, refusal := filter.PreFilter(task, scope)
		s.stop(filter, config.NodeFilter, start)
		if scope == framework.ClusterWide && (len(checks) > 0 || refusal != nil) {
			s.narrow(grounds{reach: reachOf(filter, task)})
		}
		if refusal != nil {
			s.Until(refusal.Until)
			return nil, refusal
		}
		all = append(all, s.timedChecks(filter, checks)...)
	}
	return all, nil
}

// reachOf returns which jobs a verdict holds for in which a filter's global checks have a part.
func reachOf(filter framework.NodeFilter, task *model.Task) Reach {
	if knows, ok := filter.(framework.SnapshotOnlyFilter); ok && knows.DependsOnSnapshotOnly(task) {
		return ForJob
	}
	return ForNow
}

// scores returns how the plugins like candidates for the task.
func (s *Session) scores(task *model.Task, scope framework.FilterScope, candidates []*model.Node) []framework.NodeScore {
	var all []framework.NodeScore
	for _, scorer := range s.slots.nodeScore {
		start := s.start()
		scores := scorer.PreScore(task, scope, candidates)
		s.stop(scorer, config.NodeScore, start)
		if scope == framework.ClusterWide && len(scores) > 0 {
			s.narrow(grounds{reach: ForJob})
		}
		all = append(all, s.timedScores(scorer, scores)...)
	}
	return all
}

// PrefersColocation reports whether gangs whose members prefer to share a domain are to be gathered in one.
func (s *Session) PrefersColocation() bool {
	return slices.ContainsFunc(s.slots.nodeScore, func(scorer framework.NodeScorer) bool {
		gatherer, ok := scorer.(framework.Colocation)
		return ok && gatherer.PrefersColocation()
	})
}
