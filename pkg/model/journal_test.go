package model_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestJournal: a reader sees what happened since its mark, in order, and is told when that is not known any more.
func TestJournal(t *testing.T) {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	if _, ok := snapshot.Journal.Since(model.Cursor{}); ok {
		t.Error("who has seen nothing is told that nothing changed")
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
		t.Error("what is not known any more is told")
	}
	late := snapshot.Journal.Cursor()
	snapshot.NodeChanged(two)
	if changes, ok := snapshot.Journal.Since(late); !ok || len(changes) != 1 {
		t.Errorf("got %d changes, %v; want the last one", len(changes), ok)
	}
	snapshot.SetNodes([]*model.Node{two})
	if _, ok := snapshot.Journal.Since(late); ok {
		t.Error("a node went, and readers are not told")
	}
}

// TestWhatWasUndoneIsAsBefore: a mark is as good as the end of the journal exactly when nothing but what was taken back is between them.
func TestWhatWasUndoneIsAsBefore(t *testing.T) {
	node := &model.Node{Name: "n"}
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: []*model.Node{node}}
	snapshot.AssignIndexes()
	journal := &snapshot.Journal
	change := func() { snapshot.AddCapacity(node, nil) }
	first := journal.Cursor()
	change()
	if journal.Unchanged(first) {
		t.Error("a change is not seen")
	}
	journal.Rewind(first)
	if !journal.Unchanged(first) {
		t.Error("a change that was taken back counts")
	}
	second := journal.Cursor()
	change()
	change()
	journal.Rewind(second)
	if !journal.Unchanged(first) || !journal.Unchanged(second) {
		t.Error("two changes that were taken back count")
	}
	change()
	third := journal.Cursor()
	change()
	journal.Rewind(third)
	if journal.Unchanged(first) || journal.Unchanged(second) || !journal.Unchanged(third) {
		t.Error("a change that was not taken back does not count")
	}
	snapshot.SetNodes(snapshot.Nodes)
	if journal.Unchanged(third) {
		t.Error("another list of nodes is not seen")
	}
}
