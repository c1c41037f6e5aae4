package model

import (
	corev1 "k8s.io/api/core/v1"
)

// Change is one entry of a snapshot's journal: a pod was added to a node or removed, or the node itself changed.
type Change struct {
	Node *Node
	// Pod is the pod that was added or removed; nil when the node changed: its object, its capacity, or whether it is
	// refused, or Room.
	Pod *corev1.Pod
	// Added reports whether the pod was added or removed.
	Added bool
	// Room reports that none of these changed, but how much of the node's capacity the snapshot's viewpoint may use.
	Room bool
	// Terminating reports whether the pod is terminating: a reader that excludes terminating pods never saw it on the node.
	Terminating bool
	// OfJob reports whether the pod belongs to a job of this scheduler.
	OfJob bool
}

// Cursor is a position in a journal. The zero Cursor is before its beginning.
type Cursor struct{ layout, serial uint64 }

// ChangeLog holds the last changes of a snapshot, in their order, including those that were undone. A cache about nodes keeps
// the position up to which it has read, and updates itself at the cost of the changes since.
//
// The goroutine that owns the snapshot owns it.
type ChangeLog struct {
	// layout counts how often nodes were added or removed; serial is the number of the last change, altered that of the last
	// change of a node itself.
	layout, serial, altered uint64
	// changes are the last ones, up to number serial; cycle is the number of the last one when the cycle began.
	changes []Change
	cycle   uint64
	// content is the revision of everything, fixed that of everything but the pods of jobs. revisions counts them.
	content, fixed, revisions uint64
}

// Revision identifies one state of the nodes, the pods on them, the held capacity and the labels of namespaces: equal
// revisions mean equal states. The viewpoint of the accounting, and pending jobs, are not part of it.
type Revision uint64

// Revision returns the present one.
func (j *ChangeLog) Revision() Revision { return Revision(j.content) }

// FixedRevision returns the revision of all but the pods of jobs: nodes, other pods, held capacity and labels.
func (j *ChangeLog) FixedRevision() Revision { return Revision(j.fixed) }

// Rewind records that every change since the revision has been undone.
func (j *ChangeLog) Rewind(to Revision) { j.content = uint64(to) }

// renew makes a new revision.
func (j *ChangeLog) renew(fixed bool) {
	j.revisions++
	j.content = j.revisions
	if fixed {
		j.fixed = j.revisions
	}
}

const (
	// maxChanges is how many changes of two cycles are kept at least. A reader that is further behind reads everything again,
	// which costs about as much.
	maxChanges = 1 << 15
	// maxOldChanges is how many changes of the cycles before are kept: each holds its pod, which may be deleted by now.
	maxOldChanges = 1 << 10
)

// Number returns the number of the cursor's last change, to compare with Node.Changed and Node.ObjectChanged.
func (m Cursor) Number() uint64 { return m.serial }

// Cursor returns the end of the journal.
func (j *ChangeLog) Cursor() Cursor {
	return Cursor{layout: j.layout, serial: j.serial}
}

// Since returns the changes after the cursor. ok is false when they are no longer kept, or when nodes were added or removed
// since: then everything may have changed. The slice is valid until the next change.
func (j *ChangeLog) Since(mark Cursor) (changes []Change, ok bool) {
	behind := j.serial - mark.serial
	if mark.layout != j.layout || mark.layout == 0 || behind > uint64(len(j.changes)) {
		return nil, false
	}
	return j.changes[uint64(len(j.changes))-behind:], true
}

// SameNodes reports whether no node was added, removed or changed itself since the cursor; pods may have changed.
func (j *ChangeLog) SameNodes(mark Cursor) bool {
	return mark.layout == j.layout && mark.layout != 0 && j.altered <= mark.serial
}

// NamespaceRelabelled records that the labels of a namespace have changed, or that one was added or removed. The cluster
// state calls it, never within a session.
func (j *ChangeLog) NamespaceRelabelled() { j.renew(true) }

// BeginCycle drops most of the changes that are older than the last cycle. The loop calls it when it has the snapshot of the next
// one, and where it only follows the cluster.
func (j *ChangeLog) BeginCycle() {
	if keep := int(j.serial-j.cycle) + maxOldChanges; len(j.changes) > keep {
		j.keep(keep)
	}
	j.cycle = j.serial
}

// keep drops all changes but the last ones.
func (j *ChangeLog) keep(last int) {
	kept := copy(j.changes, j.changes[len(j.changes)-last:])
	clear(j.changes[kept:]) // drops the references
	j.changes = j.changes[:kept]
}

func (j *ChangeLog) add(change Change) {
	if len(j.changes) >= 2*maxChanges {
		j.keep(maxChanges)
	}
	j.serial++
	change.Node.Changed = j.serial
	if change.Pod == nil && !change.Room {
		change.Node.ObjectChanged, j.altered = j.serial, j.serial
	}
	j.renew(!change.OfJob && !change.Room)
	j.changes = append(j.changes, change)
}
