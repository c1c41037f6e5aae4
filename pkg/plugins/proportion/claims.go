package proportion

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/shares"
)

// This file is what jobs may take from other queues: by right of a guarantee, or of a fair share. All of it is about the state in
// which the victims are gone and the minimum of the job has started. Two queues are compared where they meet: at the lowest queue
// above both, by its children on the way to them.

// Claims returns the rights of a job, the guarantee before the share.
func (p *plugin) Claims(taker *model.Job) (claims []framework.Claim, why string) {
	return p.computed().claims(taker, nil)
}

// JudgeReclaim finds the claims again that there were before the units were evicted.
func (p *plugin) JudgeReclaim(taker *model.Job, victims []framework.EvictionUnit) (model.Right, *model.Refusal) {
	claims, why := p.computed().claims(taker, victims)
	for _, claim := range claims {
		if claim.Allows(victims) {
			return claim.Right(), nil
		}
		why = "not all of the victims may go"
	}
	return "", &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("%s has no right to pods of other queues: %s", taker.Key, why)}
}

// GuaranteeFor goes by what queues hold once all that is being released is free. It changes nothing of what claims go by.
func (p *plugin) GuaranteeFor(job *model.Job) *model.Queue {
	s := p.computed()
	if !hasGuarantee(job.InQueue()) || s.numbers[job.InQueue().Index] == absent {
		return nil
	}
	needs := s.waitsFor(job)
	changes := make([]int64, s.dimensions)
	for queue := job.InQueue(); queue != nil; queue = queue.Above() {
		number := s.numbers[queue.Index]
		for r := range changes {
			changes[r] = s.wouldHold(queue, job, needs, r) - s.tree.Part(number, r).Usage
		}
		if s.tree.WithinGuarantee(number, needs, changes, s.worlds()) {
			return queue
		}
	}
	return nil
}

// GivesWay compares the two where their queues meet, in the resources that are contended there: the holder's queue would hold
// more than its share of one that the job needs, and the job's no more than its share of any. It changes nothing of what claims
// go by.
func (p *plugin) GivesWay(holder, job *model.Job) bool {
	s := p.computed()
	y, x := holder.InQueue().Meets(job.InQueue())
	if x == nil || y == nil || s.numbers[x.Index] == absent || s.numbers[y.Index] == absent {
		return false
	}
	beyond, keeps, needs := false, s.waitsFor(holder), s.waitsFor(job)
	for _, r := range slices.Concat(s.devices, s.ordinary) {
		if needs.At(r) <= 0 || !s.tree.Contended(s.numbers[x.Index], r) {
			continue
		}
		if s.wouldHold(x, job, needs, r) > s.tree.Part(s.numbers[x.Index], r).Share {
			return false
		}
		beyond = beyond || keeps.At(r) > 0 && s.wouldHold(y, holder, keeps, r) > s.tree.Part(s.numbers[y.Index], r).Share
	}
	return beyond
}

// waitsFor returns the least that the minimum of a job asks for beyond what it has, or what is nominated to it in this session.
func (s *sharing) waitsFor(job *model.Job) model.Resources {
	return s.needsOf(job, slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Status == model.Pipelined }))
}

// wouldHold returns how much of a resource a queue holds once all that is being released is free, with what a job of it, or of
// one below it, needs in place of what is nominated to that.
func (s *sharing) wouldHold(queue *model.Queue, job *model.Job, needs model.Resources, r int) int64 {
	holds := queue.Used.At(r) - queue.Releasing.At(r) + needs.At(r)
	for _, task := range job.Tasks {
		if task.Status == model.Pipelined || task.Status == model.Pending && task.CountsInQueue() {
			holds -= task.Request.At(r)
		}
	}
	return holds
}

// claim is what both rights are about.
type claim struct {
	*sharing
	job *model.Job
	// needs is what the minimum asks for beyond what the job has, at least.
	needs model.Resources
	// path are the queues from the job's up to a topmost one.
	path []*model.Queue
	// victims are marked for eviction when the claim is made; nil before there is a plan.
	victims []framework.EvictionUnit
	// covered is what coverage returns, nil before.
	covered *coverage
	// meets are the answers of meet, by index.
	meets map[int]meeting
	// order is what ranks returns, nil before.
	order []int
}

// meeting is where the queue of a unit meets that of the job.
type meeting struct {
	// taker and giver are children of parent, by their numbers; taker is at this place in the path.
	taker, giver, parent, place int
	giving                      *model.Queue
	ok                          bool
}

// claims returns the claims of a job as things are without the victims' evictions and the nominations of the job.
func (s *sharing) claims(job *model.Job, victims []framework.EvictionUnit) (claims []framework.Claim, why string) {
	queue := job.InQueue()
	if queue == nil || s.numbers[queue.Index] == absent {
		return nil, "its queue takes no part"
	}
	for i := range victims {
		if of := victims[i].Job.InQueue(); of == nil || s.numbers[of.Index] == absent {
			return nil, fmt.Sprintf("queue %q gives nothing", victims[i].Job.Queue)
		}
	}
	s.bring(job, victims)
	c := &claim{sharing: s, job: job, needs: s.needsOf(job, victims != nil), victims: victims, meets: map[int]meeting{}}
	for _, r := range slices.Concat(s.devices, s.ordinary) {
		if why := s.exceedsSupply(c.needs, r); why != "" {
			return nil, why
		}
	}
	for at := queue; at != nil; at = at.Above() {
		c.path = append(c.path, at)
	}
	guarantee, whyNot := c.byGuarantee()
	if guarantee != nil {
		claims = append(claims, &guaranteeClaim{claim: c, lowest: guarantee.lowest, spares: true}, guarantee)
	}
	share, why := c.byShare()
	if share != nil {
		claims = append(claims, share)
	}
	switch {
	case guarantee != nil:
		why = ""
	case whyNot != "" && why != "":
		why = whyNot + "; " + why
	default:
		why = whyNot + why
	}
	return claims, why
}

