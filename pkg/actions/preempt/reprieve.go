package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reprieve releases every unit of a plan, the most important first, without which the job can start just as well, be it in
// other places.
//
// Invariant I10: without any one unit of what it returns, the job cannot start.
func (s *search) reprieve(p *plan) *plan {
	for _, u := range p.units {
		s.touchedBy = append(s.touchedBy, u.of)
	}
	if s.uniform && len(s.seats) == 1 && !slices.ContainsFunc(p.units, func(u victimUnit) bool { return len(u.tasks) > 1 }) {
		return p // what one node offers is minimal, and frees room nowhere else
	}
	units := slices.Clone(p.units)
	kept := newPlan(s.guard)
	if s.from.stage == reprieving {
		for _, u := range units[:s.from.kept] {
			kept.add(u)
		}
		units = units[s.from.kept:]
	} else {
		slices.SortFunc(units, func(a, b victimUnit) int { return byReprieveOrder(&a, &b) })
	}
	s.session.Try(func(statement *framework.Statement) *model.Refusal {
		if refusal := s.evictAll(statement, p.units); refusal != nil {
			return refusal
		}
		room := s.measureCapacity()
		for i, u := range units {
			if s.budgetExhausted() {
				s.suspend(savedSearch{stage: reprieving, seats: s.seats, units: slices.Concat(kept.units, units[i:]), kept: len(kept.units)})
				break
			}
			unevict(statement, &u)
			if s.stillFeasible(room, &u) {
				continue
			}
			s.evict(statement, &u)
			room.follow(s, &u)
			kept.add(u)
		}
		return undone() // it was only a question
	})
	return kept
}

// stillFeasible reports whether the job can start as the session stands, after the unit was released.
func (s *search) stillFeasible(room *capacityByShape, u *victimUnit) bool {
	if room != nil {
		room.follow(s, u)
		if room.short() {
			return false
		}
		if s.uniform {
			return true
		}
	}
	s.spend(s.looks())
	starts := false
	s.session.Try(func(*framework.Statement) *model.Refusal {
		starts = s.trial.Place(model.FutureIdle) == nil
		return undone() // it was only a question
	})
	return starts
}

// capacityByShape is how many tasks of each shape the cluster has room for, each shape taken alone: with less of it than
// members need, the job cannot start.
type capacityByShape struct {
	shapes []shapeCapacity
}

type shapeCapacity struct {
	request model.Resources
	needs   int64
	total   int64
	// fits is by a node's place in the snapshot; -1 for one that is no candidate.
	fits []int64
}

// measureCapacity returns the room for the members that have seats. It is nil where more than room decides, or where others
// could do in place of those.
func (s *search) measureCapacity() *capacityByShape {
	members := s.trial.Members()
	if !s.plain || !s.uniform && len(s.seats) < len(members) {
		return nil
	}
	s.session.ApplyReservations(s.job)
	r := &capacityByShape{}
	known := map[model.Shape]int{}
	for _, seat := range s.seats {
		at, ok := known[seat.task.Shape]
		if !ok {
			at = len(r.shapes)
			known[seat.task.Shape] = at
			r.shapes = append(r.shapes, s.measureShape(seat.task))
		}
		r.shapes[at].needs++
	}
	return r
}

func (s *search) measureShape(task *model.Task) shapeCapacity {
	shape := shapeCapacity{request: task.Request, fits: slices.Repeat([]int64{-1}, len(s.session.Snapshot.Nodes))}
	for _, node := range s.session.EligibleNodes(task) {
		shape.fits[node.Index] = 0
		shape.update(node)
	}
	return shape
}

func (r *shapeCapacity) update(node *model.Node) {
	if r.fits[node.Index] < 0 {
		return
	}
	fits := min(node.CopiesThatFit(r.request, model.FutureIdle), 1<<31)
	r.total += fits - r.fits[node.Index]
	r.fits[node.Index] = fits
}

// follow looks again at the nodes of a unit.
func (r *capacityByShape) follow(s *search, u *victimUnit) {
	if r == nil {
		return
	}
	for _, task := range u.tasks {
		node := s.session.Snapshot.Node(task.Node)
		if node == nil { // it is gone, and its pod not yet
			continue
		}
		for i := range r.shapes {
			r.shapes[i].update(node)
		}
	}
}

// short reports whether there is too little room for any shape.
func (r *capacityByShape) short() bool {
	return slices.ContainsFunc(r.shapes, func(shape shapeCapacity) bool { return shape.total < shape.needs })
}
