package preempt

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// nodeCostHeap has what the victims on every node cost for one more task of a shape, the cheapest on top. Costs are about
// capacity alone.
// A node is looked at again when a pod came or went there, or when a source with members there was taken from or released to.
//
// Invariant: the cost of a node is the one when it was last computed, or, while a plan is made, not above the present one; so the
// top one is computed once more before it is used.
type nodeCostHeap struct {
	request model.Resources
	nodes   []*model.Node
	// at has the place of a node among nodes, by its place in the snapshot; -1 is none.
	at []int32
	// costs are by place; heap has the places of those that have a cost, and where each is in it, -1 for nowhere.
	costs []cost
	heap  []int32
	where []int32
	// mark is how far the journal was read, touched how far the run's list.
	mark       model.Cursor
	dirtyNodes int
	// parked are the places that a search has found unfit, by something else than capacity, until the node changes or all are
	// tried again.
	parked   map[int32]bool
	parkedBy *search
}

// nodeCosts returns the heap for a task, up to date.
func (s *search) nodeCosts(p *plan, task *model.Task) *nodeCostHeap {
	b := s.pool.costHeaps[task.Shape]
	if b == nil {
		b = s.newNodeCosts(task)
		s.pool.costHeaps[task.Shape] = b
	}
	if b.parkedBy != s {
		b.unpark()
		b.parkedBy = s
	}
	journal := &s.session.Snapshot.Journal
	changes, ok := journal.Since(b.mark)
	from := b.mark.Number()
	b.mark = journal.Cursor()
	if !ok {
		b.dirtyNodes = len(s.touched)
		for place := range b.nodes {
			s.recompute(p, b, int32(place))
		}
		return b
	}
	for i := range changes {
		if node := changes[i].Node; node.Changed == from+uint64(i)+1 && b.at[node.Index] >= 0 {
			s.recompute(p, b, b.at[node.Index])
		}
	}
	for ; b.dirtyNodes < len(s.touched); b.dirtyNodes++ {
		if place := b.at[s.touched[b.dirtyNodes].Index]; place >= 0 {
			s.recompute(p, b, place)
		}
	}
	return b
}

func (s *search) newNodeCosts(task *model.Task) *nodeCostHeap {
	nodes := s.eligible(task)
	b := &nodeCostHeap{
		request: task.Request, nodes: nodes, at: make([]int32, len(s.session.Snapshot.Nodes)),
		costs: make([]cost, len(nodes)), where: make([]int32, len(nodes)), parked: map[int32]bool{},
	}
	for i := range b.at {
		b.at[i] = -1
	}
	for place, node := range nodes {
		b.at[node.Index], b.where[place] = int32(place), -1
	}
	return b
}

// recompute looks at one node again.
func (s *search) recompute(p *plan, b *nodeCostHeap, place int32) {
	delete(b.parked, place)
	victims, ok := s.victimsOn(p, b.nodes[place], b.request)
	if ok {
		b.set(place, victims.cost)
	} else {
		b.remove(place)
	}
}

// cheapest returns the node with the cheapest victims, computed once more; nil when no node has any.
func (s *search) cheapest(p *plan, b *nodeCostHeap) (*model.Node, victimSet) {
	for len(b.heap) > 0 {
		place := b.heap[0]
		before := b.costs[place]
		victims, ok := s.victimsOn(p, b.nodes[place], b.request)
		switch {
		case !ok:
			b.remove(place)
		case victims.cost.compare(&before) == 0:
			return b.nodes[place], victims
		default:
			b.set(place, victims.cost)
		}
	}
	return nil, victimSet{}
}

// unpark brings all places back that were left out.
func (b *nodeCostHeap) unpark() {
	for _, place := range slices.Sorted(maps.Keys(b.parked)) {
		heap.Push(b, place)
	}
	clear(b.parked)
}

// set brings a place to where its cost belongs.
func (b *nodeCostHeap) set(place int32, c cost) {
	if b.costs[place] = c; b.where[place] < 0 {
		heap.Push(b, place)
	} else {
		heap.Fix(b, int(b.where[place]))
	}
}

func (b *nodeCostHeap) remove(place int32) {
	if b.where[place] >= 0 {
		heap.Remove(b, int(b.where[place]))
	}
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (b *nodeCostHeap) Len() int { return len(b.heap) }

// Less is by cost.
func (b *nodeCostHeap) Less(i, j int) bool {
	x, y := b.heap[i], b.heap[j]
	return cmp.Or(b.costs[x].compare(&b.costs[y]), cmp.Compare(x, y)) < 0
}

// Swap keeps where up to date.
func (b *nodeCostHeap) Swap(i, j int) {
	b.heap[i], b.heap[j] = b.heap[j], b.heap[i]
	b.where[b.heap[i]], b.where[b.heap[j]] = int32(i), int32(j)
}

// Push adds a place at the end.
func (b *nodeCostHeap) Push(place any) {
	added, _ := place.(int32)
	b.where[added] = int32(len(b.heap))
	b.heap = append(b.heap, added)
}

// Pop takes the last place out.
func (b *nodeCostHeap) Pop() any {
	last := b.heap[len(b.heap)-1]
	b.heap, b.where[last] = b.heap[:len(b.heap)-1], -1
	return last
}
