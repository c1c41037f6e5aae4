package framework

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// static is what the node objects say about a shape, whatever runs on them: who is a candidate, and how it is liked.
//
// Invariant: after follow it is what asking everything anew would give.
type static struct {
	mark model.Mark
	// version counts how often the answers below changed.
	version uint64
	// refused says that no node can do; nil when some may.
	refused *model.Refusal
	// nodes is the list that was asked about. By its positions: verdicts, nil for a candidate, and scores, weighted and
	// normalised over all candidates; the others are barred.
	nodes    []*model.Node
	verdicts []*model.Refusal
	scores   []int32
	// candidates pass all static checks, by name; positions are where they stand in nodes.
	candidates []*model.Node
	positions  []int
	// ruledOut counts why the other nodes are not candidates.
	ruledOut model.Tally
}

// follow brings the answers up to date. Only nodes that are new or changed themselves are checked; the scores are taken
// anew for all candidates, since the best of them sets the measure.
func (a *static) follow(s *Session, task *model.Task) {
	journal := &s.Snapshot.Journal
	if journal.SameNodes(a.mark) {
		return
	}
	a.version++
	checks, refused := s.checks(task, Static)
	if len(s.Snapshot.Nodes) == 0 {
		refused = noNodes()
	}
	if refused != nil {
		*a = static{mark: journal.Mark(), version: a.version, refused: refused}
		return
	}
	a.verdicts = a.check(s.Snapshot.Nodes, placement{checks: checks})
	a.nodes = append([]*model.Node(nil), s.Snapshot.Nodes...)
	a.sum()
	a.score(s.scores(task, Static, a.candidates))
	a.refused, a.mark = nil, journal.Mark()
}

// check returns the verdicts on the nodes, from memory where nothing changed: both lists are sorted.
func (a *static) check(nodes []*model.Node, asked placement) []*model.Refusal {
	verdicts := make([]*model.Refusal, len(nodes))
	before := 0
	for i, node := range nodes {
		for before < len(a.nodes) && a.nodes[before] != node && a.nodes[before].Name < node.Name {
			before++
		}
		if before < len(a.nodes) && a.nodes[before] == node && node.Altered <= a.mark.Number() {
			verdicts[i] = a.verdicts[before]
			continue
		}
		if verdicts[i] = node.Refused; verdicts[i] == nil {
			verdicts[i] = asked.check(node)
		}
	}
	return verdicts
}

// sum lists the candidates and counts the others.
func (a *static) sum() {
	a.ruledOut = model.Tally{}
	count := 0
	for _, verdict := range a.verdicts {
		if verdict == nil {
			count++
		}
	}
	a.candidates, a.positions = make([]*model.Node, 0, count), make([]int, 0, count)
	for i, verdict := range a.verdicts {
		if verdict != nil {
			a.ruledOut.Count(verdict)
			continue
		}
		a.candidates = append(a.candidates, a.nodes[i])
		a.positions = append(a.positions, i)
	}
}

func (a *static) score(scores []NodeScore) {
	sums := make([]int64, len(a.candidates))
	for _, score := range scores {
		addScore(sums, score, a.candidates)
	}
	a.scores = make([]int32, len(a.nodes))
	for i := range a.scores {
		a.scores[i] = barred
	}
	for i, position := range a.positions {
		a.scores[position] = int32(min(max(sums[i], barred+1), most))
	}
}
