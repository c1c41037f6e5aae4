package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// DecisionSink receives what the session decided, statement by statement, while it goes on. It is called on the session's
// goroutine; the decision's effect must be assumed in the live state before it returns.
type DecisionSink func(model.Decision)

// Options are how a session runs.
type Options struct {
	// Decide receives decisions; nil drops them.
	Decide DecisionSink
	// OnAction is called when a part of the session begins, with its name: an action, or PartOpen and PartClose. It is for callers
	// that measure, since the session reads no clock; nil reports nothing. A session that has nothing to do has no parts.
	OnAction func(part string)
	// OnSearchCut is called when the search of an action for one job has ended because the work of the cycle, or a plugin's time
	// in it, is used up, with the action's name; for callers that measure. Nil reports nothing.
	OnSearchCut func(action string)
	// OnDeviceCountWrong is called when a node whose number of devices was enough for a task has none for it; nil reports nothing.
	OnDeviceCountWrong func()
	// Cache is what sessions hand on; nil keeps nothing beyond this session.
	Cache *Cache
	// OnPanic receives the panic of a plugin or an action that has ended the session, on the session's goroutine. Nil lets panics
	// through.
	OnPanic func(RecoveredPanic)
	// Stopwatch measures plugins; nil measures nothing.
	Stopwatch *PluginTimer
	// Afresh remembers nothing of a question for the next one, which changes nothing but what it costs: the measure of everything
	// that is remembered. For tests.
	Afresh bool
	// Verify checks the invariants after every statement and panics when one is broken. For tests.
	Verify bool
}

// The parts of a session that are no actions.
const (
	PartOpen  = "open"
	PartClose = "close"
)

// Session is one cycle's work on one snapshot: it asks the plugins, lets actions try statements, and sends out what they
// decide.
//
// Invariant: same snapshot and profile, same decisions in the same order.
type Session struct {
	// Snapshot may be read by everyone; only statements change it.
	Snapshot *model.Snapshot

	options  Options
	profile  *Profile
	slots    extensionPoints
	cache    *Cache
	refusals map[*model.Job]*model.Refusal
	// grounds are those of the verdict that is being found, or of what the session comes to beside its verdicts.
	grounds grounds

	// What the session knows for one purpose each: the type says what, in the file of the functions that use it.
	pipeline     pipeline
	changes      changes
	decisions    decisions
	nominations  nominations
	reservations reservations
	domains      jobDomains
	found        found

	// quarantined are the jobs about which no plugin is asked, since one has panicked over them lately; nil when there are none.
	quarantined map[model.JobKey]*model.Refusal
	// lastStart is the latest LastStart of all queues; zero before it is asked for.
	lastStart time.Time
	// pluginTimings are what is measured of plugins; nil when nothing is.
	pluginTimings map[pluginPoint]time.Duration
}

// found is what the session finds out once.
type found struct {
	// fitsEmpty is what FitsEmptyNode has found.
	fitsEmpty map[model.Shape]bool
	// precedes is what precedesHolders has found since the last decision.
	precedes map[model.JobKey]bool
	lacks    [][2]*model.Refusal
	// limits are the refusals by limits of queues; nil when there was none.
	limits map[limitKey]*model.Refusal
}

// view is a session as plugins see it.
type view struct{ *Session }

// Snapshot returns the session's snapshot.
func (v view) Snapshot() *model.Snapshot { return v.Session.Snapshot }

// SessionOf returns the session of a view, for judges in tests that ask more than a plugin may.
func SessionOf(of framework.View) *Session { return of.(view).Session }

// Open starts a session: plugins are made, slots filled, openers called in tier order.
func Open(snapshot *model.Snapshot, profile *Profile, options Options) *Session {
	s := newSession(snapshot, profile, options)
	s.open()
	return s
}

