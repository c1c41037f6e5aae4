package model_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestJournal: a reader gets the changes since its cursor, in order, and an error when they are no longer kept.
func TestJournal(t *testing.T) {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	if _, ok := snapshot.Journal.Since(model.Cursor{}); ok {
		t.Error("a reader that has seen nothing gets no changes")
	}
	one, two := &model.Node{Name: "one"}, &model.Node{Name: "two"}
	snapshot.SetNodes([]*model.Node{one, two})
	if one.Index != 0 || two.Index != 1 {
		t.Errorf("indexes are %d and %d", one.Index, two.Index)
	}
	mark := snapshot.Journal.Cursor()
	if changes, ok := snapshot.Journal.Since(mark); !ok || len(changes) > 0 {
		t.Errorf("nothing changed, got %v, %v", changes, ok)
	}
	task := &model.Task{PodRef: model.PodRef{UID: types.UID("a")}, Pod: &corev1.Pod{}}
	was := snapshot.Move(task, model.Placement{Status: model.Allocated, Node: "two"})
	snapshot.Move(task, was)
	snapshot.NodeChanged(one)
	changes, ok := snapshot.Journal.Since(mark)
	want := []model.Change{{Node: two, Pod: task.Pod, Added: true}, {Node: two, Pod: task.Pod}, {Node: one}}
	if !ok || fmt.Sprint(changes) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", changes, want)
	}
	if two.Changed != mark.Number()+2 || one.Changed != mark.Number()+3 {
		t.Errorf("changed at %d and %d", one.Changed, two.Changed)
	}
	if two.ObjectChanged != 0 || one.ObjectChanged != one.Changed {
		t.Errorf("altered at %d and %d", one.ObjectChanged, two.ObjectChanged)
	}
	if snapshot.Journal.SameNodes(mark) || !snapshot.Journal.SameNodes(snapshot.Journal.Cursor()) {
		t.Error("a node is altered once, and SameNodes says otherwise")
	}
	for range 100_000 {
		snapshot.NodeChanged(two)
	}
	if _, ok := snapshot.Journal.Since(mark); ok {
		t.Error("changes that are not kept any more are returned")
	}
	late := snapshot.Journal.Cursor()
	snapshot.NodeChanged(two)
	if changes, ok := snapshot.Journal.Since(late); !ok || len(changes) != 1 {
		t.Errorf("got %d changes, %v; want the last one", len(changes), ok)
	}
	snapshot.SetNodes([]*model.Node{two})
	if _, ok := snapshot.Journal.Since(late); ok {
		t.Error("a node went, and the journal does not say so")
	}
}

// TestJournal_keepsTwoCycles: a reader that has read in the last cycle gets all changes since, one that is further behind gets
// them while they are few.
func TestJournal_keepsTwoCycles(t *testing.T) {
	node := &model.Node{Name: "n"}
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: []*model.Node{node}}
	snapshot.AssignIndexes()
	cycle := func(changes int) (before model.Cursor) {
		snapshot.Journal.BeginCycle()
		before = snapshot.Journal.Cursor()
		for range changes {
			snapshot.NodeChanged(node)
		}
		return before
	}
	first := cycle(1)
	last := cycle(5000)
	if changes, ok := snapshot.Journal.Since(first); !ok || len(changes) != 5001 {
		t.Errorf("within the cycle: got %d changes, %t", len(changes), ok)
	}
	snapshot.Journal.BeginCycle()
	if changes, ok := snapshot.Journal.Since(last); !ok || len(changes) != 5000 {
		t.Errorf("since the last cycle: got %d changes, %t", len(changes), ok)
	}
	snapshot.Journal.BeginCycle()
	if changes, ok := snapshot.Journal.Since(last); ok {
		t.Errorf("since the cycle before: got %d changes", len(changes))
	}
	few := cycle(1000)
	snapshot.Journal.BeginCycle()
	snapshot.Journal.BeginCycle()
	if changes, ok := snapshot.Journal.Since(few); !ok || len(changes) != 1000 {
		t.Errorf("few changes: got %d, %t", len(changes), ok)
	}
}

