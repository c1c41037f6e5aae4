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
//
// The files, in reading order:
//
//	gangs.go    what this process knows of the parts of gangs, and what it learns from decisions, answers and statuses
//	check.go    what is to be done about a gang before a cycle
//	part.go     a part, and what its pods say of binds
//	minimum.go  a minimum that changes before the first bind is sent
//	json.go     what is known of gangs, as a file has it
package lifecycle

import (
	"maps"
	"slices"
	"strings"
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
	parts            map[partID]record
	// unread has how many parts were judged of groups of other projects that may have more: when this process began to lead, their
	// object was not known, or not which members are made later. The others are judged when they are known.
	unread map[model.JobKey]int
	delays *backoff.Delays
}

// record is what is known of a part.
type record struct {
	// group is the UID of the object that stands for the gang.
	group types.UID
	stage stage
	// minima are those of the start, or those that the part was whole with. What the members request is known only of a start that
	// this process has decided, or has seen to be complete.
	minima model.Minima
	// deadline is until when the start may be completed. It is computed once, when a member is seen to be bound: a clock that
	// jumps later does not change it.
	deadline time.Time
	// named reports that only pods that say for which job they were bound are members of the start: a process before this one has
	// begun it, and others mark the group. A version that did not know the group may have bound pods one by one.
	named bool
	// lost is since when no member is left of a part of which the status still says that it is whole; zero otherwise.
	lost time.Time
}

// stage is how far a part has come, where the API does not say so itself.
type stage int8

const (
	none stage = iota
	// begun: a start has begun, and its minimum was not seen to be bound.
	begun
	// undone: what is bound of the start is to be deleted.
	undone
	// seen: the part is whole, as the watch shows, or as the status says that is being written; the answer to another bind may be
	// awaited.
	seen
	// whole: the part is whole, as the API server has confirmed: it has had its minimum bound, and has members left.
	whole
)

func (r record) isOpen() bool  { return r.stage == begun || r.stage == undone }
func (r record) isWhole() bool { return r.stage >= seen }

// isShown reports whether the API says that the part is whole, and members are left of it.
func (r record) isShown(p part) bool { return p.Whole && r.lost.IsZero() }

// wasWhole reports whether the part has had its minimum bound, and has members left since.
func (r record) wasWhole(p part) bool { return r.isWhole() || r.isShown(p) }

// isOf reports whether a task was bound for the start.
func (r record) isOf(task *model.Task) bool {
	_, named := task.BoundWith.Get()
	return wasBound(task) && (named || !r.named)
}

// New returns what follows gangs. deadline is how long after its first bind a small gang must have its minimum; 30 s when it is
// not positive. What is undone is delayed.
func New(deadline time.Duration, delays *backoff.Delays) *Gangs {
	if deadline <= 0 {
		deadline = defaultDeadline
	}
	return &Gangs{
		deadline: deadline, repair: min(deadline, MaxRepair), delays: delays,
		parts: map[partID]record{}, unread: map[model.JobKey]int{},
	}
}

// record returns what is known of a part. When the object of its gang was made again, a start goes on; that the part was whole is
// not true of the new object.
func (g *Gangs) record(p part) record {
	r := g.parts[p.id()]
	if r.group != p.job.UID {
		r.group, r.lost = p.job.UID, time.Time{}
		if r.isWhole() {
			r.stage = none
		}
	}
	return r
}

// Lead looks for what a process before this one has left: see find.
func (g *Gangs) Lead(snapshot *model.Snapshot, now time.Time) {
	g.leadingSince = now
	for _, job := range snapshot.Jobs {
		judged := 0
		if job.IsSchedulableGroup() {
			for p := range partsOf(job) {
				g.find(p, now)
				judged++
			}
		}
		g.setJudged(job, judged)
	}
}

// setJudged takes down how many parts of a gang were judged. A gang that is complete has no parts that must be found later.
func (g *Gangs) setJudged(job *model.Job, parts int) {
	isComplete := func() bool { return gang.Stated(job).FirstUnmetMinimum((*model.Task).IsBound) == nil }
	if job.Key.MarkedByOthers() && (parts == 0 || parts == 1 && !isComplete()) {
		g.unread[job.Key] = parts
	} else {
		delete(g.unread, job.Key)
	}
}

// find records a part that is whole and of which no status says so, or whose start was interrupted, unless it is known.
func (g *Gangs) find(p part, now time.Time) {
	r := g.record(p)
	switch isWhole := r.isShown(p); {
	case r.stage != none, isWhole && p.job.HasGroup:
	case p.isBound() && !isWhole:
		g.confirm(p)
	case isWhole, p.wereEnough(), p.BelowMinimum && !p.job.HasGroup && p.Count(model.Succeeded.Is) > 0: // it is not known with what
		g.parts[p.id()] = record{group: r.group, stage: whole}
	case p.BelowMinimum: // it is not known what its members requested
		r.stage, r.minima, r.named = begun, p.minima(), p.job.Key.MarkedByOthers()
		r.minima.Requests = nil
		g.setDeadline(p, r, now, now)
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
		joins := !job.HasGroup && p.Count(wasBound) > 0
		if r := g.record(p); r.stage == none && !r.isShown(p) && p.Count((*model.Task).CountsTowardMinimum) > 0 && !joins {
			g.parts[p.id()] = record{group: r.group, stage: begun, minima: p.minima(), lost: r.lost}
		}
	}
}

