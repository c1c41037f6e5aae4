package engine

import (
	"math"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Fits is how many tasks of a shape fit on each node and into each domain, as far as the nodes and the pods on them decide. It
// follows the journal: a change on one node costs the levels that were asked for.
//
// Invariant: after update it is what counting again would give.
type Fits struct {
	room model.CapacityKind
	mark model.Cursor
	// version is that of the static answers that it counts.
	version uint64
	// each is by the node's index.
	each []int32
	sums map[*Domains]*fitSums
}

// fitSums is what fits into each domain of a level, for the domains of layout.
type fitSums struct {
	layout uint64
	fits   []int64
}

// Each returns how many fit on each node, by its index; the slice must not be changed, and is valid until the next statement.
func (f *Fits) Each() []int32 { return f.each }

// In returns how many fit into each domain of a level; valid as Each.
func (f *Fits) In(level *Domains) []int64 {
	known := f.sums[level]
	if known == nil || known.layout != level.layout {
		known = &fitSums{layout: level.layout, fits: make([]int64, level.Len())}
		for domain := range known.fits {
			for _, node := range level.Nodes(domain) {
				known.fits[domain] += int64(f.each[node])
			}
		}
		if f.sums == nil {
			f.sums = map[*Domains]*fitSums{}
		}
		f.sums[level] = known
	}
	return known.fits
}

// Counts returns how many tasks of the task's shape fit on each node, and into each domain.
func (a Ask) Counts(task *model.Task) *Fits {
	s, room := a.session, a.Kind
	defer a.session.charge(task.Job, nil)
	a.open()
	known, order := s.ranked(task, room)
	if known.fits[room] == nil {
		known.fits[room] = &Fits{room: room}
	}
	known.fits[room].update(s.Snapshot, task, &known.static, order)
	return known.fits[room]
}

func (f *Fits) update(snapshot *model.Snapshot, task *model.Task, a *static, order *ranking) {
	changes, ok := snapshot.Journal.Since(f.mark)
	if !ok || f.version != a.version || len(changes) >= len(snapshot.Nodes) {
		f.each, f.sums = make([]int32, len(snapshot.Nodes)), nil
		if a.refused == nil && order.refused == nil {
			for _, node := range a.candidates {
				f.each[node.Index] = f.count(task, node, order)
			}
		}
		changes = nil
	}
	for i := range changes {
		node := changes[i].Node
		if a.refused != nil || order.refused != nil {
			continue
		}
		n := f.count(task, node, order)
		by := int64(n) - int64(f.each[node.Index])
		if f.each[node.Index] = n; by == 0 {
			continue
		}
		for level, sums := range f.sums {
			if sums.layout == level.layout && level.of[node.Index] >= 0 {
				sums.fits[level.of[node.Index]] += by
			}
		}
	}
	f.mark, f.version = snapshot.Journal.Cursor(), a.version
}

func (f *Fits) count(task *model.Task, node *model.Node, order *ranking) int32 {
	if order.at(node.Index) == infeasible {
		return 0
	}
	return int32(min(node.Free(f.room).Copies(task.Request), math.MaxInt32))
}
