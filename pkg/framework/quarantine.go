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

// Caught is a panic of a plugin, an action, or of code that they call, that ended a session.
type Caught struct {
	// Where is the name of the plugin or action, "engine" when neither can be told.
	Where string
	// Job is the one that it costs: it is left alone for the rest of the cycle. Nil when nobody can tell; the cycle has ended
	// then.
	Job *model.Job
	// Refusal is what the job, or everybody who was not looked at, is told.
	Refusal *model.Refusal
	// Cut tells that the cycle ended with it: there are others who were not looked at.
	Cut bool
	// Stack is for a log.
	Stack string
}

// mostCaught is after how many panics a cycle ends: each costs another session. Those who were not looked at come first in the
// next cycle, since whoever panicked is left alone then.
const mostCaught = 16

// engine is who panicked when no plugin or action did.
const engine = "engine"

// catch does one part of a session and returns what it panicked with, nil when it came to its end. Broken invariants are not
// caught, nor is a panic of who receives decisions: what was decided would not be what is assumed.
func (s *Session) catch(part func()) (caught *Caught) {
	if s.options.Caught == nil {
		part()
		return nil
	}
	defer func() {
		if what := recover(); what != nil {
			s.letThrough(what)
			where := s.culprit()
			caught = &Caught{Where: where, Stack: string(debug.Stack()), Refusal: &model.Refusal{
				Plugin: where, Code: model.Quarantined, Detail: where + " panicked: " + InOneLine(what),
			}}
		}
	}()
	part()
	return nil
}

// goOn ends a session that has panicked and returns the one that takes its place, nil when the cycle is over.
func (s *Session) goOn(caught *Caught) *Session {
	caught.Job = s.blamed()
	s.abandon()
	s.panics++
	caught.Cut = caught.Job == nil || s.panics >= mostCaught
	if caught.Job != nil {
		s.quarantined[caught.Job.Key] = caught.Refusal
		s.Refuse(caught.Job, caught.Refusal)
	}
	s.options.Caught(*caught)
	if caught.Cut {
		s.refuseRest(caught)
		return nil
	}
	next := newSession(s.Snapshot, s.profile, s.options)
	next.at, next.panics, next.quarantined = s.at, s.panics, s.quarantined
	next.deferred, next.resumed = s.deferred, s.resumed
	next.refusals, next.decided, next.wake = s.refusals, s.decided, s.wake
	next.lapsed, next.renewed, next.returned, next.promised = s.lapsed, s.renewed, s.returned, s.promised
	return next
}

// blamed returns the job whose turn it was, or that of the victim it was about; nil when it was nobody's, or that of one who is left
// alone already.
func (s *Session) blamed() *model.Job {
	if s.compared[0] != nil {
		return s.disordered()
	}
	var victim *model.Job
	switch {
	case s.picking != nil:
		victim = s.poisonous(s.picking)
	case s.leaving != nil:
		victim = s.Snapshot.Job(s.leaving.Job)
	}
	if victim != nil && s.quarantined[victim.Key] == nil {
		return victim
	}
	if s.quarantined[s.turn] != nil {
		return nil
	}
	return s.Snapshot.Job(s.turn)
}

// disordered returns which of two jobs cannot be put in order: the one that cannot even be compared with itself.
func (s *Session) disordered() *model.Job {
	for _, job := range s.compared {
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
	s.forget()
	s.Snapshot.LookAhead(false)
	if len(s.Snapshot.Holds()) > 0 {
		s.Snapshot.See(model.Viewer{})
	}
	s.verify("")
}

// forget lets plugins and actions forget what they keep beyond a session.
func (s *Session) forget() {
	for _, plugin := range s.slots.all {
		if keeper, ok := plugin.(Forgetter); ok {
			s.catch(keeper.Forget)
		}
	}
	for _, action := range s.profile.Actions {
		if keeper, ok := action.(Forgetter); ok {
			s.catch(keeper.Forget)
		}
	}
}

func (s *Session) unreserveAll(task *model.Task) {
	for _, reserver := range slices.Backward(s.slots.reserve) {
		s.catch(func() { reserver.Unreserve(task) })
	}
}

// refuseRest tells everybody who waits and was not looked at why.
func (s *Session) refuseRest(caught *Caught) {
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

// leftAlone returns why nobody is to be asked about the job, nil when everybody may be.
func (s *Session) leftAlone(key model.JobKey) *model.Refusal {
	if len(s.quarantined) == 0 {
		return nil
	}
	return s.quarantined[key]
}

// culprit returns the plugin or action that was innermost when the panic began; to be called while it goes on.
func (s *Session) culprit() string {
	callers := make([]uintptr, 256)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		for _, plugin := range s.slots.all {
			if belongs(frame.Function, plugin) {
				return plugin.Name()
			}
		}
		for _, action := range s.profile.Actions {
			if belongs(frame.Function, action) {
				return action.Name()
			}
		}
	}
	return engine
}

// belongs tells whether a function is a method of the type of the value, or stands beside it in its package; here, it has to be a
// method.
func belongs(function string, value any) bool {
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

// longestText is how much of what somebody panicked with is shown, in bytes.
const longestText = 256

// InOneLine says what somebody panicked with, for a reason that users read.
func InOneLine(what any) string {
	text := strings.Join(strings.Fields(fmt.Sprint(what)), " ")
	if len(text) > longestText {
		text = text[:longestText]
	}
	return strings.ToValidUTF8(text, "")
}
