// Package proportion orders queues by how much each holds of what it may count on: its guarantee first, and of what is left a
// part by its weight, as far as its jobs ask for it.
//
// The arithmetic is package shares; this package says what there is, what is held and what is asked for. It keeps no job from
// idle capacity. Which pods may be evicted for jobs of other queues it says when it is asked; the action reclaim makes the plans.
package proportion

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/shares"
)

// Name is the plugin's name in the configuration, that of kube-batch's and Volcano's.
const Name = "proportion"

// Summary is what the plugin does, in half a sentence.
const Summary = "which queue goes first: the one that holds least of its guarantee and its part by weight"

// New returns the plugin. It has no arguments, and no state beyond a session.
func New() framework.Plugin { return &plugin{} }

type plugin struct {
	view framework.View
	// shares are those of the session, computed when they are first asked for: what is asked of other plugins meanwhile is asked
	// after all of them have opened the session. Nil before, and while there are no queues.
	shares *sharing
}

var (
	_ framework.QueueOrderer  = (*plugin)(nil)
	_ framework.Reclaimer     = (*plugin)(nil)
	_ framework.SessionOpener = (*plugin)(nil)
	_ framework.SessionCloser = (*plugin)(nil)
)

// Name returns "proportion".
func (*plugin) Name() string { return Name }

// OpenSession keeps the view.
func (p *plugin) OpenSession(view framework.View) { p.view = view }

// RankQueue puts the queue of the lower standing first, each in the world of the job that it offers.
func (p *plugin) RankQueue(queue *model.Queue, job *model.Job) (rank framework.QueueRank) {
	rank.First, rank.Second = p.computed().standing(queue, job).Rank()
	return rank
}

// CloseSession leaves the shares in the queues, and why guarantees are not met or cannot be, for their status.
func (p *plugin) CloseSession(view framework.View) {
	if len(view.Snapshot().Queues) == 0 {
		return
	}
	s := p.computed()
	for _, queue := range view.Snapshot().Queues {
		queue.Parts, queue.Unmet, queue.Oversubscribed = s.partsOf(queue), nil, ""
	}
	if s.tree.Guaranteed() {
		s.findUnmet()
		s.findOversubscribed()
		p.shares = nil
	}
}

func (p *plugin) computed() *sharing {
	if p.shares == nil {
		p.shares = newSharing(p.view)
	}
	return p.shares
}

// sharing is the shares of one session, and how far each queue is from its own. What queues hold is read when it is asked for;
// what there is and what is asked for do not change by starting what waited.
type sharing struct {
	view   framework.View
	tree   shares.Tree
	queues []*model.Queue
	// numbers are those of the queues in the tree, by index; absent for a queue in error, which starts nothing.
	numbers []int
	// devices and ordinary are the two worlds: extended resources, and all others. Resources that are not counted on nodes are in
	// neither.
	devices, ordinary shares.World
	dimensions        int
	// contended are those of both worlds of which the queues with one parent ask for more than there is, by the number of the parent
	// plus one. Others decide nothing between them. Nil when no queues ask for more than there is.
	contended []shares.Worlds
	usage     usage
	// waiting are the jobs that waited to start when the session began, and lacked nothing but capacity, or a node that could run
	// them.
	waiting []*model.Job
	// covered is what coverageOf has found without victims, at a revision of the snapshot; nil before.
	covered         *coverage
	coveredRevision model.Revision
	// highest are the levels that highestAmong has found with the usage as it is.
	highest map[highestKey][2]standingOf
	// changes is what standing needs room for.
	changes []int64
	// asked are the devices that jobs with unlike members ask for.
	asked map[model.JobKey][]int
}

const absent = -1

func newSharing(view framework.View) *sharing {
	snapshot := view.Snapshot()
	s := &sharing{
		view:    view,
		numbers: slices.Repeat([]int{absent}, len(snapshot.Queues)), dimensions: snapshot.Dimensions.Len(),
		changes: make([]int64, snapshot.Dimensions.Len()), asked: map[model.JobKey][]int{},
	}
	s.tree.Reset(s.dimensions)
	s.setWorlds(snapshot)
	own := make([]model.Resources, len(snapshot.Queues))
	s.queues, s.usage.own = snapshot.Queues, own
	for _, queue := range snapshot.Queues {
		s.add(queue, own)
	}
	d := newDemand(view, own, s.numbers)
	s.waiting = d.jobs
	s.setAmounts(snapshot, own, d.waiting)
	s.tree.Compute(d.supply)
	s.findContended()
	return s
}

