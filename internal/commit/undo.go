package commit

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file undoes binds. Kubernetes cannot unbind a pod, so it is deleted, the very incarnation that was bound; its owner
// may create it again.

// Undo deletes the pods of a job that were bound, each of them until the API server's answer is final. The outcomes
// StartUndone and UndoFailed follow. Pods that are being deleted by an earlier Undo are left out.
func (m *Machine) Undo(now time.Time, job model.JobKey, bound []model.Eviction) {
	undo := &callGroup{kind: CallDeleteStarted, job: job, noDeadline: true}
	for _, member := range bound {
		under := func(e *entry) bool { return e.call.Kind == CallDeleteStarted }
		if !slices.ContainsFunc(m.targetQueues[target{uid: member.Pod.UID}], under) {
			undo.add(Call{Kind: CallDeleteStarted, Job: job, Pod: member.Pod, Node: member.Node, GraceSeconds: member.GraceSeconds})
		}
	}
	m.begin(now, undo)
}

// failUndo ends an undo that did not delete its pod.
func (m *Machine) failUndo(now time.Time, e *entry, gone bool, outcome Outcome) {
	outcome.Kind = UndoFailed
	if gone {
		outcome = Outcome{Kind: StartUndone, PodGone: true}
	}
	m.finalizeDecision(now, e, outcome)
}
