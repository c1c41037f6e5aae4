package engine

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Statement is a set of changes that happen together or not at all. It lives inside the function given to Session.Try
// and cannot be used outside it.
type Statement struct {
	session *Session
	closed  bool
}

// changes are those of the open statements.
type changes struct {
	log []operation
	// depth is how many statements are open, one in the other.
	depth int
	// evicted are the tasks that are marked for eviction, and right is by which pods of other queues are; empty when none are.
	evicted map[*model.Task]evictionMark
	right   model.Right
}

// operation is one change and what it overwrote, so that undo cannot fail.
type operation struct {
	task   *model.Task
	before model.Placement
	// job is the job that capacity was asked for: it says what the start needs. It is nil for other changes.
	job *model.Job
	// reserved reports that reservers have set something aside, prepare that commits must tell the API server of it.
	reserved, prepare bool
	// isolation has the isolated CPUs that the task was given; nil when it was given none.
	isolation *model.Isolation
	// departed reports that the task is only supposed to have ended.
	departed bool
	// method is how the pod of an eviction is ended.
	method model.EvictionMethod
}

// evictionMark is what is known about a task that the open statement has marked for eviction: where it was, and how it is ended.
type evictionMark struct {
	was    model.Placement
	method model.EvictionMethod
}

// Try runs the body and keeps what it did when it returns nil; when it returns a refusal, nothing ever happened. Calls
// nest: an inner Try is a checkpoint of the outer one, whose refusal takes the inner's changes back too.
//
// When the outermost body returns nil, every gate of every job that got capacity is asked once more, limits of queues are
// looked at again, and the decisions leave through Options.Decide. So no action starts part of a gang.
func (s *Session) Try(body func(*Statement) *model.Refusal) *model.Refusal {
	before := s.fingerprint()
	start, revision := len(s.changes.log), s.Snapshot.Journal.Revision()
	statement := &Statement{session: s}
	s.changes.depth++
	refusal := body(statement)
	s.changes.depth--
	statement.closed = true
	if refusal == nil && s.changes.depth == 0 {
		refusal = s.checkGates(s.changes.log[start:])
	}
	if refusal != nil {
		s.undo(start)
		s.Snapshot.Journal.Rewind(revision)
		s.verify(before)
		return refusal
	}
	s.verify("")
	if s.changes.depth == 0 {
		s.emitDecisions(s.changes.log[start:])
		s.changes.log = s.changes.log[:0]
	}
	return nil
}

// Put gives a pending task capacity on a node: it allocates idle capacity, and nominates the task to capacity that is idle or
// being released. It refuses, and changes nothing, when there is none.
func (st *Statement) Put(ask Ask, task *model.Task, node *model.Node) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	if task.Status != model.Pending {
		return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s is %s, not Pending", task, task.Status)}
	}
	if node.Invalid != nil {
		return node.Invalid
	}
	if alone := st.session.quarantined[task.Job]; alone != nil {
		return alone
	}
	if refusal := ask.OverLimit(task); refusal != nil {
		return refusal
	}
	defer ask.session.charge(task.Job, nil)
	ask.open()
	dimensions := st.session.Snapshot.Dimensions.For(task)
	if lacking := dimensions.InsufficientResource(node.Free(ask.Kind), task.Request); lacking >= 0 {
		if refusal := st.session.explainShortage(task, node, lacking, ask.Kind); refusal != nil {
			return refusal
		}
		return st.session.lacking(task, lacking, hasNone(node, lacking))
	}
	op, status := operation{task: task, job: ask.Job}, model.Pipelined
	if ask.Kind == model.Idle {
		status = model.Allocated
		refusal := st.session.allocateCPUs(&op, task, node)
		if refusal != nil {
			return refusal
		}
		if !ask.As.ByNumbers {
			if op.prepare, refusal = st.session.reserve(task, node); refusal != nil {
				return refusal
			}
			op.reserved = len(st.session.slots.reserve) > 0
		}
		if op.isolation != nil {
			task.Isolated = op.isolation.Assignment
		}
	}
	st.session.move(op, model.Placement{Status: status, Node: node.Name})
	st.session.tell(task, func(observer framework.EventHandler) { observer.OnAllocate(task) })
	return nil
}

// Evict marks a task that runs, or is about to, as releasing its capacity. It refuses when the task holds none, and where the
// task may never be evicted. When the outermost statement ends, no gang may have been cut below its minimum.
func (st *Statement) Evict(task *model.Task) *model.Refusal {
	return st.EvictBy(task, model.ByEviction)
}

// EvictBy is Evict for a pod whose disruption budgets do not decide.
func (st *Statement) EvictBy(task *model.Task, method model.EvictionMethod) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	if task.Status != model.Bound && task.Status != model.Running {
		return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s is %s, not Bound or Running", task, task.Status)}
	}
	if refusal := isSystemCritical(task); refusal != nil {
		return refusal
	}
	st.session.changes.evicted[task] = evictionMark{was: task.Placement, method: method}
	st.session.move(operation{task: task, method: method}, model.Placement{Status: model.Releasing, Node: task.Node})
	st.session.tell(task, func(observer framework.EventHandler) { observer.OnEvict(task) })
	return nil
}

// Unevict gives a task that this session's statement has marked for eviction its place back. It refuses when there is no such
// mark. What was placed or nominated on the task's capacity since is for the caller to look at.
func (st *Statement) Unevict(task *model.Task) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	known, marked := st.session.changes.evicted[task]
	if !marked {
		return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s is not marked for eviction", task)}
	}
	delete(st.session.changes.evicted, task)
	before := task.Placement
	st.session.move(operation{task: task, method: known.method}, known.was)
	st.session.tell(task, func(observer framework.EventHandler) { observer.OnDeallocate(task, before) })
	return nil
}

