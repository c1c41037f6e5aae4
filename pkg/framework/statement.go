package framework

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Statement is a set of changes that happen together or not at all. It lives inside the function given to Session.Try
// and cannot be used outside it.
type Statement struct {
	session *Session
	closed  bool
}

// operation is one change and what it overwrote, so that undo cannot fail.
type operation struct {
	task   *model.Task
	before model.Position
	// reserved tells that reservers have set something aside, prepare that commits must tell the API server of it.
	reserved, prepare bool
	// isolation has the isolated CPUs that the task was given; nil when it was given none.
	isolation *model.Isolation
	// departed tells that the task is only supposed to have ended.
	departed bool
	// outright tells, of an eviction, that the pod is to be deleted.
	outright bool
}

// mark is what is known about a task that the open statement has marked for eviction: where it was, and whether it is to be
// deleted outright.
type mark struct {
	was      model.Position
	outright bool
}

// Try runs the body and keeps what it did when it returns nil; when it returns a refusal, nothing ever happened. Calls
// nest: an inner Try is a checkpoint of the outer one, whose refusal takes the inner's changes back too.
//
// When the outermost body returns nil, every gate of every job that got room is asked once more, and the decisions leave
// through the sink. So no action, whatever it does, starts part of a gang.
func (s *Session) Try(body func(*Statement) *model.Refusal) *model.Refusal {
	before := s.fingerprint()
	start, revision := len(s.log), s.Snapshot.Journal.Revision()
	statement := &Statement{session: s}
	s.depth++
	refusal := body(statement)
	s.depth--
	statement.closed = true
	if refusal == nil && s.depth == 0 {
		refusal = s.admit(s.log[start:])
	}
	if refusal != nil {
		s.undo(start)
		s.Snapshot.Journal.Rewind(revision)
		s.verify(before)
		return refusal
	}
	s.verify("")
	if s.depth == 0 {
		s.decide(s.log[start:])
		s.log = s.log[:0]
	}
	return nil
}

// Place gives a pending task idle room on a node. It refuses, and changes nothing, when there is none.
func (st *Statement) Place(task *model.Task, node *model.Node) *model.Refusal {
	return st.take(task, node, model.IdleRoom, model.Placed)
}

// Promise gives a pending task room on a node that is idle or being released. It refuses, and changes nothing, when
// there is none.
func (st *Statement) Promise(task *model.Task, node *model.Node) *model.Refusal {
	return st.take(task, node, model.FutureRoom, model.Promised)
}

func (st *Statement) take(task *model.Task, node *model.Node, room model.Room, status model.Status) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	if task.Status != model.Pending {
		return &model.Refusal{Code: CodeMisuse, Detail: fmt.Sprintf("pod %s is %s, not Pending", task, task.Status)}
	}
	if node.Refused != nil {
		return node.Refused
	}
	if alone := st.session.leftAlone(task.Job); alone != nil {
		return alone
	}
	st.session.lookFor(task, room)
	dimensions := st.session.Snapshot.Dimensions
	if lacking := dimensions.Lacking(node, task.Request, room); lacking >= 0 {
		if refusal := st.session.tellLack(task, node, lacking, room); refusal != nil {
			return refusal
		}
		return st.session.lacking(lacking)
	}
	op := operation{task: task}
	if status == model.Placed {
		refusal := st.session.assign(&op, task, node)
		if refusal != nil {
			return refusal
		}
		if op.prepare, refusal = st.session.reserve(task, node); refusal != nil {
			return refusal
		}
		op.reserved = len(st.session.slots.reserve) > 0
		if op.isolation != nil {
			task.Isolated = op.isolation.Assignment
		}
	}
	st.session.move(op, model.Position{Status: status, Node: node.Name})
	for _, observer := range st.session.slots.observe {
		observer.TaskPlaced(task)
	}
	return nil
}

// Evict marks a task that runs, or is about to, as releasing its room. It refuses when the task holds none, and where nobody
// may ever be evicted. When the outermost statement ends, no gang may have been cut below its minimum.
func (st *Statement) Evict(task *model.Task) *model.Refusal { return st.end(task, false) }

// Delete is Evict for a pod that is to be deleted outright, whatever budgets say.
func (st *Statement) Delete(task *model.Task) *model.Refusal { return st.end(task, true) }

func (st *Statement) end(task *model.Task, outright bool) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	if task.Status != model.Bound && task.Status != model.Running {
		return &model.Refusal{Code: CodeMisuse, Detail: fmt.Sprintf("pod %s is %s, not Bound or Running", task, task.Status)}
	}
	if refusal := sacrosanct(task); refusal != nil {
		return refusal
	}
	st.session.evicted[task] = mark{was: task.Position, outright: outright}
	st.session.move(operation{task: task, outright: outright}, model.Position{Status: model.Releasing, Node: task.Node})
	current := st.session.about(task)
	for _, observer := range st.session.slots.observe {
		observer.TaskEvicted(task)
	}
	st.session.current = current
	return nil
}

// Spare gives a task that this session's statement has marked for eviction its place back. It refuses when there is no such
// mark. What was placed or promised on the task's room since is for the caller to look at.
func (st *Statement) Spare(task *model.Task) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	known, marked := st.session.evicted[task]
	if !marked {
		return &model.Refusal{Code: CodeMisuse, Detail: fmt.Sprintf("pod %s is not marked for eviction", task)}
	}
	delete(st.session.evicted, task)
	before := task.Position
	st.session.move(operation{task: task, outright: known.outright}, known.was)
	current := st.session.about(task)
	for _, observer := range st.session.slots.observe {
		observer.TaskUndone(task, before)
	}
	st.session.current = current
	return nil
}

