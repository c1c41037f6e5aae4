package engine

import (
	"iter"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the order in which jobs are tried: queue by queue, and job order in each.

// InOrder yields the jobs in the order in which they are to be tried. In a leaf of the tree of queues that is job order; of the
// queues with one parent the first is that which the plugins put first, then that of which a job started longest ago, then that
// of the job which comes first in job order. While there are no queues it is job order.
//
// What is done for a job before the next one is asked for is its turn (InTurn). It may change the order of the queues that the
// job is in, and of its group there, and of no others.
func (s *Session) InOrder(jobs []*model.Job) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		all := s.turnsOf(jobs)
		for all.offered != nil {
			job := all.take()
			more := false
			if s.InTurn(job, func() { more = yield(job) }); !more {
				return
			}
			if s.slots.jobsMove { // sorted once, the keys would move underneath
				all.renew()
			} else {
				all.update()
			}
		}
	}
}

// Order returns the jobs in the order in which a session on the snapshot would try them now. What it asks decides nothing, and is
// not closed.
func Order(snapshot *model.Snapshot, profile *Profile, cache *Cache, jobs []*model.Job) []*model.Job {
	return slices.Collect(Open(snapshot, profile, Options{Cache: cache}).InOrder(jobs))
}

// turns are the jobs of one queue, and of those below it, that have not been tried.
type turns struct {
	session *Session
	// queue is nil for the whole cluster, and for all jobs whose queue does not exist.
	queue *model.Queue
	// isGroup reports that they are those of one group of the jobs of a queue, by which a plugin orders them; isOwn that they are
	// those of an inner queue itself, where it does. queue is nil then.
	isGroup, isOwn bool
	// jobs are the queue's own, in job order. They come before those of the queues below, which is a matter of completing starts: an
	// inner queue begins none.
	jobs []*model.Job
	// below are the turns of queues with jobs, sorted; while a plugin moves jobs, only the first of them is in its place.
	below []*turns
	// offered is the job to be tried next; nil when all have been. ranks are where the plugins put the queue with it, and lastStart
	// is the queue's: kept here, where comparing many queues reads little memory.
	offered   *model.Job
	ranks     []framework.QueueRank
	lastStart time.Time
	// tookBelow reports whether the last job taken was that of a queue below.
	tookBelow bool
}

// turnsOf returns those of the whole cluster.
func (s *Session) turnsOf(jobs []*model.Job) *turns {
	all := &turns{session: s}
	if len(s.Snapshot.Queues) == 0 {
		all.jobs = slices.Clone(jobs)
		all.build()
		return all
	}
	known := make([]*turns, len(s.Snapshot.Queues))
	var lost *turns
	for _, job := range jobs {
		of := lost
		if queue := job.InQueue(); queue != nil && !job.NothingPending { // else its queue would have the turn of a job that needs none
			of = all.of(queue, known)
		} else if of == nil {
			lost = all.add(nil)
			of = lost
		}
		of.jobs = append(of.jobs, job)
	}
	all.build()
	return all
}

// of returns the turns of a queue, made with those of the queues above when it is the first of its jobs.
func (t *turns) of(queue *model.Queue, known []*turns) *turns {
	if queue == nil {
		return t
	}
	if known[queue.Index] == nil {
		known[queue.Index] = t.of(queue.Above(), known).add(queue)
	}
	return known[queue.Index]
}

func (t *turns) add(queue *model.Queue) *turns {
	added := &turns{session: t.session, queue: queue}
	t.below = append(t.below, added)
	return added
}

// build brings everything into its order.
func (t *turns) build() {
	if len(t.jobs) > 1 && !t.isGroup && t.session.slots.jobGroups != nil {
		t.divide()
	}
	slices.SortFunc(t.jobs, t.session.CompareJobs)
	for _, one := range t.below {
		one.build()
	}
	slices.SortFunc(t.below, (*turns).compare)
	t.offer()
}

// divide puts the jobs of each group below, as if it were a queue, unless there is but one.
func (t *turns) divide() {
	if len(t.below) > 0 {
		t.below = append(t.below, &turns{session: t.session, isOwn: true, jobs: t.jobs})
		t.jobs = nil
		return
	}
	groups := map[string]*turns{}
	for _, job := range t.jobs {
		var name string
		t.session.InTurn(job, func() { name = t.session.slots.jobGroups.GroupOfJob(job) })
		if groups[name] == nil {
			groups[name] = &turns{session: t.session, isGroup: true}
			t.below = append(t.below, groups[name])
		}
		groups[name].jobs = append(groups[name].jobs, job)
	}
	if len(t.below) < 2 {
		t.below = nil
		return
	}
	t.jobs = nil
}