// SimulateCompletion takes a task off its node as if it had ended, to see what would fit then. It refuses when the task is on
// no node. The statement must be refused in the end: the task still runs.
func (st *Statement) SimulateCompletion(task *model.Task) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	if !task.Status.HasNode() {
		return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s is %s, on no node", task, task.Status)}
	}
	before := task.Placement
	st.session.move(operation{task: task, departed: true}, model.Placement{Status: model.Succeeded})
	st.session.tell(task, func(observer framework.EventHandler) { observer.OnDeallocate(task, before) })
	return nil
}

// Unpipeline takes back a nomination that an earlier statement of this session has made and that evicted no pod: it was for
// this cycle only. It refuses when the task has no nomination.
func (st *Statement) Unpipeline(task *model.Task) *model.Refusal {
	if refusal := st.usable(); refusal != nil {
		return refusal
	}
	if task.Status != model.Pipelined {
		return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s is %s, not Pipelined", task, task.Status)}
	}
	before := task.Placement
	st.session.move(operation{task: task}, model.Placement{Status: model.Pending})
	st.session.tell(task, func(observer framework.EventHandler) { observer.OnDeallocate(task, before) })
	return nil
}

func (st *Statement) usable() *model.Refusal {
	if st.closed {
		return &model.Refusal{Code: framework.CodeMisuse, Detail: "the statement has ended"}
	}
	return nil
}

// reserve asks all reservers, or none in the end.
func (s *Session) reserve(task *model.Task, node *model.Node) (prepare bool, refusal *model.Refusal) {
	ended := false
	defer func() {
		if !ended { // a reserver has panicked
			s.unreserveAll(task)
		}
	}()
	for i, reserver := range s.slots.reserve {
		start := s.start()
		var needed bool
		needed, refusal = reserver.Reserve(task, node)
		s.stop(reserver, reservePoint, start)
		if refusal != nil {
			s.unreserve(task, s.slots.reserve[:i])
			s.narrow(grounds{reach: ForNow}) // what is reserved is in no snapshot
			s.Until(refusal.Until)
			break
		}
		prepare = prepare || needed
	}
	ended = true
	return prepare, refusal
}

// tell tells the observers about a task.
func (s *Session) tell(task *model.Task, how func(framework.EventHandler)) {
	defer s.charge(task.Job, nil)
	for _, observer := range s.slots.observe {
		how(observer)
	}
}

func (s *Session) unreserve(task *model.Task, reservers []framework.Reserver) {
	for _, reserver := range slices.Backward(reservers) {
		reserver.Unreserve(task)
	}
}

// binder returns the name of the plugin that binds a task's pod.
func (s *Session) binder(task *model.Task) string {
	for _, binder := range s.slots.bind {
		if name := binder.BinderOf(task); name != "" {
			return name
		}
	}
	return ""
}

func (s *Session) move(op operation, to model.Placement) {
	op.before = s.Snapshot.Move(op.task, to)
	s.moveShared(op.task, op.before)
	s.changes.log = append(s.changes.log, op)
}

// undo takes back everything after the checkpoint, last first.
func (s *Session) undo(checkpoint int) {
	for i := len(s.changes.log) - 1; i >= checkpoint; i-- {
		s.revert(&s.changes.log[i])
	}
	s.changes.log = s.changes.log[:checkpoint]
}

// revert takes back one change.
func (s *Session) revert(op *operation) {
	defer s.charge(op.task.Job, nil)
	was := s.Snapshot.Move(op.task, op.before)
	s.moveShared(op.task, was)
	if op.isolation != nil {
		op.task.Isolated = nil
	}
	switch {
	case op.departed:
	case was.Status == model.Releasing:
		delete(s.changes.evicted, op.task)
	case op.before.Status == model.Releasing:
		s.changes.evicted[op.task] = evictionMark{was: was, method: op.method}
	}
	if op.reserved {
		s.unreserve(op.task, s.slots.reserve)
	}
	for _, observer := range slices.Backward(s.slots.observe) {
		switch {
		case op.departed || op.before.Status == model.Pipelined:
			observer.OnAllocate(op.task)
		case op.before.Status == model.Releasing:
			observer.OnEvict(op.task)
		default:
			observer.OnDeallocate(op.task, was)
		}
	}
}

// checkGates asks the gates about every job that got capacity.
//
// Invariant I1: a job with a placed task has all gates' consent on what is placed; one with nominations only, on both.
func (s *Session) checkGates(operations []operation) *model.Refusal {
	type question struct {
		job      *model.Job
		standing framework.Readiness
	}
	var asked []question // few: most statements are about one job
	for _, op := range operations {
		if op.departed {
			return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s was supposed to have ended", op.task)}
		}
		standing := framework.Ready
		switch {
		case op.job == nil:
			continue // it has got no capacity by this
		case op.task.Status == model.Pipelined:
			standing = framework.Pipelined
		case op.task.Status != model.Allocated:
			continue
		case !op.reserved && len(s.slots.reserve) > 0:
			return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s was placed by numbers alone", op.task)}
		}
		switch at := slices.IndexFunc(asked, func(q question) bool { return q.job.Key == op.task.Job }); {
		case at < 0:
			asked = append(asked, question{op.job, standing})
		case standing < asked[at].standing:
			asked[at].standing = standing
		}
	}
	refusal := firstRefusal(asked, func(q question) *model.Refusal { return s.JobReady(q.job, q.standing) })
	if refusal == nil {
		refusal = s.checkQueues(operations)
	}
	if refusal == nil && len(s.changes.evicted) > 0 {
		refusal = s.checkEvictions(operations)
	}
	return refusal
}