// findContended does that once for all questions about standings: there are several for each start.
func (s *sharing) findContended() {
	any := false
	contended := make([]shares.Worlds, 1+s.tree.Len())
	for i := range contended {
		only := func(world shares.World) (contended shares.World) {
			for _, r := range world {
				if s.tree.Division(i-1, r).Contended {
					contended = append(contended, r)
				}
			}
			return contended
		}
		contended[i] = shares.Worlds{Devices: only(s.devices), Ordinary: only(s.ordinary)}
		any = any || len(contended[i].Devices)+len(contended[i].Ordinary) > 0
	}
	if any {
		s.contended = contended
	}
}

// add adds a queue to the tree, after those above it, and finds what its own jobs hold. One in error is a part of what is above
// it.
func (s *sharing) add(queue *model.Queue, own []model.Resources) int {
	if s.numbers[queue.Index] != absent {
		return s.numbers[queue.Index]
	}
	if queue.Invalid != nil && queue.Inactive != model.QueueIsPaused {
		return absent
	}
	parent := shares.Root
	if above := queue.Above(); above != nil {
		parent = s.add(above, own)
		own[above.Index].Sub(queue.Used)
	}
	own[queue.Index].Add(queue.Used)
	s.numbers[queue.Index] = s.tree.Add(parent, int64(queue.Weight))
	return s.numbers[queue.Index]
}

// setAmounts sets what each queue is guaranteed and limited to, what its jobs hold, and what they ask for beyond that.
func (s *sharing) setAmounts(snapshot *model.Snapshot, own, waiting []model.Resources) {
	amounts := make([]shares.Amounts, s.dimensions)
	for _, queue := range snapshot.Queues {
		number := s.numbers[queue.Index]
		if number == absent {
			continue
		}
		for r := range amounts {
			held := own[queue.Index].At(r)
			amounts[r] = shares.Amounts{Limit: shares.NoLimit, Usage: held, Demand: plus(held, waiting[queue.Index].At(r))}
		}
		for _, guarantee := range queue.Guarantee {
			amounts[guarantee.Position].Guarantee = guarantee.Amount
		}
		for _, limit := range queue.Limit {
			amounts[limit.Position].Limit = limit.Amount
		}
		for _, world := range []shares.World{s.devices, s.ordinary} {
			for _, r := range world {
				s.tree.SetAmounts(number, r, amounts[r])
			}
		}
	}
}

// standing returns that of a queue in the world of a job: the devices if it asks for one that is contended there.
func (s *sharing) standing(queue *model.Queue, job *model.Job) shares.Standing {
	number := s.numbers[queue.Index]
	if number == absent || s.contended == nil {
		return shares.Standing{Met: shares.Fraction{Q: 1}}
	}
	contended := &s.contended[1+s.parentOf(queue)]
	world := contended.Ordinary
	if s.asksFor(contended.Devices, job) {
		world = contended.Devices
	}
	for _, r := range world {
		s.changes[r] = queue.Used.At(r) - s.tree.Part(number, r).Usage
	}
	return s.tree.Standing(number, world, s.changes)
}

// asksFor reports whether a waiting member of the job asks for one of these devices.
func (s *sharing) asksFor(devices shares.World, job *model.Job) bool {
	for _, r := range devices {
		if job.Class.Uniform {
			if job.Tasks[0].Request.At(r) > 0 {
				return true
			}
		} else if slices.Contains(s.devicesOf(job), r) {
			return true
		}
	}
	return false
}

// devicesOf returns the devices that the waiting members of a job ask for.
func (s *sharing) devicesOf(job *model.Job) []int {
	known, ok := s.asked[job.Key]
	if !ok {
		for _, r := range s.devices {
			if slices.ContainsFunc(job.Pending(), func(task *model.Task) bool { return task.Request.At(r) > 0 }) {
				known = append(known, r)
			}
		}
		s.asked[job.Key] = known
	}
	return known
}

// partsOf returns what the session has computed of a queue, none for one in error.
func (s *sharing) partsOf(queue *model.Queue) []model.QueuePart {
	number := s.numbers[queue.Index]
	if number == absent {
		return nil
	}
	parts := make([]model.QueuePart, 0, len(s.devices)+len(s.ordinary))
	for r := range s.dimensions {
		part, used := s.tree.Part(number, r), queue.Used.At(r)
		if part.Guarantee|part.Demand|used == 0 {
			continue
		}
		parts = append(parts, model.QueuePart{
			Position: r, Guarantee: part.Guarantee, Floor: part.Floor, Demand: part.Demand, Share: part.Share,
			Contended: s.tree.Division(s.parentOf(queue), r).Contended, Level: s.tree.Level(number, r, used-part.Usage).Float(),
		})
	}
	return parts
}
