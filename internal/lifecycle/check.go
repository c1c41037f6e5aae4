package lifecycle

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Verdict is what is to be done about a gang before a cycle. The zero verdict is nothing.
type Verdict struct {
	// Held says why the cycle places no member of the gang; nil when it may.
	Held *model.Refusal
	// Again is when to check the gang again; zero when an event will ask for it.
	Again time.Time
	// Undo is what is to be deleted of the gang; nil is nothing.
	Undo *Undo
}

// Undo are the members of a gang that are to be deleted: its start is undone, or it is restarted.
type Undo struct {
	Why     *model.Refusal
	Members []model.Eviction
}

// Restart reports whether the gang was whole and is restarted.
func (u *Undo) Restart() bool { return u.Why.Code == model.MembersLost }

// Decision returns the deletions, as the state assumes them.
func (u *Undo) Decision(job model.JobKey) model.Decision {
	return model.Decision{Job: job, Evictions: u.Members}
}

// Concerns reports whether there is anything to check about a job.
func (g *Gangs) Concerns(job *model.Job) bool {
	if !job.IsSchedulableGroup() {
		return false
	}
	if job.BelowMinimum || !job.NothingPending || g.unread[job.Key] {
		return true
	}
	_, observed := g.observed[job.Key]
	_, started := g.starts[job.Key]
	return observed || started
}

// Check returns what is to be done about a gang. group is its PodGroup, nil for an implicit group. lastRefusal is why the last
// cycle refused it, nil when it did not; mayStart reports whether a gang that is restarted could start again, else none is. A
// gang that is undone is delayed from then on; the caller carries it out.
func (g *Gangs) Check(job *model.Job, group *v1alpha1.PodGroup, lastRefusal *model.Refusal, mayStart bool, now time.Time) Verdict {
	job = groups.Stated(job)
	if g.unread[job.Key] {
		delete(g.unread, job.Key)
		g.find(job, now)
	}
	g.follow(job, now)
	if until, awaits := g.awaitsReset(job, now); awaits {
		return Verdict{Again: until, Held: &model.Refusal{
			Code: model.MembersLost, Detail: "no bound member is left; the gang starts again when its status says so",
		}}
	}
	if !job.BelowMinimum {
		return Verdict{}
	}
	due, ok := g.due(job, now)
	restart, which := false, g.starts[job.Key].boundFor(job)
	if !ok && g.whole(job) {
		restart, which = true, onNode
		due, ok = groups.RestartAt(group)
	}
	switch {
	case !ok, restart && !mayStart:
		return Verdict{}
	case due.After(now):
		return Verdict{Again: due}
	case g.delays.Undone.Delayed(backoff.Of(job), now): // the API server has refused the deletion
		return Verdict{}
	}
	var why *model.Refusal
	if restart {
		why = restarted(job, group.Status.DegradedSince.Time)
	} else {
		why = undone(job, job.Count(which), g.cause(job, lastRefusal))
	}
	if job.Count(binding) > 0 { // until the result of these binds is known
		return Verdict{Held: why}
	}
	g.delays.Undone.Fail(backoff.Of(job), why, now)
	delete(g.starts, job.Key)
	return Verdict{Undo: &Undo{Why: why, Members: members(job, which)}}
}

// follow records a group that has lost all its members before its status says so, and drops what is no longer needed.
func (g *Gangs) follow(job *model.Job, now time.Time) {
	observed, known := g.observed[job.Key]
	if known && (job.UID != observed.group || job.Whole == observed.whole || observed.whole && !groups.Remains(job)) {
		delete(g.observed, job.Key)
	}
	if begun, known := g.starts[job.Key]; known && begun.group == job.UID && begun.isOver(now) && job.FirstUnmetMinimum((*model.Task).IsBound) == nil {
		g.observe(job, true, now) // nothing was bound for it since: its minimum was lowered
	}
	if start, known := g.starts[job.Key]; known && (job.UID != start.group || g.whole(job) || !groups.Remains(job)) {
		delete(g.starts, job.Key)
	}
	if !job.NothingPending && job.Whole && !groups.Remains(job) {
		g.observe(job, false, now)
	}
}

// awaitsReset reports whether a group that could start again waits until its status no longer says that it is whole, and until
// when at most: after a crash, part of the new start would be taken for the rest of the old gang, and left alone. A status that
// cannot be written delays the group by no more than MaxStatusWait.
func (g *Gangs) awaitsReset(job *model.Job, now time.Time) (until time.Time, awaits bool) {
	observed := g.observed[job.Key]
	if observed.group != job.UID || observed.whole || !job.Whole || groups.Remains(job) ||
		job.FirstUnmetMinimum((*model.Task).Exists) != nil {
		return until, false
	}
	until = observed.since.Add(MaxStatusWait)
	return until, until.After(now)
}

