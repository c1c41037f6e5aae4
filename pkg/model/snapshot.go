package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the cluster at one moment, on which one session works.
//
// Invariant: it is the same, byte for byte, whatever order the events that led to it came in.
type Snapshot struct {
	// Now is when the snapshot was taken, the only clock of a cycle.
	Now time.Time
	// Version differs between two snapshots of one live state if anything does but the time, Held, Avoided, Faulty and
	// Spared. Zero is unknown.
	Version    uint64
	Dimensions *ResourceIndex
	// Nodes are sorted by name; SetNodes replaces them.
	Nodes []*Node
	// Jobs are sorted by key.
	Jobs []*Job
	// JobBackoff says which jobs are left alone for now, and why: their binds have failed. Nil holds none.
	JobBackoff map[JobKey]*Refusal
	// NodeBackoff says on which nodes, by name, members of a job are not placed for now if there are others, and why: a bind to them
	// has failed. Nil avoids none.
	NodeBackoff map[JobKey]map[string]*Refusal
	// BindBackoff are pods to which the API server has lately refused a bind, and why: of a job that can do without them, others are
	// placed first. Nil is none.
	BindBackoff map[types.UID]*Refusal
	// EvictionBackoff are pods that the API server has lately refused to evict, and why. Nil spares none.
	EvictionBackoff map[types.UID]*Refusal
	// Budgets are the PodDisruptionBudgets, sorted by namespace and name.
	Budgets []Budget
	// Journal tells what has changed.
	Journal ChangeLog

	// holds are sorted; kept has the node on whose books each of them stands for the viewer, nil when it does not. They were
	// set for that layout of nodes.
	holds   []HeldCapacity
	kept    []*Node
	viewer  Viewpoint
	holdsOf uint64
	// ahead tells that pods which are about to leave are not to be seen.
	ahead bool

	// moved are the tasks that Move was called for, until somebody takes note.
	moved map[*Task]struct{}
}

// HasBackoff tells whether jobs are held, nodes avoided, or pods put last or spared, which time alone will end.
func (s *Snapshot) HasBackoff() bool {
	return len(s.JobBackoff)+len(s.NodeBackoff)+len(s.BindBackoff)+len(s.EvictionBackoff) > 0
}

// Node returns the node of that name, nil when there is none.
func (s *Snapshot) Node(name string) *Node {
	i, found := slices.BinarySearchFunc(s.Nodes, name, func(n *Node, name string) int { return cmp.Compare(n.Name, name) })
	if !found {
		return nil
	}
	return s.Nodes[i]
}

// Job returns the job of that key, nil when there is none.
func (s *Snapshot) Job(key JobKey) *Job {
	i, found := slices.BinarySearchFunc(s.Jobs, key, func(j *Job, key JobKey) int { return j.Key.Compare(key) })
	if !found {
		return nil
	}
	return s.Jobs[i]
}

// SetNodes replaces the list of nodes, sorted by name, and numbers them. The live state calls it, never within a session.
func (s *Snapshot) SetNodes(nodes []*Node) {
	s.Nodes = nodes
	for i, node := range nodes {
		node.Index = i
	}
	s.Journal.layout++
	s.Journal.renew(true)
}

// Reset empties the snapshot of nodes and jobs, for the live state to fill it anew; never within a session. Who follows the journal looks
// at everything anew.
func (s *Snapshot) Reset() {
	journal := ChangeLog{
		layout: s.Journal.layout + 1, labels: s.Journal.labels + 1, serial: s.Journal.serial, altered: s.Journal.serial,
		revisions: s.Journal.revisions,
	}
	journal.renew(true)
	*s = Snapshot{Now: s.Now, Version: s.Version + 1, Dimensions: s.Dimensions, Journal: journal}
}

// AssignIndexes makes sure that the nodes are numbered, also those of a snapshot that was put together by hand.
func (s *Snapshot) AssignIndexes() {
	if s.Journal.layout == 0 {
		s.SetNodes(s.Nodes)
	}
}

// NodeChanged takes down that something about the node itself has changed. The live state calls it, never within a session.
func (s *Snapshot) NodeChanged(node *Node) { s.Journal.add(Change{Node: node}) }

// Move brings a task into a position and returns the one it came from: the only change a session makes to a snapshot, and
// its own inverse. Books and journal follow.
//
// Invariant: Move(t, Move(t, p)) leaves every byte as it was.
func (s *Snapshot) Move(task *Task, to Placement) (from Placement) {
	from = task.Placement
	last := s.detach(task)
	task.Placement = to
	s.attach(task, last)
	if s.moved == nil {
		s.moved = map[*Task]struct{}{}
	}
	s.moved[task] = struct{}{}
	return from
}

