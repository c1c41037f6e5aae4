package engine

import (
	"bytes"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file ends a session in which a plugin or an action panics: its open statement is taken back, what was decided before
// stands, and the panic is charged to the job that the innermost question was about. The caller holds that job back and runs
// another session.

// Engine stands for this package where a plugin or an action is named.
const Engine = "engine"

// RecoveredPanic is a panic of a plugin, an action, or of code that they call, that has ended a session.
type RecoveredPanic struct {
	// Where is the name of the plugin or action, Engine when it was neither.
	Where string
	// Job is the one to hold back; nil when the panic is about no single job.
	Job *model.Job
	// Refusal says why the job is held back.
	Refusal *model.Refusal
	// Stack is for a log.
	Stack string
}

// runRecovered reports whether the session ran to its end. Two panics are not recovered: of a broken invariant, and of the
// receiver of decisions, since what is decided and what is assumed may differ then.
func (s *Session) runRecovered() (whole bool) {
	if s.options.OnPanic == nil {
		s.run()
		return true
	}
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		over, known := value.(charged)
		if known {
			value = over.value
		}
		if _, invariant := value.(invariantViolation); invariant || s.decisions.sending {
			rethrow(value)
		}
		stack := debug.Stack()
		recovered := RecoveredPanic{Where: s.innermost(stack), Job: s.jobOfPanic(over.job), Stack: string(stack)}
		recovered.Refusal = &model.Refusal{
			Plugin: recovered.Where, Code: model.Quarantined, Detail: recovered.Where + " panicked: " + model.OneLine(value),
		}
		s.abandon()
		if recovered.Job == nil {
			s.refuseUnvisited(recovered.Refusal)
		}
		s.options.OnPanic(recovered)
	}()
	s.run()
	return true
}

// charged is a panic and the job that it is charged to, until the edge of the session.
type charged struct {
	value any
	job   model.JobKey
}

// charge is deferred where plugins are asked about a job, or about several, and where a job has its turn. It charges a panic to
// the first of several over which the question alone panics, else to the job, unless a question within has charged it.
func (s *Session) charge(job model.JobKey, alone func(*model.Job), several ...*model.Job) {
	if s.options.OnPanic == nil {
		return
	}
	value := recover()
	if value == nil {
		return
	}
	if _, known := value.(charged); !known {
		if i := slices.IndexFunc(several, func(one *model.Job) bool { return panics(func() { alone(one) }) }); i >= 0 {
			job = several[i].Key
		}
		if job != (model.JobKey{}) {
			value = charged{value, job}
		}
	}
	rethrow(value)
}

// InTurn calls an action's function in which a job has its turn. What panics there costs this job, unless plugins were asked
// about another one.
func (s *Session) InTurn(job *model.Job, do func()) {
	defer s.charge(job.Key, nil)
	do()
}

// jobOfPanic returns the job that a panic is charged to: outside of any turn it is the one to which the open statement gave
// capacity last. It is nil when there is none, or when it is held back already.
func (s *Session) jobOfPanic(key model.JobKey) *model.Job {
	for i := len(s.changes.log) - 1; i >= 0 && key == (model.JobKey{}); i-- {
		if status := s.changes.log[i].task.Status; status == model.Allocated || status == model.Pipelined {
			key = s.changes.log[i].task.Job
		}
	}
	if s.quarantined[key] != nil {
		return nil
	}
	return s.Snapshot.Job(key)
}

// panics reports whether a call panics; the session goes on.
func panics(call func()) (recovered bool) {
	defer func() { recovered = recover() != nil }()
	call()
	return false
}

// abandon takes back what the open statement did after a panic in it. Observers are not called: each knows an unknown part of
// it, and is made again for the next session. What plugins and actions keep beyond the session is dropped.
//
// Invariant I9: the snapshot is as it was before the statement.
func (s *Session) abandon() {
	for _, op := range slices.Backward(s.changes.log) {
		s.Snapshot.Move(op.task, op.before)
		if op.isolation != nil {
			op.task.Isolated = nil
		}
		if op.reserved {
			s.unreserveAll(op.task)
		}
	}
	s.changes.log = nil
	for _, part := range s.parts() {
		if keeper, ok := part.(framework.CacheResetter); ok {
			panics(keeper.ResetCache)
		}
	}
	s.Snapshot.EndSession()
	s.verify("")
}

// unreserveAll calls every reserver, whether or not it had its turn before the panic.
func (s *Session) unreserveAll(task *model.Task) {
	for _, reserver := range slices.Backward(s.slots.reserve) {
		panics(func() { reserver.Unreserve(task) })
	}
}

// refuseUnvisited says why the jobs wait that had no turn.
func (s *Session) refuseUnvisited(because *model.Refusal) {
	s.pipeline.part = len(s.profile.Actions) // no action refuses them
	refusal := &model.Refusal{
		Plugin: because.Plugin, Code: model.CycleFailed,
		Detail: "some jobs were not evaluated in this cycle, they are in the next: " + because.Detail,
	}
	for _, job := range s.Snapshot.Jobs {
		waits := func(task *model.Task) bool { return task.Status == model.Pending }
		if s.refusals[job] == nil && job.Count(waits) > 0 {
			s.Refuse(job, refusal)
		}
	}
}

// quarantinedIn returns why no plugin is asked about some jobs: one has panicked over them lately.
func quarantinedIn(snapshot *model.Snapshot) map[model.JobKey]*model.Refusal {
	quarantined := maps.Clone(snapshot.JobBackoff)
	maps.DeleteFunc(quarantined, func(_ model.JobKey, held *model.Refusal) bool { return held.Code != model.Quarantined })
	return quarantined
}

// parts returns the plugins, then the actions.
func (s *Session) parts() (parts []interface{ Name() string }) {
	for _, plugin := range s.slots.all {
		parts = append(parts, plugin)
	}
	for _, action := range s.profile.Actions {
		parts = append(parts, action)
	}
	return parts
}

// innermost returns the name of the plugin or action whose package comes first in a stack, which is deepest first.
func (s *Session) innermost(stack []byte) string {
	where, first := Engine, len(stack)
	for _, part := range s.parts() {
		kind := reflect.TypeOf(part)
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if at := bytes.Index(stack, []byte("\n"+kind.PkgPath()+".")); at >= 0 && at < first {
			where, first = part.Name(), at
		}
	}
	return where
}