// due returns until when the start of a gang below its minimum may be completed; ok is false when it is no interrupted start.
func (g *Gangs) due(job *model.Job, now time.Time) (at time.Time, ok bool) {
	if g.whole(job) {
		return at, false
	}
	begun, known := g.starts[job.Key]
	if !known || begun.group != job.UID {
		if now.After(g.leadingSince.Add(g.repair)) {
			return at, false // this process has begun no such start, and found none
		}
		begun = start{group: job.UID, minima: model.Minima{MinMember: job.MinMember}, found: g.leadingSince}
	}
	if begun.deadline.IsZero() {
		first := firstBound(job, begun.boundFor(job))
		if first.IsZero() {
			return at, false
		}
		deadline := commit.Deadline(g.deadline, int(job.MinMember))
		begun.deadline = now.Add(deadline - min(deadline, max(0, now.Sub(first))))
		if repaired := g.since(begun).Add(g.repair); begun.deadline.Before(repaired) {
			begun.deadline = repaired
		}
		g.starts[job.Key] = begun
	}
	return begun.deadline, true
}

// since is from when on this process may complete a start: since it found it, or began to lead.
func (g *Gangs) since(begun start) time.Time {
	if begun.found.After(g.leadingSince) {
		return begun.found
	}
	return g.leadingSince
}

// isOver reports whether the start can be completed no more.
func (s start) isOver(now time.Time) bool { return !s.deadline.IsZero() && now.After(s.deadline) }

// firstBound returns when the first of such tasks was bound, as the API server recorded it; zero when none was: they were created
// with their nodes.
func firstBound(job *model.Job, bound func(*model.Task) bool) (first time.Time) {
	for _, task := range job.Tasks {
		if bound(task) {
			first = backoff.Sooner(first, model.PodScheduled(task.Pod).LastTransitionTime.Time)
		}
	}
	return first
}

// boundFor returns what reports whether a task is on a node since it was bound there as a member of the job. The API server does
// not mark a pod so that was created with its node. Where a process before has begun the start, and others mark the group, the
// pod must say for which job it was bound: a version that did not know the group may have bound its pods one by one.
func (s start) boundFor(job *model.Job) func(*model.Task) bool {
	says := !s.found.IsZero() && job.Key.MarkedByOthers()
	return func(task *model.Task) bool {
		if !onNode(task) {
			return false
		}
		if says {
			if _, said := saidBinds(job, task); !said {
				return false
			}
		}
		condition := model.PodScheduled(task.Pod)
		return condition != nil && condition.Status == corev1.ConditionTrue
	}
}

// saidBinds returns how many binds the job needed when the task was bound for it, as its pod says; ok is false when it says
// nothing of this job.
func saidBinds(job *model.Job, task *model.Task) (needed int, ok bool) {
	name, number, ok := strings.Cut(strings.TrimPrefix(task.Pod.Annotations[v1alpha1.AnnotationJob], job.Key.String()), " ")
	if !ok || name != "" {
		return 0, false
	}
	needed, err := strconv.Atoi(number)
	return needed, err == nil
}

// wasComplete reports whether as many members are bound as some start of the job needed: its minimum was raised since. Only of
// groups that others mark do the pods say so.
func wasComplete(job *model.Job) bool {
	if !job.Key.MarkedByOthers() {
		return false
	}
	bound, needed := 0, 0
	for _, task := range job.Tasks {
		if binds, ok := saidBinds(job, task); ok && onNode(task) {
			bound, needed = bound+1, max(needed, binds)
		}
	}
	return needed > 0 && bound >= needed
}

func onNode(task *model.Task) bool { return task.Status == model.Bound || task.Status == model.Running }

func binding(task *model.Task) bool { return task.Status == model.Binding }

func members(job *model.Job, which func(*model.Task) bool) (members []model.Eviction) {
	for _, task := range job.Tasks {
		if which(task) {
			members = append(members, model.Eviction{
				Pod: task.PodRef, Job: job.Key, Node: task.Node, Method: model.ByDeletion, GraceSeconds: task.GraceSeconds,
			})
		}
	}
	return members
}

// restarted is why what remains of a gang is deleted that was whole.
func restarted(job *model.Job, lost time.Time) *model.Refusal {
	return &model.Refusal{Code: model.MembersLost, Detail: fmt.Sprintf(
		"restarted as memberLoss says: it has lost members, and only %d of %d have been left since %s",
		job.Count((*model.Task).IsBound), job.MinMember, lost.UTC().Format(time.RFC3339))}
}

// What stands around the numbers of a start that was undone.
const (
	undonePrefix = "the start was undone, since "
	undoneSuffix = " were bound in time"
)

// undone is why the start of a gang is undone of which so many are bound; cause is why its other members were not.
func undone(job *model.Job, bound int, cause string) *model.Refusal {
	detail := fmt.Sprintf("%sonly %d of %d%s", undonePrefix, bound, job.MinMember, undoneSuffix)
	if cause != "" {
		detail += ": " + cause
	}
	return &model.Refusal{Code: model.BindFailed, Detail: detail}
}

// cause returns why members of a start were not bound. When it was undone before and the API server refused the deletion,
// that is the cause of then.
func (g *Gangs) cause(job *model.Job, lastRefusal *model.Refusal) string {
	why := g.delays.Binds.Reason(backoff.Of(job))
	if why == nil {
		why = lastRefusal
	}
	cause := why.String()
	if strings.HasPrefix(cause, undonePrefix) {
		_, cause, _ = strings.Cut(cause, undoneSuffix+": ")
	}
	return cause
}
