// Package lifecycle follows gangs from their first bind on. A start that is interrupted, with some members bound, fewer than
// the minimum, and never all of it, is completed until its deadline and then undone: the bound members are deleted. A gang
// that was whole and has lost members for good is restarted if its PodGroup says so. The package also says what a changed
// minimum means for a start whose first bind is not sent yet.
//
// All it goes by is in the API: the group's condition Scheduled says that the gang was whole, the condition PodScheduled of its
// pods when they were bound. So it makes no difference which process began a start. An implicit group has no condition;
// see gang.Of for what says so in its place. Pods that others mark say by an annotation for which job they were bound.
//
// The package decides and the loop carries out; it has no client, and its state belongs to the loop's goroutine.
package lifecycle

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	defaultDeadline = 30 * time.Second
	// MaxRepair is for how long after it began to lead a process completes starts whose deadline is over.
	MaxRepair = 10 * time.Second
	// MaxStatusWait is for how long a group that has lost all its members waits until its status says so, before it starts again.
	MaxStatusWait = 10 * time.Second
)

// Gangs is what this process knows of gangs beside what the API says.
type Gangs struct {
	// deadline is how long after its first bind the start of a small gang may take, see commit.Deadline for large ones; repair
	// is how long any may take at least after this process began to lead.
	deadline, repair time.Duration
	leadingSince     time.Time
	// starts are those of parts that have begun and are not complete.
	starts map[partID]start
	// observed says of parts whose status is behind whether they are whole: had their minimum bound, and have members left.
	observed map[partID]observation
	// unread are groups of other projects that could not be judged when this process began to lead, since their object was not
	// known, or not which members are made later. They are judged when that is known. True means that the part that is made first
	// was judged.
	unread map[model.JobKey]bool
	delays *backoff.Delays
}

// start is a start that has begun. Its deadline is computed once, when a member is seen to be bound: a clock that jumps later
// does not change it.
type start struct {
	group types.UID
	// minima are the minimum of the decision, and what its members request where this process has decided it.
	minima   model.Minima
	deadline time.Time
	// found is when this process found a start that one before it has begun; zero when it has begun it itself.
	found time.Time
	// bound reports that its minimum was seen to be bound, while the answer to another bind may be awaited: it is complete.
	bound bool
	// undone reports that what is bound of it is to be deleted.
	undone bool
}

type observation struct {
	group types.UID
	whole bool
	// minima are what it was whole with.
	minima model.Minima
	// since is when it was first observed.
	since time.Time
}

// New returns what follows gangs. deadline is how long after its first bind a small gang must have its minimum; 30 s when it is
// not positive. What is undone is delayed.
func New(deadline time.Duration, delays *backoff.Delays) *Gangs {
	if deadline <= 0 {
		deadline = defaultDeadline
	}
	return &Gangs{
		deadline: deadline, repair: min(deadline, MaxRepair), delays: delays,
		starts: map[partID]start{}, observed: map[partID]observation{}, unread: map[model.JobKey]bool{},
	}
}

// Lead looks for what a process before this one has left: see find.
func (g *Gangs) Lead(snapshot *model.Snapshot, now time.Time) {
	g.leadingSince = now
	for _, job := range snapshot.Jobs {
		switch {
		case job.IsSchedulableGroup():
			g.find(job, false, now)
			if job.Key.MarkedByOthers() && !madeInParts(job) && gang.Stated(job).FirstUnmetMinimum((*model.Task).IsBound) != nil {
				g.unread[job.Key] = true
			}
		case job.Key.MarkedByOthers():
			g.unread[job.Key] = false
		}
	}
}

// isNowRead reports whether the object of a gang, or the one that says which members are made later, has become known since this
// process began to lead; firstFound that what is made first was looked for.
func (g *Gangs) isNowRead(job *model.Job) (firstFound, is bool) {
	firstFound, unread := g.unread[job.Key]
	return firstFound, unread && (!firstFound || madeInParts(job))
}

func madeInParts(job *model.Job) bool {
	return slices.ContainsFunc(job.Present.Roles, func(role model.Role) bool { return role.MadeLater })
}

// find records parts of a gang that are whole and of which no status says so, or whose start was interrupted; only those that are
// made later if the first was looked for.
func (g *Gangs) find(job *model.Job, firstFound bool, now time.Time) {
	for p := range partsOf(job) {
		switch {
		case firstFound && p.id.isFirst(), p.Whole && job.HasGroup:
		case p.Whole: // it is not known with what
			g.observed[p.id] = observation{group: p.job.UID, whole: true, since: now}
		case p.FirstUnmetMinimum((*model.Task).IsBound) == nil, start{}.bindsOf(p).wereEnough():
			g.observe(p, true, now)
		case p.BelowMinimum && !p.job.HasGroup && p.Count(succeeded) > 0: // as if the container ran
			g.observed[p.id] = observation{group: p.job.UID, whole: true, since: now}
		case p.BelowMinimum:
			g.starts[p.id] = foundStart(p, now)
			if _, ok := g.due(p, now); !ok {
				delete(g.starts, p.id)
			}
		}
	}
}

// Begin records that a decision starts parts of a gang, or adds to them. What only looks like a start, such as a running pod that
// gets the label of a waiting one, is neither completed before others nor undone. A bind
// that joins bound members of a group without a status begins no start, either: the gang may have been whole before.
func (g *Gangs) Begin(job *model.Job) {
	if !job.IsSchedulableGroup() {
		return
	}
	for p := range partsOf(job) {
		begun, known := g.starts[p.id]
		joins := !job.HasGroup && p.Count(binds{tasks: p.Tasks}.has) > 0
		if !g.whole(p) && p.Count(counts) > 0 && !joins && (!known || begun.group != p.job.UID) { // the UID may be empty
			g.starts[p.id] = start{group: p.job.UID, minima: p.minima()}
		}
	}
}

