package engine

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is BestOrWhy and All in the plainest form: every plugin is asked about every node. Rankings are compared with it.

// uncached is everything about one task and all nodes.
type uncached struct {
	candidates []*model.Node
	checks     nodeQuery
	scores     []int64
	ruledOut   model.NodeDiagnosis
}

func (a *Ask) evaluateUncached(task *model.Task) (all uncached, refused *model.Refusal) {
	a.open()
	s := a.session
	var static nodeQuery
	if static.checks, refused = s.checks(task, framework.NodeOnly); refused != nil {
		return all, refused
	}
	for _, node := range s.Snapshot.Nodes {
		refusal := node.Invalid
		if refusal == nil {
			refusal = static.check(node)
		}
		all.ruledOut.Add(refusal)
		if refusal == nil {
			all.candidates = append(all.candidates, node)
		}
	}
	if all.checks.checks, refused = s.checks(task, framework.NodeWithPods); refused != nil {
		return all, refused
	}
	checks, refused := a.checks(task)
	if refused != nil {
		return all, refused
	}
	all.checks.checks = append(all.checks.checks, checks...)
	all.scores = make([]int64, len(all.candidates))
	for _, scope := range []framework.FilterScope{framework.NodeOnly, framework.NodeWithPods, framework.ClusterWide} {
		for _, score := range s.scores(task, scope, all.candidates) {
			if score.BrokenDomains {
				score.Score = s.brokenPoints()
			}
			addScore(all.scores, score, all.candidates)
		}
	}
	return all, nil
}

// brokenPoints returns the score of BrokenDomains.
func (s *Session) brokenPoints() func(*model.Node) int64 {
	levels := s.declaredLevels()
	for _, level := range levels {
		level.updateUsed(s.Snapshot)
	}
	return func(node *model.Node) (sum int64) {
		for _, level := range levels {
			if !level.isWhole(node.Index) {
				sum += pointsPerLevel
			}
		}
		return sum
	}
}

func (a *Ask) chooseUncached(task *model.Task, within func(*model.Node) bool) (best *model.Node, why *model.NodeDiagnosis) {
	s, why := a.session, &model.NodeDiagnosis{}
	all, refused := a.evaluateUncached(task)
	if len(s.Snapshot.Nodes) == 0 && refused == nil {
		refused = noNodes()
	}
	if refused != nil {
		why.AddN(refused, len(s.Snapshot.Nodes))
		return nil, why
	}
	why.Merge(&all.ruledOut)
	var bestScore int64
	for i, node := range all.candidates {
		refusal := all.checks.check(node)
		if lacking := s.Snapshot.Dimensions.For(task).InsufficientResource(node.Free(a.Kind), task.Request); lacking >= 0 {
			if refusal = s.explainShortage(task, node, lacking, a.Kind); refusal == nil {
				refusal = s.lacking(task, lacking, hasNone(node, lacking))
			}
		}
		why.Add(refusal)
		if refusal == nil && (within == nil || within(node)) && (best == nil || all.scores[i] > bestScore) {
			best, bestScore = node, all.scores[i]
		}
	}
	return best, why
}

func (a *Ask) feasibleUncached(task *model.Task) (nodes []*model.Node) {
	all, refused := a.evaluateUncached(task)
	if refused != nil {
		return nil
	}
	for _, node := range all.candidates {
		if node.Free(a.Kind).Fits(task.Request) && all.checks.check(node) == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
