package backfill

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// A gang's capacity is looked for in the future: the tasks of our jobs leave in the order of their ends, until the gang fits
// among those that are left. How many must leave at least is found on the accounting alone; for most gangs that is enough. If it
// is not, more and more leave, four times as many each time, and how many of them had to is then found by halving.

// step is by how many more the first step goes at least.
const step = 64

// plan is the search for one job's capacity.
type plan struct {
	run     *run
	ask     engine.Ask
	job     *model.Job
	trial   *place.Placer
	leaving []expectedCompletion
	// rooms are where the job fits after enough of them have left, as few as was found by now; nil when it never does.
	rooms  []model.ReservedNode
	enough int
}

// plan returns the capacity that the job has to wait for least, nil when it does not fit even the empty cluster, in which only
// the pods run that are not of our jobs. Pods that run since outlived or before, in seconds since 1970, are expected to leave
// last when their ends are unknown.
func (r *run) plan(job *model.Job, outlived int64) (reservation *model.Reservation) {
	question := engine.Question{Action: Name, Class: job.Class.Placement(), Emptied: true, ByFit: true}
	r.session.Ask(job, model.FutureIdle).Remember(question, func(ask engine.Ask) (*model.Refusal, engine.Reach) {
		p := &plan{run: r, ask: ask, job: job, trial: r.trial(ask)}
		fit := p.find(outlived)
		if p.rooms == nil && !p.trial.BudgetExhausted() {
			return &model.Refusal{Needs: int64(job.MinMember), Has: fit}, engine.ForClass
		}
		if p.rooms != nil {
			reservation = p.reservation()
		}
		return nil, engine.ForNow
	})
	return reservation
}

// find looks for capacity. When there is none it returns how many members find some at best.
func (p *plan) find(outlived int64) (fit int64) {
	d := p.demand()
	var all []*model.Task
	for _, other := range p.run.session.Snapshot.Jobs {
		all = append(all, other.Tasks...)
	}
	p.leaving = p.run.expectedCompletions(p.job, all, p.run.now, outlived)
	p.run.work -= len(all) + len(p.leaving)
	least, lacking := p.minCompletions(d)
	if lacking > 0 {
		return int64(p.job.MinMember) - lacking
	}
	p.tryWith(least)
	return int64(p.job.MinMember) - 1
}

func (p *plan) reservation() *model.Reservation {
	reservation := &model.Reservation{Nodes: p.rooms, Since: time.Unix(p.run.now, 0).UTC()}
	if last := p.lastCompletion(); last != unknown {
		reservation.ExpectedStart = time.Unix(last, 0).UTC()
	}
	outlook, _ := p.run.estimateStart(p.job, reservation)
	reservation.ExpectedStart = outlook.start
	return reservation
}

// lastCompletion returns when the last of the pods that have to leave is expected to; now, when none has to: what the job was
// refused for was released since.
func (p *plan) lastCompletion() int64 {
	if p.enough == 0 {
		return p.run.now
	}
	return p.leaving[p.enough-1].end
}

// tryWith lets so many leave at first; with fewer it cannot fit.
func (p *plan) tryWith(least int) {
	p.whatIf(0, least, func() {
		if !p.fits(least) && least < len(p.leaving) {
			p.growPrefix(least, min(max(4*least, least+step), len(p.leaving)))
		}
	})
}

// growPrefix lets more and more leave until the job fits; departed have left already, which is not enough.
func (p *plan) growPrefix(departed, next int) {
	if p.run.work <= 0 {
		next = len(p.leaving)
	}
	fits := false
	p.whatIf(departed, next, func() {
		if fits = p.fits(next); !fits && next < len(p.leaving) {
			p.growPrefix(next, min(max(4*next, next+step), len(p.leaving)))
		}
	})
	if fits {
		p.bisect(departed, next)
	}
}

// bisect finds out how few have to leave; it does not do when departed do, and it does when enough do.
func (p *plan) bisect(departed, enough int) {
	for enough-departed > 1 && p.run.work > 0 {
		middle, fits := departed+(enough-departed)/2, false
		p.whatIf(departed, middle, func() {
			if fits = p.fits(middle); !fits {
				p.bisect(middle, enough)
			}
		})
		if !fits {
			return
		}
		enough = middle
	}
}

