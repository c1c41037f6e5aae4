package framework

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what becomes of a cycle in which a plugin or an action panics. The session ends where it stands: its open statement
// is taken back, its plugins, who may know half of it, are made anew, and so is what is remembered of shapes. The job whose turn
// it was is not asked about any more, and another session goes on with the action that was interrupted. What was decided before
// stands.

// RecoveredPanic is a panic of a plugin, an action, or of code that they call, that ended a session.
type RecoveredPanic struct {
	// Where is the name of the plugin or action, "engine" when neither can be told.
	Where string
	// Job is the one that it costs: it is left alone for the rest of the cycle. Nil when nobody can tell; the cycle has ended
	// then.
	Job *model.Job
	// Refusal is what the job, or everybody who was not looked at, is told.
	Refusal *model.Refusal
	// Truncated tells that the cycle ended with it: there are others who were not looked at.
	Truncated bool
	// Stack is for a log.
	Stack string
}

// maxPanicsPerSession is after how many panics a cycle ends: each costs another session. Those who were not looked at come first in the
// next cycle, since whoever panicked is left alone then.
const maxPanicsPerSession = 16

// engine is who panicked when no plugin or action did.
const engine = "engine"

// catch does one part of a session and returns what it panicked with, nil when it came to its end. Broken invariants are not
// caught, nor is a panic of who receives decisions: what was decided would not be what is assumed.
func (s *Session) catch(part func()) (caught *RecoveredPanic) {
	if s.options.OnPanic == nil {
		part()
		return nil
	}
	defer func() {
		if what := recover(); what != nil {
			s.rethrow(what)
			where := s.panickingComponent()
			caught = &RecoveredPanic{Where: where, Stack: string(debug.Stack()), Refusal: &model.Refusal{
				Plugin: where, Code: model.Quarantined, Detail: where + " panicked: " + OneLine(what),
			}}
		}
	}()
	part()
	return nil
}

// resumeAfterPanic ends a session that has panicked and returns the one that takes its place, nil when the cycle is over.
func (s *Session) resumeAfterPanic(caught *RecoveredPanic) *Session {
	caught.Job = s.jobOfPanic()
	s.abandon()
	s.panics++
	caught.Truncated = caught.Job == nil || s.panics >= maxPanicsPerSession
	if caught.Job != nil {
		s.quarantined[caught.Job.Key] = caught.Refusal
		s.Refuse(caught.Job, caught.Refusal)
	}
	s.options.OnPanic(*caught)
	if caught.Truncated {
		s.refuseUnvisited(caught)
		return nil
	}
	next := newSession(s.Snapshot, s.profile, s.options)
	next.currentPart, next.panics, next.quarantined = s.currentPart, s.panics, s.quarantined
	next.deferred, next.resumed = s.deferred, s.resumed
	next.refusals, next.decided, next.wake = s.refusals, s.decided, s.wake
	next.lapsed, next.renewed, next.returned, next.promised = s.lapsed, s.renewed, s.returned, s.promised
	return next
}

// jobOfPanic returns the job whose turn it was, or that of the victim it was about; nil when it was nobody's, or that of one who is left
// alone already.
func (s *Session) jobOfPanic() *model.Job {
	if s.comparedJobs[0] != nil {
		return s.unorderableJob()
	}
	var victim *model.Job
	switch {
	case s.victimQuery != nil:
		victim = s.panickingUnit(s.victimQuery)
	case s.victimInFlight != nil:
		victim = s.Snapshot.Job(s.victimInFlight.Job)
	}
	if victim != nil && s.quarantined[victim.Key] == nil {
		return victim
	}
	if s.quarantined[s.currentJob] != nil {
		return nil
	}
	return s.Snapshot.Job(s.currentJob)
}

// unorderableJob returns which of two jobs cannot be put in order: the one that cannot even be compared with itself.
func (s *Session) unorderableJob() *model.Job {
	for _, job := range s.comparedJobs {
		alone := func() { firstNonZero(s.slots.jobOrder, JobOrderer.CompareJobs, model.CompareJobs, job, job) }
		if s.catch(alone) != nil {
			return job
		}
	}
	return nil
}

