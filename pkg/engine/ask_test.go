package engine

import "github.com/tutti-sched/tutti/pkg/model"

// askFor returns the plain question about a task's job.
func (s *Session) askFor(task *model.Task, kind model.CapacityKind) Ask {
	return s.Ask(s.Snapshot.Job(task.Job), kind)
}

// allocate and pipeline put a task on a node by the plain question.
func (st *Statement) allocate(task *model.Task, node *model.Node) *model.Refusal {
	return st.Put(st.session.askFor(task, model.Idle), task, node)
}

func (st *Statement) pipeline(task *model.Task, node *model.Node) *model.Refusal {
	return st.Put(st.session.askFor(task, model.FutureIdle), task, node)
}