// newSession returns a session without plugins.
func newSession(snapshot *model.Snapshot, profile *Profile, options Options) *Session {
	s := &Session{
		Snapshot: snapshot, options: options, profile: profile, cache: options.Cache,
		changes:   changes{evicted: map[*model.Task]evictionMark{}},
		decisions: decisions{reclaimed: map[model.JobKey]bool{}},
		nominations: nominations{
			renewed: map[model.JobKey]bool{}, returned: map[model.JobKey]bool{}, made: map[types.UID]bool{},
		},
		reservations: reservations{made: map[model.JobKey]*model.Reservation{}, overstayed: map[model.JobKey][]*model.Job{}},
		domains:      jobDomains{jobs: sharingIn(snapshot)},
		found:        found{fitsEmpty: map[model.Shape]bool{}, precedes: map[model.JobKey]bool{}},
		quarantined:  quarantinedIn(snapshot), pluginTimings: options.Stopwatch.newTimings(),
	}
	if s.cache == nil {
		s.cache = &Cache{}
	}
	s.cache.begin(profile, snapshot)
	s.refusals = make(map[*model.Job]*model.Refusal, s.cache.refused)
	snapshot.AssignIndexes()
	return s
}

func (s *Session) open() {
	s.slots = s.profile.resolvePoints()
	for _, opener := range s.slots.openSession {
		start := s.start()
		opener.OpenSession(view{s})
		s.stop(opener, openSession, start)
	}
}

// Close ends the session: what has lapsed is released, and closers are called in reverse tier order. What was nominated and
// not placed lapses with it.
func (s *Session) Close() {
	s.releaseExpired()
	for _, closer := range slices.Backward(s.slots.closeSess) {
		start := s.start()
		closer.CloseSession(view{s})
		s.stop(closer, closeSession, start)
	}
	s.Snapshot.EndSession()
	s.reportTimings()
	s.cache.refused = len(s.refusals)
}

// Result is what a session comes to beside its decisions.
type Result struct {
	// Refusals says why each job waits, by key. It must not be changed.
	Refusals map[model.JobKey]*model.Refusal
	// Until is when a session may come to something else although nothing happens; zero is never.
	Until time.Time
}

// Run opens a session, executes the profile's actions in order, closes it and returns what it comes to. Where the last session
// decided nothing, and nothing has changed since, its result is returned again.
func Run(snapshot *model.Snapshot, profile *Profile, options Options) Result {
	before := options.Cache.idleResultFor(snapshot, profile)
	if before != nil && !options.Verify && !options.Afresh {
		return *before
	}
	s := newSession(snapshot, profile, options)
	s.cache.clearTrail()
	whole := s.runRecovered()
	result := Result{Refusals: make(map[model.JobKey]*model.Refusal, len(s.refusals))}
	for job, refusal := range s.refusals {
		result.Refusals[job.Key] = refusal
		s.Until(refusal.Until)
	}
	result.Until = s.grounds.until
	if whole {
		s.verifyRest(before, result.Refusals)
		s.cache.rest = s.recordIdle(result)
	}
	return result
}

// run executes the actions.
func (s *Session) run() {
	s.began(PartOpen)
	s.open()
	s.limitReservations(s.profile.Actions)
	s.findOverstayed()
	s.execute()
	s.began(PartClose)
	s.Close()
}

func (s *Session) began(part string) {
	if s.options.OnAction != nil {
		s.options.OnAction(part)
	}
}

// SearchCut records that the action's search for a job has ended because the work of the cycle, or a plugin's time for it, is
// used up. Nothing is decided by it, and what is found holds in no other session.
func (s *Session) SearchCut() {
	s.Until(s.Snapshot.Now)
	if s.options.OnSearchCut != nil && s.pipeline.part < len(s.profile.Actions) {
		s.options.OnSearchCut(s.profile.Actions[s.pipeline.part].Name())
	}
}

// DeviceCountWrong records that a node whose number of devices was enough for a task has none for it.
func (s *Session) DeviceCountWrong() {
	if s.options.OnDeviceCountWrong != nil {
		s.options.OnDeviceCountWrong()
	}
}

