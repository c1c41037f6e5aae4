package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/gang"
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
	if job.BelowMinimum || !job.NothingPending {
		return true
	}
	if _, is := g.isNowRead(job); is {
		return true
	}
	if g.follows(partID{job: job.Key}) {
		return true
	}
	return slices.ContainsFunc(job.Present.Roles, func(role model.Role) bool { return role.MadeLater && g.follows(partID{job.Key, role.Name}) })
}

func (g *Gangs) follows(id partID) bool {
	_, observed := g.observed[id]
	_, started := g.starts[id]
	return observed || started
}

// Check returns what is to be done about a gang. group is its PodGroup, nil for an implicit group. lastRefusal is why the last
// cycle refused it, nil when it did not; mayStart reports whether a gang that is restarted could start again, else none is. A
// gang that is undone is delayed from then on; the caller carries it out.
func (g *Gangs) Check(job *model.Job, group *v1alpha1.PodGroup, lastRefusal *model.Refusal, mayStart bool, now time.Time) (all Verdict) {
	if firstFound, is := g.isNowRead(job); is {
		delete(g.unread, job.Key)
		g.find(job, firstFound, now)
	}
	for p := range partsOf(job) {
		all.add(g.checkPart(p, group, lastRefusal, mayStart, now))
		if all.Undo != nil && p.id.isFirst() { // the others are undone with it
			break
		}
	}
	return all
}

// add adds what is to be done about another part of the gang.
func (v *Verdict) add(other Verdict) {
	v.Again = model.Sooner(v.Again, other.Again)
	if v.Held == nil {
		v.Held = other.Held
	}
	switch {
	case v.Undo == nil:
		v.Undo = other.Undo
	case other.Undo != nil:
		v.Undo.Members = append(v.Undo.Members, other.Undo.Members...)
	}
}

func (g *Gangs) checkPart(p part, group *v1alpha1.PodGroup, lastRefusal *model.Refusal, mayStart bool, now time.Time) Verdict {
	g.follow(p, now)
	if until, awaits := g.awaitsReset(p, now); awaits {
		return Verdict{Again: until, Held: &model.Refusal{
			Code: model.MembersLost, Detail: "no bound member is left; the gang starts again when its status says so",
		}}
	}
	if !p.BelowMinimum {
		return Verdict{}
	}
	due, ok := g.due(p, now)
	restart, which := false, g.starts[p.id].bindsOf(p).has
	if !ok && g.whole(p) {
		restart, which = true, onNode
		due, ok = restartAt(group)
	}
	switch {
	case !ok, restart && !mayStart:
		return Verdict{}
	case due.After(now):
		return Verdict{Again: due}
	case restart && g.delays.Undone.Delayed(backoff.Of(p.job), now): // the API server has refused the deletion
		return Verdict{}
	}
	var why *model.Refusal
	if restart {
		why = restarted(p, group.Status.DegradedSince.Time)
	} else {
		why = undone(p, p.Count(which), g.cause(p.job, lastRefusal))
	}
	if slices.ContainsFunc(p.undone(), binding) { // until the result of these binds is known
		return Verdict{Held: why}
	}
	g.delays.Undone.Fail(backoff.Of(p.job), why, now)
	if begun, known := g.starts[p.id]; known { // if the API server refuses the deletion, it may be completed then, or is undone again
		begun.undone, begun.deadline = true, g.delays.Undone.Until(backoff.Of(p.job)).Add(g.repair)
		g.starts[p.id] = begun
	}
	return Verdict{Undo: &Undo{Why: why, Members: members(p, which)}}
}

// follow records a group that has lost all its members before its status says so, and drops what is no longer needed.
func (g *Gangs) follow(p part, now time.Time) {
	observed, known := g.observed[p.id]
	shown := p.Whole == observed.whole && (p.job.HasGroup || !observed.whole || !g.mayFind(now)) // no longer, once a container has ended
	if known && (p.job.UID != observed.group || shown || observed.whole && !gang.Remains(p.undone())) {
		delete(g.observed, p.id)
	}
	if begun, known := g.starts[p.id]; known && begun.group != p.job.UID { // its object was made again
		begun.group = p.job.UID
		g.starts[p.id] = begun
	}
	if begun, known := g.starts[p.id]; known && p.FirstUnmetMinimum((*model.Task).IsBound) == nil {
		if begun.bound = true; begun.isOver(now) {
			g.observe(p, true, now) // nothing was bound for it since: its minimum was lowered
		}
		g.starts[p.id] = begun
	}
	if start, known := g.starts[p.id]; known && (g.whole(p) || !start.isLeft(p)) {
		delete(g.starts, p.id)
	}
	if !p.job.NothingPending && p.Whole && !gang.Remains(p.undone()) {
		g.observe(p, false, now)
	}
}