func (t *turns) offer() {
	switch {
	case len(t.jobs) > 0:
		t.offered = t.jobs[0]
	case len(t.below) > 0:
		t.offered = t.below[0].offered
	default:
		t.offered = nil
	}
	if t.queue != nil && t.offered != nil {
		t.rank()
	}
}

// rank asks the plugins where the queue is now.
func (t *turns) rank() {
	t.lastStart, t.ranks = t.queue.LastStart, t.ranks[:0]
	for _, plugin := range t.session.slots.queueOrder {
		t.ranks = append(t.ranks, plugin.RankQueue(t.queue, t.offered))
	}
}

// take takes out the offered job.
func (t *turns) take() *model.Job {
	if t.tookBelow = len(t.jobs) == 0; t.tookBelow {
		return t.below[0].take()
	}
	job := t.jobs[0]
	t.jobs = t.jobs[1:]
	return job
}

// update finds the next job after one was taken and tried: only the queues that it was in have changed.
func (t *turns) update() {
	if t.tookBelow {
		t.below[0].update()
		t.moveFirst()
	}
	t.offer()
}

// moveFirst sorts the first queue below in again, or takes it out. Mostly it stays, or goes last: a queue that has just started a
// job comes after its equals.
func (t *turns) moveFirst() {
	first, rest := t.below[0], t.below[1:]
	switch {
	case first.offered == nil:
		t.below = rest
	case len(rest) == 0 || first.compare(rest[0]) < 0:
	case rest[len(rest)-1].compare(first) < 0:
		t.below = append(rest, first)
	default:
		at, _ := slices.BinarySearchFunc(rest, first, (*turns).compare)
		t.below = slices.Insert(rest, at, first)
	}
}

// renew finds the next job where the order of any of them may have changed.
func (t *turns) renew() {
	for i := range t.jobs {
		if t.session.CompareJobs(t.jobs[i], t.jobs[0]) < 0 {
			t.jobs[0], t.jobs[i] = t.jobs[i], t.jobs[0]
		}
	}
	for _, one := range t.below {
		one.renew()
	}
	t.below = slices.DeleteFunc(t.below, func(one *turns) bool { return one.offered == nil })
	for i := range t.below {
		if t.below[i].compare(t.below[0]) < 0 {
			t.below[0], t.below[i] = t.below[i], t.below[0]
		}
	}
	t.offer()
}

// compare is negative when the queue's turn comes before that of another with the same parent, or the group's before that of
// another in the queue. Jobs whose queue does not exist come last.
func (t *turns) compare(other *turns) int {
	switch {
	case t.isOwn:
		return -1
	case other.isOwn:
		return 1
	case t.isGroup:
		return t.session.CompareJobs(t.offered, other.offered)
	case t.queue == nil:
		return 1
	case other.queue == nil:
		return -1
	}
	for i := range t.ranks {
		if order := t.ranks[i].Compare(other.ranks[i]); order != 0 {
			return order
		}
	}
	if order := t.lastStart.Compare(other.lastStart); order != 0 {
		return order
	}
	return t.session.CompareJobs(t.offered, other.offered)
}

// takeTurn records, in the decision and in the queues, that the job has started in its turn: its minimum, and not the rest of
// one that has begun, nor members beyond it.
func (s *Session) takeTurn(job *model.Job, decision *model.Decision) {
	if decision.MinBinds == 0 || job.InQueue() == nil || job.LostMembers {
		return
	}
	had := job.Count(framework.Ready.Counts) - len(decision.Binds)
	if had > 0 && s.Snapshot.Begun[job.Key].MinMember > 0 {
		return
	}
	decision.LastStart = s.nextStart()
	job.InQueue().SetLastStart(decision.LastStart)
}

// nextStart returns a time for a start: that of the snapshot, but later than all before, so that it orders the starts of one
// cycle, and those of a scheduler whose clock is behind that of the one before it.
func (s *Session) nextStart() time.Time {
	if s.lastStart.IsZero() {
		for _, queue := range s.Snapshot.Queues {
			if queue.LastStart.After(s.lastStart) {
				s.lastStart = queue.LastStart
			}
		}
		now := s.Snapshot.Now.UTC().Truncate(time.Microsecond) // what the status of a queue can say
		if now.After(s.lastStart) {
			s.lastStart = now.Add(-time.Microsecond)
		}
	}
	s.lastStart = s.lastStart.Add(time.Microsecond)
	return s.lastStart
}