// send sends out a decision.
func (s *Session) send(decision model.Decision) {
	s.decisions.any = true
	clear(s.found.precedes)
	if s.options.Decide != nil {
		s.decisions.sending = true
		s.options.Decide(decision)
		s.decisions.sending = false
	}
}

// Refuse records why a job waits; nil takes the record back. The last word counts.
func (s *Session) Refuse(job *model.Job, refusal *model.Refusal) {
	if refusal == nil && s.refusals[job] == nil {
		return
	}
	s.addStep(job, refusal)
	if s.refusals[job] = refusal; refusal == nil {
		delete(s.refusals, job)
	}
}

// Refusal returns why a job waits, nil when no action has refused it.
func (s *Session) Refusal(job *model.Job) *model.Refusal { return s.refusals[job] }

// CompareJobs orders two jobs, in total. Those that are left alone come last.
func (s *Session) CompareJobs(a, b *model.Job) int {
	if len(s.quarantined) > 0 {
		switch alone, other := s.quarantined[a.Key], s.quarantined[b.Key]; {
		case alone != nil && other != nil:
			return model.CompareJobs(a, b)
		case alone != nil:
			return 1
		case other != nil:
			return -1
		}
	}
	compare := func(a, b *model.Job) int {
		return firstNonZero(s.slots.jobOrder, framework.JobOrderer.CompareJobs, model.CompareJobs, a, b)
	}
	defer s.charge(model.JobKey{}, func(job *model.Job) { compare(job, job) }, a, b)
	return compare(a, b)
}

// CompareTasks orders two tasks of one job, in total.
func (s *Session) CompareTasks(a, b *model.Task) int {
	if s.quarantined[a.Job] != nil {
		return model.CompareTasks(a, b)
	}
	defer s.charge(a.Job, nil)
	return firstNonZero(s.slots.taskOrder, framework.TaskOrderer.CompareTasks, model.CompareTasks, a, b)
}

// ValidateJob returns why the job need not be tried at all: what the live state found wrong with it, that its queue does not let
// it start, that it names a level which is unknown, that it is held back, the first validator's refusal, or that its minimum
// exceeds a limit of its queue.
func (s *Session) ValidateJob(job *model.Job) *model.Refusal {
	refusal := s.ValidateAlone(job)
	if refusal == nil {
		refusal = s.minimumOverLimit(job)
	}
	return refusal
}

// ValidateAlone returns the same, whatever other jobs hold of the limits.
func (s *Session) ValidateAlone(job *model.Job) *model.Refusal {
	defer s.charge(job.Key, nil)
	if job.Invalid != nil {
		return job.Invalid
	}
	if refusal := s.queueRefusal(job); refusal != nil {
		return refusal
	}
	if invalid := s.invalidTopology(job); invalid != nil {
		return invalid
	}
	if held := s.Snapshot.JobBackoff[job.Key]; held != nil {
		return held
	}
	return firstRefusal(s.slots.jobValid, func(v framework.JobValidator) *model.Refusal {
		start := s.start()
		refusal := v.ValidateJob(job)
		s.stop(v, config.JobValid, start)
		return refusal
	})
}

// JobReady returns why the job may not start as it stands now, nil when it may.
func (s *Session) JobReady(job *model.Job, standing framework.Readiness) *model.Refusal {
	if job != nil { // else the snapshot does not list it
		if alone := s.quarantined[job.Key]; alone != nil {
			return alone
		}
		defer s.charge(job.Key, nil)
	}
	return firstRefusal(s.slots.jobGate, func(g framework.JobReadiness) *model.Refusal {
		start := s.start()
		refusal := g.JobReady(job, standing)
		s.stop(g, config.JobGate, start)
		return refusal
	})
}

// Uncached reports that nothing may be remembered, so that what is can be held to it. For tests.
func (s *Session) Uncached() bool { return s.options.Afresh }
