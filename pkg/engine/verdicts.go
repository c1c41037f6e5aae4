package engine

import (
	"slices"
	"time"
	"unique"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the one cache of what actions find out about jobs that cannot start. Actions keep nothing of their own.

// Question is what an action wants to know about a job.
type Question struct {
	// Action is the action that asks; one with several questions adds which one.
	Action string
	// Class is the part of the job's class that decides about the answer, such as model.Class.Placement.
	Class model.Class
	// Emptied reports that the answer is about the cluster without the pods of jobs, so that it holds whichever of them come and
	// go.
	Emptied bool
	// Given is what else the answer depends on, beyond the revision of the snapshot; zero for nothing.
	Given unique.Handle[string]
	// ByFit reports that a refusal's Has is the largest number of members that find capacity: each job of the class that needs more
	// than Has is refused, too. Without ByFit, only jobs that need at least as many as the refused one are.
	ByFit bool
}

// ofPresentPods is the question whose answer is kept only while no pod of a job comes or goes: filters have looked at some.
func (q Question) ofPresentPods() Question {
	q.Action, q.Emptied = q.Action+" with pods", false
	return q
}

// Reach is for which jobs a verdict holds while nothing changes.
type Reach int8

// The reaches, each narrower than the one before.
const (
	// ForClass: nothing but the class decides.
	ForClass Reach = iota
	// ForJob: something else about the job has a part in it, such as labels or affinity of its members.
	ForJob
	// ForNow: more than the snapshot has a part in it, so that it must not be kept.
	ForNow
)

// grounds are what an answer rests on: for which jobs it holds while nothing changes, and until when; zero is never.
type grounds struct {
	reach Reach
	until time.Time
}

// narrow adds to what the answer rests on that is being found.
func (s *Session) narrow(by grounds) {
	s.grounds = grounds{reach: max(s.grounds.reach, by.reach), until: model.Sooner(s.grounds.until, by.until)}
}

// Until says that the answer that is being found may be another one at that moment although nothing happens; zero is never. An
// answer that holds in no other session has the time of this one: it is not kept, and is asked for again after RetryAfter.
func (s *Session) Until(at time.Time) {
	if holds(at, s.Snapshot.Now) {
		s.narrow(grounds{until: at})
	} else {
		s.narrow(grounds{reach: ForNow, until: s.Snapshot.Now.Add(RetryAfter)})
	}
}

// RetryAfter is after how long another session runs where an answer of one holds in no other.
const RetryAfter = 5 * time.Second

// holds reports whether an answer holds that was given until then.
func holds(until, now time.Time) bool { return until.IsZero() || until.After(now) }

// verdicts is what is known at one revision of the snapshot.
type verdicts struct {
	revision model.Revision
	known    map[verdictKey]verdict
}

// verdictKey is a question as one viewer asks it. Either class or job is zero. The class of uniform members is without its
// minimum, since the verdict says for which it holds.
type verdictKey struct {
	action    string
	given     unique.Handle[string]
	class     model.Class
	job       model.JobKey
	viewpoint model.Viewpoint
}

// verdict is what was found: of uniform members, for more than one minimum.
type verdict struct {
	// refusal is for minima of refused and above; nil when none was refused.
	refusal *model.Refusal
	refused int32
	// agreed reports that the answer was yes for minima up to upTo.
	agreed bool
	upTo   int32
	// version is that of the job, and until when the verdict holds, if it is the job's own.
	version uint64
	until   time.Time
}

// Remember returns what find says about a job that waits: nil, or why not, and which jobs that holds for as far as find knows.
// While find is called, the session's grounds are those of its answer alone: each question narrows them by what filters, scores
// and the time had to do with it. What was found before is returned without another look where it must be the same: for a job of
// the same class, for more members of the same shape, or for the same job. It is kept unless find leaves a trace in the snapshot.
// Remember is called outside of statements.
//
// Invariant: a verdict is given from the cache only if find would come to the same, in the same words.
func (a Ask) Remember(question Question, find func(Ask) (*model.Refusal, Reach)) *model.Refusal {
	if !a.session.cacheable(&question, a.Job) {
		refusal, _ := find(a)
		return refusal
	}
	known, ok := a.recall(question)
	if !ok && question.Emptied {
		known, ok = a.recall(question.ofPresentPods())
	}
	if ok {
		return known
	}
	journal, outer := &a.session.Snapshot.Journal, a.session.grounds
	a.session.grounds = grounds{}
	before := journal.Revision()
	refusal, reach := find(a)
	on := a.session.grounds
	if question.Emptied && on.reach > ForClass {
		question = question.ofPresentPods()
	}
	on.reach = max(on.reach, reach)
	if before == journal.Revision() {
		a.keep(question, refusal, on)
	}
	a.session.narrow(outer)
	return refusal
}

// Recall returns what is known about the job as the snapshot stands; ok is false when nothing is.
func (a Ask) Recall(question Question) (refusal *model.Refusal, ok bool) {
	if !a.session.cacheable(&question, a.Job) {
		return nil, false
	}
	return a.recall(question)
}

// Keep keeps what was found about the job as the snapshot stands. It is for actions that ask about several jobs together;
// others call Remember.
func (a Ask) Keep(question Question, refusal *model.Refusal, reach Reach) {
	if a.session.cacheable(&question, a.Job) {
		a.keep(question, refusal, grounds{reach: reach})
	}
}

// cacheable reports whether an answer about the job may be kept. A job that has been placed in this session has no class.
func (s *Session) cacheable(question *Question, job *model.Job) bool {
	placed := slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Status.HasNode() })
	if placed {
		question.Class = model.Class{}
	}
	return !s.options.Afresh && s.changes.depth == 0 && !s.hasFaulty(job) && !(placed && question.Emptied)
}

