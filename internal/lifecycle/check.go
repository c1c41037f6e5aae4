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

// Concerns reports whether there is anything to check about a job.
func (g *Gangs) Concerns(job *model.Job) bool {
	if !job.IsSchedulableGroup() {
		return false
	}
	_, unread := g.unread[job.Key]
	if unread || job.BelowMinimum || !job.NothingPending || g.knows(partID{job: job.Key}) {
		return true
	}
	return slices.ContainsFunc(job.Present.Roles, func(role model.Role) bool { return role.MadeLater && g.knows(partID{job.Key, role.Name}) })
}

func (g *Gangs) knows(id partID) bool {
	_, known := g.parts[id]
	return known
}

// Check returns what is to be done about a gang. group is its PodGroup, nil for an implicit group. lastRefusal is why the last
// cycle refused it, nil when it did not; mayStart reports whether a gang that is restarted could start again, else none is. A
// gang that is undone is delayed from then on; the caller carries it out.
func (g *Gangs) Check(job *model.Job, group *v1alpha1.PodGroup, lastRefusal *model.Refusal, mayStart bool, now time.Time) (all Verdict) {
	judged, unread := g.unread[job.Key]
	parts := 0
	for p := range partsOf(job) {
		g.follow(p, now)
		if parts++; g.mayFind(now) || unread && parts > judged {
			g.find(p, now)
		}
		all.add(g.checkPart(p, group, lastRefusal, mayStart, now))
		if all.Undo != nil && p.isFirst() { // the others are undone with it
			return all
		}
	}
	if unread {
		g.setJudged(job, parts)
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
	r := g.record(p)
	// After a crash, part of a new start would be taken for the rest of the old gang, and left alone. A status that cannot be
	// written delays the group for a while only.
	awaits := !r.lost.IsZero() && !p.remains() && p.FirstUnmetMinimum((*model.Task).Exists) == nil
	if until := r.lost.Add(MaxStatusWait); awaits && until.After(now) {
		return Verdict{Again: until, Held: &model.Refusal{
			Code: model.MembersLost, Detail: "no bound member is left; the gang starts again when its status says so",
		}}
	}
	if !p.BelowMinimum {
		return Verdict{}
	}
	if r.isOpen() && r.deadline.IsZero() {
		r = g.setDeadline(p, r, g.leadingSince, now)
	}
	restart, due, which := r.wasWhole(p), r.deadline, r.isOf
	if restart {
		due, which = restartAt(group), onNode
	}
	of := backoff.Of(p.job)
	switch {
	case due.IsZero(), restart && !mayStart:
		return Verdict{}
	case due.After(now):
		return Verdict{Again: due}
	case restart && g.delays.Undone.Delayed(of, now): // the API server has refused the deletion
		return Verdict{}
	}
	var why *model.Refusal
	if restart {
		why = restarted(p, group.Status.DegradedSince.Time)
	} else {
		why = wasUndone(p, p.Count(which), g.cause(p.job, lastRefusal))
	}
	if slices.ContainsFunc(p.all(), model.Binding.Is) { // until the result of these binds is known
		return Verdict{Held: why}
	}
	g.delays.Undone.Fail(of, why, now)
	if !restart { // if the API server refuses the deletion, it may be completed then, or is undone again
		r.stage, r.deadline = undone, g.delays.Undone.Until(of).Add(g.repair)
		g.parts[p.id()] = r
	}
	undo := &Undo{Why: why}
	for _, task := range p.all() {
		if which(task) {
			undo.Members = append(undo.Members, model.Eviction{
				Pod: task.PodRef, Job: p.job.Key, Node: task.Node, Method: model.ByDeletion, GraceSeconds: task.GraceSeconds,
			})
		}
	}
	return Verdict{Undo: undo}
}

// follow takes in what the API says of a part now, and forgets what is no longer needed.
func (g *Gangs) follow(p part, now time.Time) {
	r := g.record(p)
	switch {
	case r.isWhole():
		if !p.remains() || p.Whole && (p.job.HasGroup || !g.mayFind(now)) {
			r.stage = none
		}
	case r.isOpen() && p.isBound():
		r = record{group: r.group, stage: seen, minima: p.minima()}
	case r.isShown(p), !r.isLeft(p):
		r.stage = none
	}
	switch {
	case !p.Whole:
		r.lost = time.Time{}
	case r.lost.IsZero() && !p.job.NothingPending && !p.remains():
		r.lost = now
	}
	if r.stage == none {
		r = record{group: r.group, lost: r.lost}
	}
	if g.parts[p.id()] = r; r.stage == none && r.lost.IsZero() {
		delete(g.parts, p.id())
	}
}

// isLeft reports whether a member of the part that was started is bound or about to be, or has succeeded; once it is undone,
// whether one is left of which it is not known that the API server deletes it.
func (r record) isLeft(p part) bool {
	if r.stage == undone {
		return p.Count(r.isOf) > 0 || p.Count(isToBeDeleted) > 0
	}
	return gang.Remains(p.Tasks)
}

// setDeadline records the deadline of a start of which a member was bound: so long after the first bind, but not before this
// process, which could complete it since then, has had some time for it.
func (g *Gangs) setDeadline(p part, r record, since, now time.Time) record {
	var first time.Time
	for _, task := range p.Tasks {
		if r.isOf(task) {
			first = model.Sooner(first, model.PodScheduled(task.Pod).LastTransitionTime.Time)
		}
	}
	if first.IsZero() { // they were created with their nodes
		return r
	}
	deadline := commit.Deadline(g.deadline, int(p.MinMember))
	r.deadline = now.Add(deadline - min(deadline, max(0, now.Sub(first))))
	if repaired := since.Add(g.repair); r.deadline.Before(repaired) {
		r.deadline = repaired
	}
	g.parts[p.id()] = r
	return r
}

// mayFind reports whether a start that is not known may be one of a process before this one.
func (g *Gangs) mayFind(now time.Time) bool { return !now.After(g.leadingSince.Add(g.repair)) }

// restartAt returns when what is left of a degraded group is to be deleted, so that it starts again; zero when it is to be left
// alone.
func restartAt(group *v1alpha1.PodGroup) (at time.Time) {
	if group == nil || group.Status.DegradedSince == nil {
		return at
	}
	loss := group.Spec.MemberLoss
	if loss == nil || loss.Policy != v1alpha1.MemberLossRestart {
		return at
	}
	timeout := int64(defaultLossTimeout)
	if loss.TimeoutSeconds != nil {
		timeout = min(*loss.TimeoutSeconds, longestLossTimeout)
	}
	return group.Status.DegradedSince.Add(time.Duration(timeout) * time.Second)
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

// wasUndone is why the start of a part is undone of which so many are bound; cause is why its other members were not.
func wasUndone(p part, bound int, cause string) *model.Refusal {
	of := ""
	if !p.isFirst() {
		of = " of role " + p.Role
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