// Begun returns the jobs of which a start has begun and is to be completed, or was completed and the status does not say so yet,
// and the minimum of the start; of several parts that of all of them.
func (g *Gangs) Begun() map[model.JobKey]model.Minima {
	begun := make(map[model.JobKey]model.Minima, len(g.starts))
	add := func(job model.JobKey, minima model.Minima) {
		if minima.MinMember >= begun[job].MinMember {
			begun[job] = minima
		}
	}
	for id, observed := range g.observed {
		if observed.whole {
			add(id.job, observed.minima)
		}
	}
	for id, start := range g.starts {
		add(id.job, start.minima)
	}
	return begun
}

// Observed returns whether the group was whole, and with what, where its status is behind; known is false where the status says
// so itself.
func (g *Gangs) Observed(job *model.Job) (started model.Minima, whole, known bool) {
	return g.observedPart(partID{job: job.Key}, job.UID)
}

func (g *Gangs) observedPart(id partID, group types.UID) (started model.Minima, whole, known bool) {
	observed, ok := g.observed[id]
	return observed.minima, observed.whole, ok && observed.group == group
}

// StatusSent records the statuses that are about to be written.
func (g *Gangs) StatusSent(writes []commit.Write) {
	for _, write := range writes {
		if group, is := write.(*commit.GroupStatus); is && meta.IsStatusConditionTrue(group.Status.Conditions, v1alpha1.ConditionScheduled) {
			id := partID{job: model.JobKey{Namespace: group.Namespace, Name: group.Name}}
			seen := g.observed[id]
			seen.minima.MinMember = group.Status.StartedMinMember
			g.observed[id] = observation{group: group.UID, whole: true, minima: seen.minima}
		}
	}
}

// AwaitsStatus reports whether the group is to be checked again as soon as its status has changed.
func (g *Gangs) AwaitsStatus(key model.JobKey) bool {
	observed, known := g.observed[partID{job: key}]
	return known && !observed.whole
}

// Committed records the parts of a gang whose minimum is bound, as the API server has confirmed: one that loses a member before
// its status says so is no interrupted start. It reports whether the gang has started with it.
func (g *Gangs) Committed(job *model.Job, now time.Time) (started bool) {
	if !job.IsSchedulableGroup() {
		return false
	}
	for p := range partsOf(job) {
		if p.FirstUnmetMinimum(counts) == nil {
			started = started || p.id.isFirst() && !g.whole(p)
			g.observe(p, true, now)
		}
	}
	return started
}

// Deadline returns until when binds of the job's tasks that satisfy bound may be sent: the first deadline of the parts that they
// are in; zero when they begin starts of their own, or there is no job. A deadline in the past ends
// nothing: Check has left the start alone, since it is complete, or waits for results.
func (g *Gangs) Deadline(job *model.Job, bound func(*model.Task) bool, now time.Time) (at time.Time) {
	if job == nil {
		return at
	}
	for p := range partsOf(job) {
		if deadline := g.starts[p.id].deadline; deadline.After(now) && slices.ContainsFunc(p.Tasks, bound) {
			at = model.Sooner(at, deadline)
		}
	}
	return at
}

// Prune forgets jobs that are gone, and what is no part of a gang any more and has no members left: that the object which says so
// is not there may be for a while only. What of that has its minimum bound meanwhile is complete.
func (g *Gangs) Prune(snapshot *model.Snapshot) {
	gone := func(id partID) bool {
		job := snapshot.Job(id.job)
		if job == nil {
			return true
		}
		isLeft := func(task *model.Task) bool {
			return (id.isFirst() || task.Role == id.role) && (task.IsBound() || binding(task) || isToBeDeleted(task))
		}
		return !isPart(id, job) && !slices.ContainsFunc(job.Tasks, isLeft)
	}
	maps.DeleteFunc(g.observed, func(id partID, _ observation) bool { return gone(id) })
	maps.DeleteFunc(g.unread, func(key model.JobKey, _ bool) bool { return snapshot.Job(key) == nil })
	maps.DeleteFunc(g.starts, func(id partID, _ start) bool { return gone(id) })
	for id, begun := range g.starts {
		if job := snapshot.Job(id.job); !begun.bound && !isPart(id, job) && begun.isComplete(id, job) {
			begun.bound = true
			g.starts[id] = begun
		}
	}
}

// isPart reports whether a job has such a part, as far as is known now.
func isPart(id partID, job *model.Job) bool {
	is := func(role model.Role) bool { return role.MadeLater && role.Name == id.role }
	return job.IsSchedulableGroup() && (id.isFirst() || slices.ContainsFunc(job.Present.Roles, is))
}

// Len returns how many gangs are followed.
func (g *Gangs) Len() int { return len(g.starts) + len(g.observed) + len(g.unread) }

func (g *Gangs) observe(p part, whole bool, now time.Time) {
	if last := g.observed[p.id]; last.group != p.job.UID || last.whole != whole || last.since.IsZero() {
		g.observed[p.id] = observation{group: p.job.UID, whole: whole, minima: p.minima(), since: now}
	}
}

// whole reports whether the part has had its minimum bound, and has members left since.
func (g *Gangs) whole(p part) bool {
	if _, whole, known := g.observedPart(p.id, p.job.UID); known {
		return whole
	}
	return p.Whole
}

func counts(task *model.Task) bool { return task.Status.CountsTowardMinimum() }
