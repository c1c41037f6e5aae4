package commit

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file takes binds back. Kubernetes cannot unbind a pod, so it is deleted, the very incarnation that was bound; who
// created it may create it anew.

// Undo deletes the pods of a job that were bound, each of them until the API server has answered for good. The outcomes Undone
// and UndoFailed follow. Pods that are being deleted by an earlier Undo are left out.
func (m *Machine) Undo(now time.Time, job model.JobKey, bound []model.Bind) {
	undo := &callGroup{kind: CallDeleteStarted, job: job, noDeadline: true}
	for _, bind := range bound {
		under := func(e *entry) bool { return e.call.Kind == CallDeleteStarted }
		if !slices.ContainsFunc(m.targetQueues[target{uid: bind.Pod.UID}], under) {
			undo.add(Call{Kind: CallDeleteStarted, Job: job, Pod: bind.Pod, Node: bind.Node})
		}
	}
	m.begin(now, undo)
}

// failUndo ends the undo of a pod that was not deleted by it.
func (m *Machine) failUndo(now time.Time, e *entry, gone bool, outcome Outcome) {
	outcome.Kind = UndoFailed
	if gone {
		outcome = Outcome{Kind: StartUndone, PodGone: true}
	}
	m.finalizeDecision(now, e, outcome)
}
