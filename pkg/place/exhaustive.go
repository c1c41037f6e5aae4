package place

import (
	"encoding/binary"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// exactMembers is up to how many members every combination of nodes is tried.
	exactMembers = 8
	// searchBudget bounds the nodes that the searches for one job visit. Six nodes and eight members stay below it unless
	// members of many kinds fit almost everywhere; past it a gang may wait although it could start.
	searchBudget = 500_000
	// Budget bounds it for all jobs of one action in one cycle together.
	Budget = 3_000_000
)

// exhaustive is the search through every combination of members and nodes.
type exhaustive struct {
	*Placer
	// chosen are the members, in the order to place them; kinds says which of them are interchangeable.
	chosen []*model.Task
	kinds  *equivalenceClasses
	// inOrder reports whether every combination that can be reached at all is reached in that order: a placed member opens no
	// node to others.
	inOrder bool
	// infeasible are the combinations from which nothing led to a start.
	infeasible map[string]bool
}

// placeExhaustively tries every combination of members and nodes, within the budget; of a gang with many members only those
// that make up the minimum. It is skipped when any order of the members is as good as another.
func (t *Placer) placeExhaustively() bool {
	short := max(1, int(t.job.MinMember)-t.job.Count(t.readiness().Counts))
	chosen := t.members
	if len(chosen) > exactMembers {
		chosen = chosen[:min(short, len(chosen))]
	}
	if t.searched = len(t.members) == 1; len(chosen) < 2 || len(chosen) > exactMembers || t.isInterchangeable(chosen) {
		return false
	}
	s := &exhaustive{Placer: t, chosen: chosen, infeasible: map[string]bool{}}
	s.inOrder = !slices.ContainsFunc(chosen, mayEnable)
	plain := !slices.ContainsFunc(chosen, func(task *model.Task) bool { return !t.ask.Rests(task, engine.OnShape) })
	if plain && sameShape(chosen) {
		return false
	}
	t.searched = len(chosen) == len(t.members)
	if s.kinds = t.strictClasses(chosen, plain); !s.upperBoundSuffices(short, plain) {
		return false
	}
	return t.session.Try(func(*engine.Statement) *model.Refusal { return s.search(0, short) }) == nil
}

// search places the members one after the other on each node that fits, until every gate agrees; at least short more must get
// a place. In order it only places those from one on; any of them may be left out.
func (s *exhaustive) search(from, short int) *model.Refusal {
	gate := s.session.JobReady(s.job, s.readiness())
	if gate == nil {
		return nil
	}
	here := s.stateKey(from)
	if s.infeasible[here] || !s.hasBudget() {
		return gate
	}
	left := s.waiting(from)
	tried := map[equivalenceClass]bool{}
	for i, task := range left {
		of := s.kinds.of(task)
		if tried[of] || s.inOrder && len(left)-i < short || len(left) < short {
			continue
		}
		tried[of] = true
		if s.tryNode(task, short) {
			return nil
		}
	}
	s.infeasible[here] = true
	return gate
}

// tryNode places the task on each node that fits, and the others after it.
func (s *exhaustive) tryNode(task *model.Task, short int) bool {
	s.spend(max(1, len(s.session.EligibleNodes(task))) * filterCost(task))
	next := 0
	if s.inOrder {
		next = slices.Index(s.chosen, task) + 1
	}
	for _, node := range s.ask.All(task) {
		refusal := s.session.Try(func(statement *engine.Statement) *model.Refusal {
			if refusal := statement.Put(s.ask, task, node); refusal != nil {
				return refusal
			}
			return s.search(next, short-1)
		})
		if refusal == nil {
			return true
		}
	}
	return false
}

// waiting returns the members from one on that have no place and may get one.
func (s *exhaustive) waiting(from int) []*model.Task {
	return filterTasks(s.chosen[from:], func(task *model.Task) bool { return !task.Status.HasNode() && task.Invalid == nil })
}

// stateKey encodes how many members of each kind are on each node, and from which one on others may follow.
func (s *exhaustive) stateKey(from int) string {
	var places [][2]int
	for _, task := range s.chosen {
		if task.Status.HasNode() {
			places = append(places, [2]int{int(s.kinds.of(task)), s.session.Snapshot.Node(task.Node).Index})
		}
	}
	slices.SortFunc(places, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	text := binary.AppendUvarint(nil, uint64(from))
	for _, place := range places {
		text = binary.AppendUvarint(binary.AppendUvarint(text, uint64(place[0])), uint64(place[1]))
	}
	return string(text)
}

// strictClasses distinguishes members by everything that filters distinguish: also by labels that the anti-affinity of pods
// on nodes selects, and by their volumes and claims. Where only shape and capacity decide, only these count.
func (t *Placer) strictClasses(chosen []*model.Task, plain bool) *equivalenceClasses {
	k := newKinds(chosen)
	if !plain && !sameLabels(chosen) {
		for _, node := range t.session.Snapshot.Nodes {
			t.spend(len(node.Tasks))
			for _, task := range node.Tasks {
				for _, term := range repellingTerms(task.Pod) {
					k.learnSelector(term.LabelSelector)
				}
			}
		}
	}
	for _, task := range chosen {
		switch {
		case plain:
			k.number(task, "")
		case hasPrivateClaims(task): // one may be on a node already
			k.number(task, string(task.UID))
		default:
			k.number(task, string(writeStorage(k.encode(nil, task.Pod), task))+t.slicesKey(task))
		}
	}
	return k
}

// isInterchangeable reports whether the members are alike and none of them affects where another one may go, so that no
// combination is better than another. Pods on nodes may select them by labels that they do not select themselves; this does
// not matter to members with the same candidate nodes.
func (t *Placer) isInterchangeable(chosen []*model.Task) bool {
	k := newKinds(chosen)
	for _, task := range chosen {
		k.number(task, string(writeStorage(k.encode(nil, task.Pod), task))+t.slicesKey(task))
	}
	if len(k.ids) > 1 || slices.ContainsFunc(chosen, constrainsSiblings) {
		return false
	}
	if sameLabels(chosen) {
		return true
	}
	nodes := t.ask.All(chosen[0])
	return !slices.ContainsFunc(chosen[1:], func(task *model.Task) bool {
		return !slices.Equal(t.ask.All(task), nodes)
	})
}

func sameShape(tasks []*model.Task) bool {
	return !slices.ContainsFunc(tasks, func(task *model.Task) bool { return task.Shape != tasks[0].Shape })
}

// upperBoundSuffices reports whether enough members would fit if each kind were alone: a check that avoids the search in most
// clusters that are simply full. A member to which siblings may open nodes counts as fitting.
func (s *exhaustive) upperBoundSuffices(short int, plain bool) bool {
	type group struct {
		shape model.Shape
		of    equivalenceClass
	}
	left := map[group]int64{}
	fit := 0
	for _, task := range s.chosen {
		if mayEnable(task) {
			fit++
			continue
		}
		like := group{shape: task.Shape, of: -1} // all of a shape where nothing else decides
		if !plain {
			like.of = s.kinds.of(task)
		}
		if _, known := left[like]; !known {
			left[like] = capacityFor([]*model.Task{task}, s.ask.All(task), s.ask)
		}
		if left[like] > 0 {
			left[like]--
			fit++
		}
	}
	return fit >= short
}

// filterCost is the cost of visiting a node for the task: one, or more where filters are slow.
func filterCost(task *model.Task) int {
	switch {
	case usesVolumesOrDevices(task):
		return 50
	case affectsSiblings(task):
		return 4
	default:
		return 1
	}
}