// whatIf lets some leave, for as long as the body runs.
func (p *plan) whatIf(from, to int, body func()) {
	p.run.work -= to - from
	p.run.session.Try(func(statement *engine.Statement) *model.Refusal {
		for _, departure := range p.leaving[from:to] {
			statement.SimulateCompletion(departure.task)
		}
		body()
		return errWhatIf
	})
}

// fits reports whether the job could start now that so many have left, and remembers where.
func (p *plan) fits(departed int) bool {
	p.run.work -= len(p.run.session.Snapshot.Nodes) + len(p.trial.Members())
	fits := false
	p.run.session.Try(func(*engine.Statement) *model.Refusal {
		if fits = p.trial.Place() == nil; fits {
			p.rooms, p.enough = placements(p.trial.Members()), departed
		}
		return errWhatIf
	})
	return fits
}

// placements returns where the members are that have found capacity.
func placements(members []*model.Task) []model.ReservedNode {
	var rooms []model.ReservedNode
	for _, task := range members {
		if task.Status != model.Pipelined {
			continue
		}
		i, found := slices.BinarySearchFunc(rooms, task.Node, func(room model.ReservedNode, node string) int {
			return cmp.Compare(room.Node, node)
		})
		if !found {
			rooms = slices.Insert(rooms, i, model.ReservedNode{Node: task.Node})
		}
		rooms[i].Members++
		rooms[i].Request.Add(task.Request)
	}
	return rooms
}

// What follows is what the accounting of the nodes alone says about a job's minimum: a bound that costs little.

// demand is what a job's minimum needs, shape by shape, as if each were alone: less than what it needs in truth.
type demand struct {
	shapes []shapeDemand
	// spare is without how many of the members the minimum is reached.
	spare int64
}

type shapeDemand struct {
	request model.Resources
	// members is how many there are, candidates are the nodes that may run them.
	members    int64
	candidates []*model.Node
}

// demand returns what the job's minimum needs; nothing, when its minimum does not say how many members must find capacity.
func (p *plan) demand() (d demand) {
	members := p.trial.Members()
	p.run.work -= 1 + len(members)
	short := int(p.job.MinMember) - p.job.Count(framework.Ready.Counts)
	if short <= 0 || short > len(members) {
		return d
	}
	d.spare = int64(len(members) - short)
	known := map[model.Shape]int{}
	for _, task := range members {
		i, seen := known[task.Shape]
		if !seen {
			i = len(d.shapes)
			known[task.Shape] = i
			d.shapes = append(d.shapes, shapeDemand{request: task.Request, candidates: p.run.session.EligibleNodes(task)})
		}
		d.shapes[i].members++
	}
	return d
}

// lacking returns how many members of the minimum find no place at least, were each shape alone in these rooms, which are by
// model.Node.Index; not more than zero when all may find one.
func (d *demand) lacking(rooms []model.Resources) (lacking int64) {
	for _, shape := range d.shapes {
		places := int64(0)
		for _, node := range shape.candidates {
			if places += rooms[node.Index].Copies(shape.request); places >= shape.members {
				break
			}
		}
		lacking += max(0, shape.members-places)
	}
	return lacking - d.spare
}

// minCompletions returns how many of the tasks that end must do so at least before the job can fit, and how many members of its
// minimum find no place at least when all of them have; not more than zero when all may find one.
func (p *plan) minCompletions(d demand) (least int, lacking int64) {
	snapshot := p.run.session.Snapshot
	index := make([]int, len(p.leaving))
	for i, departure := range p.leaving {
		index[i] = -1 // its node is gone, or its capacity is being released already
		if task := departure.task; task.Status != model.Releasing || task.TerminationOverdue {
			if node := snapshot.Node(task.Node); node != nil {
				index[i] = node.Index
			}
		}
	}
	p.run.work -= len(p.leaving)
	lackingAfter := func(departed int) int64 {
		rooms := make([]model.Resources, len(snapshot.Nodes))
		for i, node := range snapshot.Nodes {
			rooms[i] = p.ask.Free(node).All(snapshot.Dimensions.Len())
		}
		for i, departure := range p.leaving[:departed] {
			if index[i] >= 0 {
				rooms[index[i]].Add(snapshot.Nodes[index[i]].Charge(departure.task))
			}
		}
		return d.lacking(rooms)
	}
	if lacking = lackingAfter(len(p.leaving)); lacking > 0 {
		return len(p.leaving), lacking
	}
	return sort.Search(len(p.leaving), func(departed int) bool { return lackingAfter(departed) <= 0 }), lacking
}
