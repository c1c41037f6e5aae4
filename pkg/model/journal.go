package model

import (
	"slices"

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
	// undone are the numbers of changes after which everything was the same, as who made those in between has said; in their order.
	undone []uint64
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
func (j *ChangeLog) NamespaceRelabelled() { j.labels++ }

// SameLabels tells whether every namespace has the labels that it had at the mark.
func (j *ChangeLog) SameLabels(mark Cursor) bool { return mark.layout != 0 && mark.labels == j.labels }

// maxRewinds is how many places in the journal are known to be the same.
const maxRewinds = 16

// Rewind says that everything since the mark has been taken back.
func (j *ChangeLog) Rewind(mark Cursor) {
	if mark.layout != j.layout {
		return
	}
	if n := len(j.undone); n == 0 || j.undone[n-1] != mark.serial {
		j.undone = append(j.undone[:0], mark.serial)
	}
	j.undone = append(j.undone, j.serial)
	j.undone = j.undone[max(0, len(j.undone)-maxRewinds):]
}

// Unchanged tells whether, as far as the journal knows, everything is as it was at the mark. False is always safe.
func (j *ChangeLog) Unchanged(mark Cursor) bool {
	n := len(j.undone)
	return mark == j.Cursor() ||
		mark.layout == j.layout && mark.labels == j.labels && n > 0 && j.undone[n-1] == j.serial && slices.Contains(j.undone, mark.serial)
}

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
	j.changes = append(j.changes, change)
}
