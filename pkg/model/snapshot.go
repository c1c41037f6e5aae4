package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is the cluster at one moment, as one session sees it.
//
// Invariant: its bytes do not depend on the order of the events that led to it.
type Snapshot struct {
	// Now is when the snapshot was taken, the only clock of a cycle.
	Now time.Time
	// Version differs between two snapshots of one cluster state if anything differs but Now, Begun,
	// JobBackoff, NodeBackoff, BindBackoff and EvictionBackoff. Zero is unknown.
	Version    uint64
	Dimensions *ResourceIndex
	// Nodes are sorted by name; SetNodes replaces them.
	Nodes []*Node
	// Jobs are sorted by key.
	Jobs []*Job
	// Begun has the jobs of which a start has begun and is to be completed, its minimum and what its members request: decided by
	// this process, or found when it began to lead. Nil has none.
	Begun map[JobKey]Minima
	// JobBackoff has the jobs that are not tried for a while, and why: a bind has failed, a start was undone, a plugin has panicked
	// over the job, or what is bound of its gang is held back. Nil has none.
	JobBackoff map[JobKey]*Refusal
	// NodeBackoff has by job the nodes, by name, that are used last, and why: a bind of a member to them has failed. Nil has
	// none.
	NodeBackoff map[JobKey]map[string]*Refusal
	// BindBackoff has the pods for which the API server has lately refused a bind, and why: other members of the job are
	// placed first. Nil has none.
	BindBackoff map[types.UID]*Refusal
	// EvictionBackoff has the pods that the API server has lately refused to evict, and why. Nil has none.
	EvictionBackoff map[types.UID]*Refusal
	// Paused reports that no pod is evicted for a job; JobBackoff has the jobs that may not start.
	Paused bool
	// Queues are sorted by name; SetQueues replaces them. None means that there is no Queue object.
	Queues []*Queue
	// Budgets are the PodDisruptionBudgets, sorted by namespace and name.
	Budgets []Budget
	// Journal has the changes.
	Journal ChangeLog

	// byName has the nodes as of the last SetNodes, for Node.
	byName map[string]*Node
	// queueIndex has the positions in Queues by name. It never changes: SetQueues makes a new one.
	queueIndex map[string]int
	// holds are sorted; kept has the node on which each of them counts as used for the viewpoint, nil when it does not, and charged
	// how much of it does. They were set for that layout of nodes.
	holds   []HeldCapacity
	kept    []*Node
	charged []Resources
	viewer  Viewpoint
	holdsOf uint64
	// released are the tasks whose nominations do not count in their queues for the rest of the session.
	released []*Task
	// ahead reports whether terminating pods are excluded.
	ahead bool

	// moved are the tasks that Move was called for since the last TakeTouched.
	moved map[*Task]struct{}
}

// HasBegun reports whether the job is to be completed before others start: its start is incomplete, or it has lost members since.
// A job whose minima were raised, whose waiting members ask for more than those that it had, or of which a user created a member
// on a node, has not begun: any user could take the first turn in that way.
func (s *Snapshot) HasBegun(job *Job) bool {
	if job.LostMembers {
		return true
	}
	begun := s.Begun[job.Key]
	if job.MinMember > begun.MinMember {
		return false
	}
	has := job.Count((*Task).CountsTowardMinimum)
	return has > 0 && has < int(begun.MinMember) && job.CompletesWithin(begun.Requests)
}

// HasBackoff reports whether any job, node or pod is in back-off, which ends by time alone.
func (s *Snapshot) HasBackoff() bool {
	return len(s.JobBackoff)+len(s.NodeBackoff)+len(s.BindBackoff)+len(s.EvictionBackoff) > 0
}