// Depart takes a task off its node as if it had ended, to see what there would be room for then. It refuses when the task is
// on no node. The statement must be refused in the end: nobody ends because somebody supposes so.
func (st *Statement) Depart(task *model.Task) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	if !task.Status.OnNode() {
		return &model.Refusal{Code: CodeMisuse, Detail: fmt.Sprintf("pod %s is %s, on no node", task, task.Status)}
	}
	before := task.Position
	st.session.move(operation{task: task, departed: true}, model.Position{Status: model.Succeeded})
	for _, observer := range st.session.slots.observe {
		observer.TaskUndone(task, before)
	}
	return nil
}

// Withdraw takes back a promise that an earlier statement of this session has made and that evicted nobody: it was for this
// cycle only. It refuses when the task has no promise.
func (st *Statement) Withdraw(task *model.Task) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	if task.Status != model.Promised {
		return &model.Refusal{Code: CodeMisuse, Detail: fmt.Sprintf("pod %s is %s, not Promised", task, task.Status)}
	}
	before := task.Position
	st.session.move(operation{task: task}, model.Position{Status: model.Pending})
	for _, observer := range st.session.slots.observe {
		observer.TaskUndone(task, before)
	}
	return nil
}

// CodeMisuse is the code of a refusal that only a bug in an action can cause.
const CodeMisuse model.Code = "Misuse"

func (st *Statement) usable() *model.Refusal {
	if st.closed {
		return &model.Refusal{Code: CodeMisuse, Detail: "the statement has ended"}
	}
	return nil
}

// reserve asks all reservers, or none in the end. What they keep outlives the session, so that a panic must not leave any of it.
func (s *Session) reserve(task *model.Task, node *model.Node) (prepare bool, refusal *model.Refusal) {
	defer func() {
		if value := recover(); value != nil {
			s.unreserveAll(task)
			rethrow(value)
		}
	}()
	for i, reserver := range s.slots.reserve {
		start := s.start()
		needed, refusal := reserver.Reserve(task, node)
		s.stop(reserver, reservePoint, start)
		if refusal != nil {
			s.unreserve(task, s.slots.reserve[:i])
			s.narrow(ForNow) // what is reserved is in no snapshot
			return false, refusal
		}
		prepare = prepare || needed
	}
	return prepare, nil
}

func (s *Session) unreserve(task *model.Task, reservers []Reserver) {
	for _, reserver := range slices.Backward(reservers) {
		reserver.Unreserve(task)
	}
}

// binder returns who binds a task's pod.
func (s *Session) binder(task *model.Task) string {
	for _, binder := range s.slots.bind {
		if name := binder.BinderOf(task); name != "" {
			return name
		}
	}
	return ""
}

func (s *Session) move(op operation, to model.Position) {
	op.before = s.Snapshot.Move(op.task, to)
	s.log = append(s.log, op)
}

// undo takes back everything after the checkpoint, last first.
func (s *Session) undo(checkpoint int) {
	current := s.current
	for _, op := range slices.Backward(s.log[checkpoint:]) {
		s.about(op.task)
		was := s.Snapshot.Move(op.task, op.before)
		if op.isolation != nil {
			op.task.Isolated = nil
		}
		switch {
		case op.departed:
		case was.Status == model.Releasing:
			delete(s.evicted, op.task)
		case op.before.Status == model.Releasing:
			s.evicted[op.task] = mark{was: was, outright: op.outright}
		}
		if op.reserved {
			s.unreserve(op.task, s.slots.reserve)
		}
		for _, observer := range slices.Backward(s.slots.observe) {
			switch {
			case op.departed || op.before.Status == model.Promised:
				observer.TaskPlaced(op.task)
			case op.before.Status == model.Releasing:
				observer.TaskEvicted(op.task)
			default:
				observer.TaskUndone(op.task, was)
			}
		}
	}
	s.current, s.log = current, s.log[:checkpoint]
}

// admit asks the gates about every job that got room.
//
// Invariant I1: a job with a placed task has all gates' consent on what is placed; one with promises only, on both.
func (s *Session) admit(operations []operation) *model.Refusal {
	asked := map[model.JobKey]Standing{}
	var jobs []model.JobKey
	for _, op := range operations {
		if op.departed {
			return &model.Refusal{Code: CodeMisuse, Detail: fmt.Sprintf("pod %s was supposed to have ended", op.task)}
		}
		standing := WithPlaced
		switch op.task.Status {
		case model.Promised:
			standing = WithPromised
		case model.Placed:
		default:
			continue
		}
		before, known := asked[op.task.Job]
		if !known {
			jobs = append(jobs, op.task.Job)
		}
		if !known || standing < before {
			asked[op.task.Job] = standing
		}
	}
	refusal := firstRefusal(jobs, func(key model.JobKey) *model.Refusal {
		return s.GateJob(s.Snapshot.Job(key), asked[key])
	})
	if refusal == nil && len(s.evicted) > 0 {
		refusal = s.admitEvictions(operations)
	}
	return refusal
}
