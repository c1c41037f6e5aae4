package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// trim gives back every unit of a plan, the most important first, without which the job can start just as well, be it in other
// places.
//
// Invariant I10: without any one unit of what it returns, the job cannot start.
func (s *search) trim(p *plan) *plan {
	for _, u := range p.units {
		s.touchedBy = append(s.touchedBy, u.of)
	}
	if s.uniform && len(s.seats) == 1 && !slices.ContainsFunc(p.units, func(u unit) bool { return len(u.tasks) > 1 }) {
		return p // what one node offers is minimal, and frees room nowhere else
	}
	units := slices.Clone(p.units)
	kept := newPlan(s.guard)
	if s.from.stage == trimming {
		for _, u := range units[:s.from.kept] {
			kept.add(u)
		}
		units = units[s.from.kept:]
	} else {
		slices.SortFunc(units, func(a, b unit) int { return byImportance(&a, &b) })
	}
	s.session.Try(func(statement *framework.Statement) *model.Refusal {
		if refusal := s.evictAll(statement, p.units); refusal != nil {
			return refusal
		}
		room := s.measure()
		for i, u := range units {
			if s.spent() {
				s.stop(draft{stage: trimming, seats: s.seats, units: slices.Concat(kept.units, units[i:]), kept: len(kept.units)})
				break
			}
			spare(statement, &u)
			if s.still(room, &u) {
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

// still tells whether the job can start as the session stands, after the unit was given back.
func (s *search) still(room *room, u *unit) bool {
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

// room is how many tasks of each shape the cluster has room for, each shape taken alone: with less of it than members need,
// the job cannot start.
type room struct {
	shapes []shapeRoom
}

type shapeRoom struct {
	request model.Resources
	needs   int64
	total   int64
	// fits is by a node's place in the snapshot; -1 for one that is no candidate.
	fits []int64
}

// measure returns the room for the members that have seats. It is nil where more than room decides, or where others could do in
// place of those.
func (s *search) measure() *room {
	members := s.trial.Members()
	if !s.plain || !s.uniform && len(s.seats) < len(members) {
		return nil
	}
	s.session.ApplyReservations(s.job)
	r := &room{}
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

func (s *search) measureShape(task *model.Task) shapeRoom {
	shape := shapeRoom{request: task.Request, fits: slices.Repeat([]int64{-1}, len(s.session.Snapshot.Nodes))}
	for _, node := range s.session.EligibleNodes(task) {
		shape.fits[node.Index] = 0
		shape.follow(node)
	}
	return shape
}

func (r *shapeRoom) follow(node *model.Node) {
	if r.fits[node.Index] < 0 {
		return
	}
	fits := min(node.CopiesThatFit(r.request, model.FutureIdle), 1<<31)
	r.total += fits - r.fits[node.Index]
	r.fits[node.Index] = fits
}

// follow looks again at the nodes of a unit.
func (r *room) follow(s *search, u *unit) {
	if r == nil {
		return
	}
	for _, task := range u.tasks {
		node := s.session.Snapshot.Node(task.Node)
		if node == nil { // it is gone, and its pod not yet
			continue
		}
		for i := range r.shapes {
			r.shapes[i].follow(node)
		}
	}
}

// short tells whether there is too little room for any shape.
func (r *room) short() bool {
	return slices.ContainsFunc(r.shapes, func(shape shapeRoom) bool { return shape.total < shape.needs })
}
