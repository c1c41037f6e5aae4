package framework

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is Choose and Feasible said straightforwardly: everybody is asked about every node, nothing is remembered. It is
// the measure that tests hold the rankings to; nobody else uses it.

// afresh is everything about one task and all nodes.
type afresh struct {
	candidates []*model.Node
	checks     placement
	scores     []int64
	ruledOut   model.Tally
}

func (s *Session) askAfresh(task *model.Task) (all afresh, refused *model.Refusal) {
	var static placement
	if static.checks, refused = s.checks(task, Static); refused != nil {
		return all, refused
	}
	for _, node := range s.Snapshot.Nodes {
		refusal := node.Refused
		if refusal == nil {
			refusal = static.check(node)
		}
		all.ruledOut.Count(refusal)
		if refusal == nil {
			all.candidates = append(all.candidates, node)
		}
	}
	for _, scope := range []Scope{Local, Global} {
		checks, refused := s.checks(task, scope)
		if refused != nil {
			return all, refused
		}
		all.checks.checks = append(all.checks.checks, checks...)
	}
	all.scores = make([]int64, len(all.candidates))
	for _, scope := range []Scope{Static, Local, Global} {
		for _, score := range s.scores(task, scope, all.candidates) {
			addScore(all.scores, score, all.candidates)
		}
	}
	return all, nil
}

func (s *Session) chooseAfresh(
	task *model.Task, room model.Room, within func(*model.Node) bool,
) (best *model.Node, why *model.Tally) {
	why = &model.Tally{}
	all, refused := s.askAfresh(task)
	if len(s.Snapshot.Nodes) == 0 && refused == nil {
		refused = noNodes()
	}
	if refused != nil {
		why.CountAll(refused, len(s.Snapshot.Nodes))
		return nil, why
	}
	why.Merge(&all.ruledOut)
	var bestScore int64
	for i, node := range all.candidates {
		refusal := all.checks.check(node)
		if lacking := s.Snapshot.Dimensions.Lacking(node, task.Request, room); lacking >= 0 {
			if refusal = s.tellLack(task, node, lacking, room); refusal == nil {
				refusal = s.lacking(lacking)
			}
		}
		why.Count(refusal)
		if refusal == nil && (within == nil || within(node)) && (best == nil || all.scores[i] > bestScore) {
			best, bestScore = node, all.scores[i]
		}
	}
	return best, why
}

func (s *Session) feasibleAfresh(task *model.Task, room model.Room) (nodes []*model.Node) {
	all, refused := s.askAfresh(task)
	if refused != nil {
		return nil
	}
	for _, node := range all.candidates {
		if node.Lacking(task.Request, room) < 0 && all.checks.check(node) == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