// TestRevision_isThatOfTheContent: undoing a change restores the revision, any other change gives a new one.
func TestRevision_isThatOfTheContent(t *testing.T) {
	node := &model.Node{Name: "n"}
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: []*model.Node{node}}
	snapshot.AssignIndexes()
	journal := &snapshot.Journal
	seen := map[model.Revision]bool{}
	changed := func(what string, change func()) {
		t.Helper()
		seen[journal.Revision()] = true
		if change(); seen[journal.Revision()] {
			t.Errorf("%s: the revision was there before", what)
		}
	}
	first := journal.Revision()
	changed("a change", func() { snapshot.NodeChanged(node) })
	journal.Rewind(first)
	if journal.Revision() != first {
		t.Error("a change that was taken back counts")
	}
	changed("another change", func() { snapshot.NodeChanged(node) })
	changed("labels", journal.NamespaceRelabelled)
	changed("other nodes", func() { snapshot.SetNodes(snapshot.Nodes) })
	changed("everything read again", func() { snapshot.Reset() })
}

// TestFixedRevision_ignoresPodsOfJobs: it depends only on what is not a pod of a job.
func TestFixedRevision_ignoresPodsOfJobs(t *testing.T) {
	node := &model.Node{Name: "n"}
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: []*model.Node{node}}
	snapshot.AssignIndexes()
	journal := &snapshot.Journal
	place := func(job string) (fixed, all bool) {
		before, content := journal.FixedRevision(), journal.Revision()
		task := &model.Task{PodRef: model.PodRef{UID: types.UID("u" + job), Name: "p" + job}, Job: model.JobKey{Name: job}, Pod: &corev1.Pod{}}
		snapshot.Move(task, model.Placement{Status: model.Running, Node: "n"})
		return journal.FixedRevision() != before, journal.Revision() != content
	}
	if fixed, all := place("gang"); fixed || !all {
		t.Errorf("a pod of a job: fixed changed: %t, all changed: %t; want all alone", fixed, all)
	}
	if fixed, all := place(""); !fixed || !all {
		t.Errorf("a pod of another scheduler: fixed changed: %t, all changed: %t; want both", fixed, all)
	}
	before := journal.FixedRevision()
	snapshot.NodeChanged(node)
	if journal.FixedRevision() == before {
		t.Error("a node that has changed is not seen")
	}
}

// TestViewpoint_isWhatDecides: equal effective viewpoints see the same capacity, and setting a viewpoint changes no revision.
func TestViewpoint_isWhatDecides(t *testing.T) {
	key := func(name string) model.JobKey { return model.JobKey{Namespace: "d", Name: name} }
	node := model.NewNode("n", nil, model.Resources{9})
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: []*model.Node{node}}
	snapshot.AssignIndexes()
	if got := snapshot.EffectiveViewpoint(model.Viewpoint{Job: key("x"), Priority: 7}); got != (model.Viewpoint{}) {
		t.Errorf("nothing is held: %+v", got)
	}
	snapshot.SetHeld([]model.HeldCapacity{
		{Job: key("early"), Priority: 5, Node: "n", Request: model.Resources{1}, LentUntil: 100},
		{Job: key("late"), Priority: 5, Node: "n", Request: model.Resources{2}, LentUntil: 200},
		{Job: key("freed"), Priority: 5, Exclusive: true, Node: "n", Pod: model.PodRef{UID: "p"}, Request: model.Resources{4}},
	})
	revision := snapshot.Journal.Revision()
	viewers := []model.Viewpoint{
		{Job: key("x")}, {Job: key("y")}, {Job: key("early")}, {Job: key("x"), Priority: 6}, {Job: key("x"), EndsBefore: 50},
		{Job: key("y"), EndsBefore: 90}, {Job: key("x"), EndsBefore: 150}, {Job: key("y"), EndsBefore: 300}, {Job: key("x"), EndsBefore: model.UnrestrictedViewpoint},
		{Job: key("freed"), Priority: 6}, {Job: key("x"), EvictsNone: true}, {Job: key("x"), Priority: 6, EvictsNone: true},
	}
	room := map[model.Viewpoint]int64{}
	for _, viewer := range viewers {
		snapshot.SetViewpoint(viewer)
		viewpoint := snapshot.EffectiveViewpoint(viewer)
		if kept, known := room[viewpoint]; known && kept != node.Amounts().Reserved.At(0) {
			t.Errorf("%+v sees %d held, another one of the same viewpoint %d", viewer, node.Amounts().Reserved.At(0), kept)
		}
		room[viewpoint] = node.Amounts().Reserved.At(0)
	}
	if len(room) != 7 {
		t.Errorf("%d viewpoints: %v", len(room), room)
	}
	if snapshot.Journal.Revision() != revision {
		t.Error("whose view is shown counts as a change")
	}
	snapshot.ReleaseHeld(key("early"))
	if snapshot.Journal.Revision() == revision {
		t.Error("capacity that is held no more is not seen")
	}
}