// needsOf returns the least that the minimum of the job asks for beyond what it has; of one that was nominated by the open
// statement, what that was for.
func (s *sharing) needsOf(job *model.Job, nominated bool) model.Resources {
	needs := make(model.Resources, s.dimensions)
	if nominated {
		for _, task := range job.Tasks {
			if task.Status == model.Pipelined {
				needs.Add(task.Request)
			}
		}
		return needs
	}
	members := int(job.MinMember) - job.Count(framework.Ready.Counts)
	for r := range needs {
		if members > 0 {
			needs[r] = model.LeastRequest(job, members, r)
		}
	}
	return needs
}

// usage is what the tree has of what queues hold, beyond what it was computed with.
type usage struct {
	// revision is that of the snapshot when it was set; only then is set true.
	revision model.Revision
	set      bool
	// own is what the jobs of each queue hold, by index.
	own []model.Resources
	// lent is what was added to queues for the job whose claims were made last.
	lent []lentUsage
}

type lentUsage struct {
	number  int
	amounts []int64
}

// bring sets the usage of the tree to what queues hold once all that is being released is free, the victims not, and without what
// is nominated to the job. That of other jobs than this one costs something only after a change.
func (s *sharing) bring(job *model.Job, victims []framework.EvictionUnit) {
	if len(s.usage.lent) > 0 {
		s.highest = nil
	}
	for _, lent := range s.usage.lent {
		for r := range lent.amounts {
			lent.amounts[r] = -lent.amounts[r]
		}
		s.tree.AddUsage(lent.number, lent.amounts)
	}
	s.usage.lent = s.usage.lent[:0]
	if revision := s.view.Snapshot().Journal.Revision(); !s.usage.set || s.usage.revision != revision || s.view.Uncached() {
		s.bringAll()
		s.usage.set, s.usage.revision = true, revision
	}
	for i := range victims {
		s.lend(victims[i].Job.InQueue(), s.amountsOf(&victims[i]))
	}
	for _, task := range job.Tasks {
		if task.Status == model.Pipelined || task.Status == model.Pending && task.CountsInQueue() {
			amounts := make([]int64, s.dimensions)
			for r, amount := range task.Request {
				amounts[r] = -amount
			}
			s.lend(job.InQueue(), amounts)
		}
	}
}

func (s *sharing) lend(queue *model.Queue, amounts []int64) {
	number := s.numbers[queue.Index]
	s.tree.AddUsage(number, amounts)
	s.usage.lent, s.highest = append(s.usage.lent, lentUsage{number, amounts}), nil
}

// bringAll is the part of bring that is the same for all jobs.
func (s *sharing) bringAll() {
	own := make([]model.Resources, len(s.queues))
	for i, queue := range s.queues {
		if s.numbers[i] == absent {
			continue
		}
		own[i].Add(queue.Used)
		own[i].Sub(queue.Releasing)
		if above := queue.Above(); above != nil { // in a queue without error, so is what is above it
			own[above.Index].Sub(queue.Used)
			own[above.Index].Add(queue.Releasing)
		}
	}
	changes := make([]int64, s.dimensions)
	for i, number := range s.numbers {
		if number == absent {
			continue
		}
		any := false
		for r := range changes {
			changes[r] = own[i].At(r) - s.usage.own[i].At(r)
			any = any || changes[r] != 0
		}
		if any {
			s.tree.AddUsage(number, changes)
			s.highest = nil
		}
	}
	s.usage.own = own
}

// meet returns where a queue meets that of the job; ok is false where they do not: it is the same queue, or above it, or it takes
// no part.
func (c *claim) meet(queue *model.Queue) meeting {
	if queue == nil || c.numbers[queue.Index] == absent {
		return meeting{}
	}
	known, ok := c.meets[queue.Index]
	if ok {
		return known
	}
	var found meeting
	for y := queue; y != nil && !found.ok && !slices.Contains(c.path, y); y = y.Above() {
		place := slices.IndexFunc(c.path, func(x *model.Queue) bool { return x.Above() == y.Above() })
		if place < 0 {
			continue
		}
		found = meeting{taker: c.numbers[c.path[place].Index], giver: c.numbers[y.Index], parent: shares.Root, place: place, giving: y, ok: true}
		if above := y.Above(); above != nil {
			found.parent = c.numbers[above.Index]
		}
	}
	c.meets[queue.Index] = found
	return found
}

// coverage returns what guarantees cover. It is asked for first about a unit that is no part of a plan yet, so that it is that of
// before.
func (c *claim) coverage() *coverage {
	if c.covered == nil {
		c.covered = c.coverageOf(c.victims)
	}
	return c.covered
}

// lossOf returns what a queue and those below it lose.
func (s *sharing) lossOf(queue *model.Queue, lost map[*model.Queue]model.Resources) []int64 {
	sum := make([]int64, s.dimensions)
	for of, amounts := range lost {
		for at := of; at != nil; at = at.Above() {
			if at == queue {
				for r, amount := range amounts {
					sum[r] += amount
				}
				break
			}
		}
	}
	return sum
}

// amountsOf adds up what the tasks of a unit ask for, by resource.
func (s *sharing) amountsOf(unit *framework.EvictionUnit) []int64 {
	sum := make([]int64, s.dimensions)
	for _, task := range unit.Tasks {
		for r, amount := range task.Request {
			sum[r] += amount
		}
	}
	return sum
}

func (s *sharing) worlds() shares.Worlds {
	return shares.Worlds{Devices: s.devices, Ordinary: s.ordinary}
}