// AddCapacity makes a node offer so much more, or less where an amount is negative, as if its idle room were larger. It is for who
// supposes something within a session, and takes it back before anything is decided.
func (s *Snapshot) AddCapacity(node *Node, by Resources) {
	node.Allocatable.Add(by)
	node.Idle.Add(by)
	s.Journal.add(Change{Node: node, Room: true})
}

// TakeTouched returns the tasks that were moved since the last call, back or not, in no order. The live state asks for
// them, to overwrite what a session left.
func (s *Snapshot) TakeTouched() []*Task {
	if len(s.moved) == 0 {
		return nil
	}
	tasks := slices.Collect(maps.Keys(s.moved))
	s.moved = nil // a map that was large is slow to walk for ever
	return tasks
}

// Update changes any field of a task, for the live state when it brings the snapshot up to date; never within a session.
// Books and journal follow.
func (s *Snapshot) Update(task *Task, change func(*Task)) {
	last := s.detach(task)
	change(task)
	s.attach(task, last)
}

// detach takes a task off its node, which it returns; nil when it is on none.
func (s *Snapshot) detach(task *Task) *Node {
	if !task.Status.HasNode() {
		return nil
	}
	node := s.Node(task.Node)
	if node != nil && node.Remove(task) {
		s.Journal.add(Change{Node: node, Pod: task.Pod, Terminating: task.ReleasesResources(), OfJob: task.Job != JobKey{}})
	}
	return node
}

// attach takes a task onto its node. last is the one it was on, nil for none: most tasks stay where they are, and looking for a node by
// name costs more than to compare one.
func (s *Snapshot) attach(task *Task, last *Node) {
	if !task.Status.HasNode() {
		return
	}
	node := last
	if node == nil || node.Name != task.Node {
		node = s.Node(task.Node)
	}
	if node == nil || !node.Place(task) {
		return
	}
	s.Journal.add(Change{Node: node, Pod: task.Pod, Added: true, Terminating: task.ReleasesResources(), OfJob: task.Job != JobKey{}})
}

// ExcludeTerminating says whether those who ask what runs on nodes see it without the pods that are about to leave, as it will be when
// promises on future room are kept, or as it is. Books show both at any time. It costs nothing to say.
func (s *Snapshot) ExcludeTerminating(ahead bool) { s.ahead = ahead }

// ExcludesTerminating tells what ExcludeTerminating last said.
func (s *Snapshot) ExcludesTerminating() bool { return s.ahead }

// Check returns an error when the books of a node do not add up to its tasks. Verify mode calls it after every statement.
func (s *Snapshot) Check() error {
	kept := map[*Node]Resources{}
	for i := range s.holds {
		if node := s.kept[i]; node != nil {
			kept[node] = kept[node].plus(s.holds[i].Request)
		}
	}
	for _, node := range s.Nodes {
		if err := node.check(); err != nil {
			return err
		}
		if err := node.checkIsolated(s.Dimensions); err != nil {
			return err
		}
		if !node.Reserved.Equal(kept[node]) {
			return fmt.Errorf("node %s: kept is %v, its holds sum up to %v", node.Name, node.Reserved, kept[node])
		}
	}
	return nil
}

func (n *Node) check() error {
	fresh := Node{Idle: n.Allocatable.Clone()}
	for _, task := range n.Tasks {
		if task.Node != n.Name || !task.Status.HasNode() {
			return fmt.Errorf("node %s: lists pod %s, which is %s on %q", n.Name, task, task.Status, task.Node)
		}
		fresh.Place(task)
	}
	if n.NonZeroRequested != fresh.NonZeroRequested {
		return fmt.Errorf("node %s: supposed is %v, its pods sum up to %v", n.Name, n.NonZeroRequested, fresh.NonZeroRequested)
	}
	for _, book := range []struct {
		name       string
		kept, sums Resources
	}{
		{"idle", n.Idle, fresh.Idle}, {"releasing", n.Releasing, fresh.Releasing}, {"promised", n.Pipelined, fresh.Pipelined},
	} {
		if !book.kept.Equal(book.sums) {
			return fmt.Errorf("node %s: %s is %v, its pods leave %v", n.Name, book.name, book.kept, book.sums)
		}
	}
	return nil
}