// Node returns the node of that name, nil when there is none.
func (s *Snapshot) Node(name string) *Node {
	if node := s.byName[name]; node != nil && node.Index < len(s.Nodes) && s.Nodes[node.Index] == node {
		return node
	}
	i, found := slices.BinarySearchFunc(s.Nodes, name, func(n *Node, name string) int { return strings.Compare(n.Name, name) })
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

// SetNodes replaces the list of nodes, sorted by name, and numbers them. The cluster state calls it, never within a session.
func (s *Snapshot) SetNodes(nodes []*Node) {
	s.Nodes, s.byName = nodes, make(map[string]*Node, len(nodes))
	for i, node := range nodes {
		node.Index, s.byName[node.Name] = i, node
	}
	s.Journal.layout++
	s.Journal.renew(true)
}

// Reset removes all nodes and jobs, so that the cluster state can fill the snapshot again; never within a session. Readers of
// the journal read everything again.
func (s *Snapshot) Reset() {
	journal := ChangeLog{
		layout: s.Journal.layout + 1, serial: s.Journal.serial, altered: s.Journal.serial, revisions: s.Journal.revisions,
	}
	journal.renew(true)
	*s = Snapshot{Now: s.Now, Version: s.Version + 1, Dimensions: s.Dimensions, Journal: journal}
}

// AssignIndexes makes sure that the nodes are numbered, also those of a snapshot that a test built.
func (s *Snapshot) AssignIndexes() {
	if s.Journal.layout == 0 {
		s.SetNodes(s.Nodes)
	}
}

// NodeChanged records that the node itself has changed. The cluster state calls it, never within a session.
func (s *Snapshot) NodeChanged(node *Node) { s.Journal.add(Change{Node: node}) }

// Move sets a task's placement and returns the previous one: the only change a session makes to a snapshot, and its own
// inverse. It updates accounting and journal.
//
// Invariant: Move(t, Move(t, p)) leaves every byte as it was.
func (s *Snapshot) Move(task *Task, to Placement) (from Placement) {
	from = task.Placement
	task.count(-1)
	last := s.detach(task)
	task.Placement = to
	s.attach(task, last)
	task.count(1)
	if s.moved == nil {
		s.moved = map[*Task]struct{}{}
	}
	s.moved[task] = struct{}{}
	return from
}

// TakeTouched returns the tasks that were moved since the last call, back or not, in no order. The cluster state restores
// them after a session.
func (s *Snapshot) TakeTouched() []*Task {
	if len(s.moved) == 0 {
		return nil
	}
	tasks := slices.Collect(maps.Keys(s.moved))
	s.moved = nil // iterating a map that was large stays slow
	return tasks
}

// Update changes any field of a task when the cluster state updates the snapshot; never within a session. It updates
// accounting and journal.
func (s *Snapshot) Update(task *Task, change func(*Task)) {
	queue := task.queue
	task.count(-1)
	last := s.detach(task)
	change(task)
	task.queue = queue // which Enqueue alone changes
	s.attach(task, last)
	task.count(1)
	if queue != nil {
		s.Journal.renew(false) // the task may count without a node of the snapshot
	}
}

// detach removes a task from its node, which it returns; nil when it has none.
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

// attach adds a task to its node. last is the one it was on, nil for none: most tasks stay where they are, and a comparison
// is cheaper than finding a node by name.
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

// ExcludeTerminating sets whether queries about pods on nodes exclude terminating pods, as when nominated capacity has become
// free. The accounting has both at any time. The call costs nothing.
func (s *Snapshot) ExcludeTerminating(ahead bool) { s.ahead = ahead }

// ExcludesTerminating returns the last value of ExcludeTerminating.
func (s *Snapshot) ExcludesTerminating() bool { return s.ahead }

// Check returns an error when the accounting of a node or of a queue differs from the sum of its tasks. Verify mode calls it
// after every statement.
func (s *Snapshot) Check() error {
	kept := map[*Node]Resources{}
	for i := range s.holds {
		if node := s.kept[i]; node != nil {
			sum := kept[node]
			sum.Add(s.charged[i])
			kept[node] = sum
		}
	}
	for _, node := range s.Nodes {
		if err := node.check(); err != nil {
			return err
		}
		if err := node.checkIsolated(s.Dimensions); err != nil {
			return err
		}
		if !node.reserved.Equal(kept[node]) {
			return fmt.Errorf("node %s: kept is %v, its holds sum up to %v", node.Name, node.reserved, kept[node])
		}
	}
	return s.checkQueues()
}

func (n *Node) check() error {
	fresh := Node{idle: n.allocatable.Clone()}
	fresh.SetLeaving(n.leaving)
	for _, task := range n.Tasks {
		if task.Node != n.Name || !task.Status.HasNode() {
			return fmt.Errorf("node %s: lists pod %s, which is %s on %q", n.Name, task, task.Status, task.Node)
		}
		fresh.Place(task)
	}
	if n.nonZeroRequested != fresh.nonZeroRequested {
		return fmt.Errorf("node %s: supposed is %v, its pods sum up to %v", n.Name, n.nonZeroRequested, fresh.nonZeroRequested)
	}
	for _, book := range []struct {
		name       string
		kept, sums Resources
	}{
		{"idle", n.idle, fresh.idle}, {"releasing", n.releasing, fresh.releasing}, {"pipelined", n.pipelined, fresh.pipelined},
	} {
		if !book.kept.Equal(book.sums) {
			return fmt.Errorf("node %s: %s is %v, its pods leave %v", n.Name, book.name, book.kept, book.sums)
		}
	}
	return nil
}