// Committed records the parts of a gang whose minimum is bound, as the API server has confirmed: one that loses a member before
// its status says so is no interrupted start. It reports whether the gang has started with it.
func (g *Gangs) Committed(job *model.Job) (started bool) {
	if !job.IsSchedulableGroup() {
		return false
	}
	for p := range partsOf(job) {
		if p.FirstUnmetMinimum((*model.Task).CountsTowardMinimum) == nil {
			r := g.record(p)
			started = started || p.isFirst() && r.stage != whole && !r.isShown(p)
			g.confirm(p)
		}
	}
	return started
}

// confirm records that a part is whole, unless that is known.
func (g *Gangs) confirm(p part) {
	if g.record(p).stage != whole {
		g.parts[p.id()] = record{group: p.job.UID, stage: whole, minima: p.minima()}
	}
}

// StatusSent records the statuses that are about to be written.
func (g *Gangs) StatusSent(writes []commit.Write) {
	for _, write := range writes {
		if group, is := write.(*commit.GroupStatus); is && meta.IsStatusConditionTrue(group.Status.Conditions, v1alpha1.ConditionScheduled) {
			id := partID{job: model.JobKey{Namespace: group.Namespace, Name: group.Name}}
			before := g.parts[id]
			minima := before.minima
			minima.MinMember = group.Status.StartedMinMember
			now := record{group: group.UID, stage: seen, minima: minima}
			if before.group == now.group && before.stage == whole {
				now.stage = whole // it was counted as started
			}
			g.parts[id] = now
		}
	}
}

// Begun returns the jobs of which a start has begun and is to be completed, or was completed and the status does not say so yet,
// and the minimum of the start; of several parts that of all of them.
func (g *Gangs) Begun() map[model.JobKey]model.Minima {
	all := make(map[model.JobKey]model.Minima, len(g.parts))
	byRole := func(a, b partID) int { return strings.Compare(a.role, b.role) }
	for _, id := range slices.SortedFunc(maps.Keys(g.parts), byRole) { // of equal minima, those of the last role
		if r := g.parts[id]; r.stage != none && r.minima.MinMember >= all[id.job].MinMember {
			all[id.job] = r.minima
		}
	}
	return all
}

// Observed returns whether the group was whole, and with what, where its status is behind; known is false where the status says
// so itself.
func (g *Gangs) Observed(job *model.Job) (started model.Minima, whole, known bool) {
	r := g.parts[partID{job: job.Key}]
	return r.minima, r.isWhole(), r.group == job.UID && (r.isWhole() || !r.lost.IsZero())
}

// AwaitsStatus reports whether the group is to be checked again as soon as its status has changed.
func (g *Gangs) AwaitsStatus(key model.JobKey) bool { return !g.parts[partID{job: key}].lost.IsZero() }

// Deadline returns until when binds of the job's tasks that satisfy bound may be sent: the first deadline of the parts that they
// are in; zero when they begin starts of their own, or there is no job. A deadline in the past ends
// nothing: Check has left the start alone, since it is complete, or waits for results.
func (g *Gangs) Deadline(job *model.Job, bound func(*model.Task) bool, now time.Time) (at time.Time) {
	if job == nil {
		return at
	}
	for p := range partsOf(job) {
		if deadline := g.record(p).deadline; deadline.After(now) && slices.ContainsFunc(p.Tasks, bound) {
			at = model.Sooner(at, deadline)
		}
	}
	return at
}

// Prune forgets jobs that are gone, and what is no part of a gang any more and has no members left: that the object which says so
// is not there may be for a while only. What of that has its minimum bound meanwhile is complete.
func (g *Gangs) Prune(snapshot *model.Snapshot) {
	maps.DeleteFunc(g.unread, func(key model.JobKey, _ int) bool { return snapshot.Job(key) == nil })
	for id, r := range g.parts {
		job := snapshot.Job(id.job)
		isLeft := func(task *model.Task) bool {
			return (id.role == "" || task.Role == id.role) && (task.IsBound() || model.Binding.Is(task) || isToBeDeleted(task))
		}
		switch {
		case job == nil:
			delete(g.parts, id)
		case isPart(id, job):
		case !slices.ContainsFunc(job.Tasks, isLeft):
			delete(g.parts, id)
		case r.isOpen() && id.isBoundOf(job, r.minima):
			r.stage = seen
			g.parts[id] = r
		}
	}
}

// Len returns how many gangs are followed.
func (g *Gangs) Len() int { return len(g.parts) + len(g.unread) }