// awaitsReset reports whether a group that could start again waits until its status no longer says that it is whole, and until
// when at most: after a crash, part of the new start would be taken for the rest of the old gang, and left alone. A status that
// cannot be written delays the group by no more than MaxStatusWait.
func (g *Gangs) awaitsReset(p part, now time.Time) (until time.Time, awaits bool) {
	observed := g.observed[p.id]
	if observed.group != p.job.UID || observed.whole || !p.Whole || gang.Remains(p.undone()) ||
		p.FirstUnmetMinimum((*model.Task).Exists) != nil {
		return until, false
	}
	until = observed.since.Add(MaxStatusWait)
	return until, until.After(now)
}

// due returns until when the start of a part below its minimum may be completed; ok is false when it is no interrupted start.
func (g *Gangs) due(p part, now time.Time) (at time.Time, ok bool) {
	begun, known := g.starts[p.id]
	if g.whole(p) || begun.bound {
		return at, false
	}
	if !known || begun.group != p.job.UID {
		if !g.mayFind(now) {
			return at, false // this process has begun no such start, and found none
		}
		begun = foundStart(p, g.leadingSince)
	}
	if begun.deadline.IsZero() {
		first := begun.bindsOf(p).first()
		if first.IsZero() {
			return at, false
		}
		deadline := commit.Deadline(g.deadline, int(p.MinMember))
		begun.deadline = now.Add(deadline - min(deadline, max(0, now.Sub(first))))
		if repaired := g.since(begun).Add(g.repair); begun.deadline.Before(repaired) {
			begun.deadline = repaired
		}
		g.starts[p.id] = begun
	}
	return begun.deadline, true
}

// mayFind reports whether a start that is not known may be one of a process before this one.
func (g *Gangs) mayFind(now time.Time) bool { return !now.After(g.leadingSince.Add(g.repair)) }

// since is from when on this process may complete a start: since it found it, or began to lead.
func (g *Gangs) since(begun start) time.Time {
	if begun.found.After(g.leadingSince) {
		return begun.found
	}
	return g.leadingSince
}

// isOver reports whether the start can be completed no more.
func (s start) isOver(now time.Time) bool { return !s.deadline.IsZero() && now.After(s.deadline) }

func members(p part, which func(*model.Task) bool) (members []model.Eviction) {
	for _, task := range p.undone() {
		if which(task) {
			members = append(members, model.Eviction{
				Pod: task.PodRef, Job: p.id.job, Node: task.Node, Method: model.ByDeletion, GraceSeconds: task.GraceSeconds,
			})
		}
	}
	return members
}

// restartAt returns when what is left of a degraded group is to be deleted, so that it starts again; ok is false when it is
// to be left alone.
func restartAt(group *v1alpha1.PodGroup) (at time.Time, ok bool) {
	if group == nil || group.Status.DegradedSince == nil {
		return at, false
	}
	loss := group.Spec.MemberLoss
	if loss == nil || loss.Policy != v1alpha1.MemberLossRestart {
		return at, false
	}
	timeout := int64(defaultLossTimeout)
	if loss.TimeoutSeconds != nil {
		timeout = min(*loss.TimeoutSeconds, longestLossTimeout)
	}
	return group.Status.DegradedSince.Add(time.Duration(timeout) * time.Second), true
}

// In seconds: how long a group that restarts may be degraded when it does not say, as the API server adds it to new objects, and
// a time that is never reached and can be counted in nanoseconds.
const (
	defaultLossTimeout = 300
	longestLossTimeout = 100 * 365 * 24 * 3600
)

// restarted is why what remains of a gang is deleted that was whole.
func restarted(p part, lost time.Time) *model.Refusal {
	return &model.Refusal{Code: model.MembersLost, Detail: fmt.Sprintf(
		"restarted as memberLoss says: it has lost members, and only %d of %d have been left since %s",
		p.Count((*model.Task).IsBound), p.MinMember, lost.UTC().Format(time.RFC3339))}
}

// What stands around the numbers of a start that was undone.
const (
	undonePrefix = "the start was undone, since "
	undoneSuffix = " were bound in time"
)

// undone is why the start of a part is undone of which so many are bound; cause is why its other members were not.
func undone(p part, bound int, cause string) *model.Refusal {
	of := ""
	if !p.id.isFirst() {
		of = " of role " + p.id.role
	}
	detail := fmt.Sprintf("%sonly %d of %d%s%s", undonePrefix, bound, p.MinMember, of, undoneSuffix)
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
