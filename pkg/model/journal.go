package model

import (
	corev1 "k8s.io/api/core/v1"
)

// Change is one entry of a snapshot's journal: a pod came to a node or left it, or the node itself is not what it was.
type Change struct {
	Node *Node
	// Pod is the pod that came or left; nil when the node changed: its object, what it offers, or whether it is refused, or
	// Room.
	Pod *corev1.Pod
	// Added tells whether the pod came or left.
	Added bool
	// Room tells that neither has changed, but how much of the node's room the snapshot's viewer may use.
	Room bool
	// Terminating tells that the pod is about to go: who looks ahead has never seen it there.
	Terminating bool
	// OfJob reports that the pod belongs to a job, and is no other scheduler's.
	OfJob bool
}

// Cursor is a place in a journal. The zero Mark is before its beginning: whoever holds it has seen nothing.
type Cursor struct{ layout, labels, serial uint64 }

// ChangeLog is the last changes of a snapshot, in their order, back and forth ones too. Who keeps answers about nodes
// remembers how far it has read, and brings its answers up to date at the cost of what changed since.
//
// The goroutine that owns the snapshot owns it.
type ChangeLog struct {
	// layout counts how often nodes were added or removed, labels how often those of a namespace changed; serial is the number of
	// the last change, altered that of the last one of a node itself.
	layout, labels, serial, altered uint64
	// changes are the last ones, up to number serial.
	changes []Change
	// content is the revision of everything, fixed that of what stays when all pods of jobs are gone. revisions counts them.
	content, fixed, revisions uint64
}

// Revision identifies what nodes, the pods on them, the room that is held and the labels of namespaces are at one moment: while
// it is the same, so are they. Whose view the accounting shows, and jobs that wait, are not in it.
type Revision uint64

// Revision returns the one of this moment.
func (j *ChangeLog) Revision() Revision { return Revision(j.content) }

// FixedRevision returns the revision of what does not leave with the pods of jobs: nodes, other pods, held room and labels.
func (j *ChangeLog) FixedRevision() Revision { return Revision(j.fixed) }

// Rewind reports that every change since the revision has been taken back.
func (j *ChangeLog) Rewind(to Revision) { j.content = uint64(to) }

// renew makes a revision that was never there before.
func (j *ChangeLog) renew(fixed bool) {
	j.revisions++
	j.content = j.revisions
	if fixed {
		j.fixed = j.revisions
	}
}

// maxChanges is how many changes are kept at least. Who has fallen behind by more looks at everything anew, which costs
// about as much.
const maxChanges = 1 << 15

// Number returns the number of the mark's last change, to compare with Node.Changed and Node.Altered.
func (m Cursor) Number() uint64 { return m.serial }

// Cursor returns the end of the journal.
func (j *ChangeLog) Cursor() Cursor {
	return Cursor{layout: j.layout, labels: j.labels, serial: j.serial}
}

// Since returns the changes after the mark. ok is false when they are not known any more, or when nodes came or went since:
// everything may be different then. The slice is valid until the next change.
func (j *ChangeLog) Since(mark Cursor) (changes []Change, ok bool) {
	behind := j.serial - mark.serial
	if mark.layout != j.layout || mark.layout == 0 || behind > uint64(len(j.changes)) {
		return nil, false
	}
	return j.changes[uint64(len(j.changes))-behind:], true
}

// SameNodes tells whether no node was added, removed or changed itself since the mark; pods may have come and gone.
func (j *ChangeLog) SameNodes(mark Cursor) bool {
	return mark.layout == j.layout && mark.layout != 0 && j.altered <= mark.serial
}

// NamespaceRelabelled takes down that the labels of a namespace have changed, or that one came or went. The live state calls it, never
// within a session.
func (j *ChangeLog) NamespaceRelabelled() {
	j.labels++
	j.renew(true)
}

// SameLabels tells whether every namespace has the labels that it had at the mark.
func (j *ChangeLog) SameLabels(mark Cursor) bool { return mark.layout != 0 && mark.labels == j.labels }

func (j *ChangeLog) add(change Change) {
	if len(j.changes) >= 2*maxChanges {
		kept := copy(j.changes, j.changes[len(j.changes)-maxChanges:])
		clear(j.changes[kept:]) // so that it holds on to nothing
		j.changes = j.changes[:kept]
	}
	j.serial++
	change.Node.Changed = j.serial
	if change.Pod == nil && !change.Room {
		change.Node.ObjectChanged, j.altered = j.serial, j.serial
	}
	j.renew(!change.OfJob && !change.Room)
	j.changes = append(j.changes, change)
}