// verdictsFor returns what is known for such a question as the snapshot stands.
func (s *Session) verdictsFor(question Question) *verdicts {
	known, revision := &s.cache.verdicts, s.Snapshot.Journal.Revision()
	if question.Emptied {
		known, revision = &s.cache.emptied, s.Snapshot.Journal.FixedRevision()
	}
	if known.known == nil || known.revision != revision || len(known.known) > maxVerdicts+2*len(s.Snapshot.Jobs) {
		*known = verdicts{revision: revision, known: map[verdictKey]verdict{}}
	}
	return known
}

// maxVerdicts is how many verdicts are kept at least, besides some for each job.
const maxVerdicts = 1000

func (a *Ask) recall(question Question) (refusal *model.Refusal, ok bool) {
	known, job, viewpoint := a.session.verdictsFor(question).known, a.Job, a.Viewpoint()
	if question.Class != (model.Class{}) {
		switch shared := known[sharedKey(question, viewpoint)]; {
		case shared.refusal != nil && (!question.Class.Uniform || job.MinMember >= shared.refused):
			return withMinimum(shared.refusal, job), true
		case shared.agreed && (!question.Class.Uniform || job.MinMember <= shared.upTo) && a.plain() && !job.InQueue().Limited():
			return nil, true
		}
	}
	own, ok := known[ownKey(question, job, viewpoint)]
	if !ok || own.version != job.Version || !holds(own.until, a.session.Snapshot.Now) {
		return nil, false
	}
	a.session.Until(own.until)
	return own.refusal, true
}

// plain reports whether nothing but shapes and capacity decides where members of the job may go, so that it has a place wherever
// one of its class has, unless a limit of its queue forbids it.
func (a *Ask) plain() bool {
	return !slices.ContainsFunc(a.Job.Tasks, func(task *model.Task) bool { return !a.Rests(task, OnShape) })
}

// sharedKey returns the key for all jobs of the class.
func sharedKey(question Question, viewpoint model.Viewpoint) verdictKey {
	if question.Class.Uniform {
		question.Class.MinMember = 0
	}
	return verdictKey{action: question.Action, given: question.Given, class: question.Class, viewpoint: viewpoint}
}

// ownKey returns the key for the job alone.
func ownKey(question Question, job *model.Job, viewpoint model.Viewpoint) verdictKey {
	return verdictKey{action: question.Action, given: question.Given, job: job.Key, viewpoint: viewpoint}
}

// keep keeps an answer. One that holds until some time is the job's own: jobs of its class may wait since other times.
func (a *Ask) keep(question Question, refusal *model.Refusal, on grounds) {
	if refusal != nil {
		on.until = model.Sooner(on.until, refusal.Until)
	}
	known, job, viewpoint := a.session.verdictsFor(question).known, a.Job, a.Viewpoint()
	switch {
	case !holds(on.until, a.session.Snapshot.Now):
	case on.reach == ForClass && on.until.IsZero() && question.Class != (model.Class{}):
		key := sharedKey(question, viewpoint)
		shared := known[key]
		switch {
		case refusal == nil:
			shared.agreed, shared.upTo = true, max(shared.upTo, job.MinMember)
		case question.ByFit:
			shared.refusal, shared.refused = refusal, int32(refusal.Has)+1
		default:
			shared.refusal, shared.refused = refusal, job.MinMember
		}
		known[key] = shared
	case on.reach <= ForJob && job.Version != 0:
		known[ownKey(question, job, viewpoint)] = verdict{refusal: refusal, version: job.Version, until: on.until}
	}
}

// withMinimum returns a refusal of members like the job's in the numbers of the job.
func withMinimum(refusal *model.Refusal, job *model.Job) *model.Refusal {
	if !job.Class.Uniform || refusal.Needs == 0 || refusal.Needs == int64(job.MinMember) {
		return refusal
	}
	inherited := *refusal
	inherited.Needs = int64(job.MinMember)
	return &inherited
}

// hasFaulty reports whether the API server has lately refused members of the job: they are tried last, until time ends that.
func (s *Session) hasFaulty(job *model.Job) bool {
	faulty := s.Snapshot.BindBackoff
	return len(faulty) > 0 && slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return faulty[task.UID] != nil })
}
