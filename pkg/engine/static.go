package engine

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// static is what the node objects say about a shape, whatever runs on them: which are candidates, and their scores.
//
// Invariant: after update it equals what calling all filters and scorers again would give.
type static struct {
	mark model.Cursor
	// version counts how often the answers below changed.
	version uint64
	// refused says that no node can do; nil when some may.
	refused *model.Refusal
	// nodes is the list that was asked about. By its positions: verdicts, nil for a candidate, and scores, weighted and
	// normalised over all candidates; the others are infeasible. Where all nodes have the same score, scores is nil and even is it:
	// for most shapes that is so, and the memory that need not be looked at is the machine's for the accounting.
	nodes    []*model.Node
	verdicts []*model.Refusal
	scores   []int32
	even     int32
	// candidates pass all static checks, by name; positions are where they stand in nodes.
	candidates []*model.Node
	positions  []int
	// ruledOut counts why the other nodes are not candidates.
	ruledOut model.NodeDiagnosis
}

// update brings the answers up to date. Only nodes that are new or changed themselves are checked; the scores are taken
// again for all candidates, since the best of them sets the measure.
func (a *static) update(s *Session, task *model.Task) {
	journal := &s.Snapshot.Journal
	if journal.SameNodes(a.mark) {
		return
	}
	a.version++
	checks, refused := s.checks(task, framework.NodeOnly)
	if len(s.Snapshot.Nodes) == 0 {
		refused = noNodes()
	}
	if refused != nil {
		*a = static{mark: journal.Cursor(), version: a.version, refused: refused}
		return
	}
	a.verdicts = a.check(s.Snapshot.Nodes, nodeQuery{session: s, checks: checks})
	a.nodes = append([]*model.Node(nil), s.Snapshot.Nodes...)
	a.combine()
	a.score(s.scores(task, framework.NodeOnly, a.candidates))
	a.refused, a.mark = nil, journal.Cursor()
}

// check returns the verdicts on the nodes, from memory where nothing changed: both lists are sorted.
func (a *static) check(nodes []*model.Node, asked nodeQuery) []*model.Refusal {
	verdicts := make([]*model.Refusal, len(nodes))
	before := 0
	for i, node := range nodes {
		for before < len(a.nodes) && a.nodes[before] != node && a.nodes[before].Name < node.Name {
			before++
		}
		if before < len(a.nodes) && a.nodes[before] == node && node.ObjectChanged <= a.mark.Number() {
			verdicts[i] = a.verdicts[before]
			continue
		}
		if verdicts[i] = node.Invalid; verdicts[i] == nil {
			verdicts[i] = asked.check(node)
		}
	}
	return verdicts
}

// combine lists the candidates and counts the others.
func (a *static) combine() {
	a.ruledOut = model.NodeDiagnosis{}
	count := 0
	for _, verdict := range a.verdicts {
		if verdict == nil {
			count++
		}
	}
	a.candidates, a.positions = make([]*model.Node, 0, count), make([]int, 0, count)
	for i, verdict := range a.verdicts {
		if verdict != nil {
			a.ruledOut.Add(verdict)
			continue
		}
		a.candidates = append(a.candidates, a.nodes[i])
		a.positions = append(a.positions, i)
	}
}

func (a *static) score(scores []framework.NodeScore) {
	sums := make([]int64, len(a.candidates))
	for _, score := range scores {
		addScore(sums, score, a.candidates)
	}
	capped := func(sum int64) int32 { return int32(min(max(sum, infeasible+1), maxSum)) }
	a.scores, a.even = nil, infeasible
	if len(sums) > 0 {
		a.even = capped(sums[0])
	}
	if len(sums) == len(a.nodes) && !slices.ContainsFunc(sums, func(sum int64) bool { return sum != sums[0] }) {
		return
	}
	a.scores = make([]int32, len(a.nodes))
	for i := range a.scores {
		a.scores[i] = infeasible
	}
	for i, position := range a.positions {
		a.scores[position] = capped(sums[i])
	}
}

// scoreOf returns the score of the node at a position, infeasible when it is no candidate.
func (a *static) scoreOf(position int) int32 {
	if a.scores == nil {
		return a.even
	}
	return a.scores[position]
}