// Abandon takes back what the open statement did, for who has opened the session and sees somebody panic in it. The session is of no
// use any more.
func (s *Session) Abandon() { s.abandon() }

// abandon takes back what the open statement did. Observers are not told: they have been told half of it at most, and are made
// anew. What was set aside outlives them and is given back, by each of the reservers, whether or not it had its turn.
//
// Invariant I9: the snapshot is as it was before the statement.
func (s *Session) abandon() {
	for _, op := range slices.Backward(s.log) {
		s.Snapshot.Move(op.task, op.before)
		if op.isolation != nil {
			op.task.Isolated = nil
		}
		if op.reserved {
			s.unreserveAll(op.task)
		}
	}
	if s.reserving != nil {
		s.unreserveAll(s.reserving)
	}
	s.log = nil
	s.memory.forget()
	s.resetCaches()
	s.Snapshot.ExcludeTerminating(false)
	if len(s.Snapshot.Held()) > 0 {
		s.Snapshot.SetViewpoint(model.Viewpoint{})
	}
	s.verify("")
}

// resetCaches lets plugins and actions forget what they keep beyond a session.
func (s *Session) resetCaches() {
	for _, plugin := range s.slots.all {
		if keeper, ok := plugin.(CacheResetter); ok {
			s.catch(keeper.ResetCache)
		}
	}
	for _, action := range s.profile.Actions {
		if keeper, ok := action.(CacheResetter); ok {
			s.catch(keeper.ResetCache)
		}
	}
}

func (s *Session) unreserveAll(task *model.Task) {
	for _, reserver := range slices.Backward(s.slots.reserve) {
		s.catch(func() { reserver.Unreserve(task) })
	}
}

// refuseUnvisited tells everybody who waits and was not looked at why.
func (s *Session) refuseUnvisited(caught *RecoveredPanic) {
	refusal := &model.Refusal{
		Plugin: caught.Where, Code: model.CycleFailed,
		Detail: "the scheduler could not look at all jobs, it will try again: " + caught.Refusal.Detail,
	}
	for _, job := range s.Snapshot.Jobs {
		waits := func(task *model.Task) bool { return task.Status == model.Pending }
		if s.refusals[job.Key] == nil && job.Count(waits) > 0 {
			s.refusals[job.Key] = refusal
		}
	}
}

// quarantineRefusal returns why nobody is to be asked about the job, nil when everybody may be.
func (s *Session) quarantineRefusal(key model.JobKey) *model.Refusal {
	if len(s.quarantined) == 0 {
		return nil
	}
	return s.quarantined[key]
}

// panickingComponent returns the plugin or action that was innermost when the panic began; to be called while it goes on.
func (s *Session) panickingComponent() string {
	callers := make([]uintptr, 256)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		for _, plugin := range s.slots.all {
			if isMethodOf(frame.Function, plugin) {
				return plugin.Name()
			}
		}
		for _, action := range s.profile.Actions {
			if isMethodOf(frame.Function, action) {
				return action.Name()
			}
		}
	}
	return engine
}

// isMethodOf tells whether a function is a method of the type of the value, or stands beside it in its package; here, it has to be a
// method.
func isMethodOf(function string, value any) bool {
	kind := reflect.TypeOf(value)
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	path := kind.PkgPath()
	if path == "" {
		return false
	}
	if path == reflect.TypeFor[Session]().PkgPath() {
		return strings.HasPrefix(function, path+"."+kind.Name()+".") || strings.HasPrefix(function, path+".(*"+kind.Name()+").")
	}
	return strings.HasPrefix(function, path+".")
}

// maxTextLength is how much of what somebody panicked with is shown, in bytes.
const maxTextLength = 256

// OneLine says what somebody panicked with, for a reason that users read.
func OneLine(what any) string {
	text := strings.Join(strings.Fields(fmt.Sprint(what)), " ")
	if len(text) > maxTextLength {
		text = text[:maxTextLength]
	}
	return strings.ToValidUTF8(text, "")
}
