package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/model"
)

// changes are what the next snapshot has to look at.
type changes struct {
	pods []*podEntry
	jobs map[model.JobKey]struct{}
	// nodes has true where a pod could mind.
	nodes map[string]bool
}

func newChanges() changes {
	return changes{jobs: map[model.JobKey]struct{}{}, nodes: map[string]bool{}}
}

func (c *changes) addPod(entry *podEntry) {
	if !entry.dirty {
		entry.dirty = true
		c.pods = append(c.pods, entry)
	}
}

func (c *changes) addJob(key model.JobKey) { c.jobs[key] = struct{}{} }

func (c *changes) addNode(name string, minded bool) { c.nodes[name] = c.nodes[name] || minded }

// any reports whether anything is to be looked at that a pod could mind.
func (c *changes) any() bool {
	if len(c.pods)+len(c.jobs) > 0 {
		return true
	}
	for _, minded := range c.nodes {
		if minded {
			return true
		}
	}
	return false
}

// Snapshot brings the one long-lived snapshot up to date and returns it. It costs what changed since the last time,
// in the cluster and by the session in between; whatever that session left is overwritten by what the state knows.
//
// Invariant: the snapshot shares no memory with the state that is ever changed.
func (s *State) Snapshot(now time.Time) *model.Snapshot {
	s.snapshot.Now = now
	for !s.refresh(now) {
		s.Rebuild()
	}
	return s.snapshot
}

// LastSnapshot returns the snapshot as the last call of Snapshot has left it: for readers that are called for each job.
func (s *State) LastSnapshot() *model.Snapshot { return s.snapshot }

// refresh brings the snapshot up to date with what has changed. It reports false when that has panicked over a pod or a node:
// the state does not hold that any more, and half of it may be in the snapshot.
func (s *State) refresh(now time.Time) (whole bool) {
	s.updateProlonged(now)
	s.patchDevices()
	changed := s.patchNamespaces() || s.changed()
	s.growVectors()
	changed = s.patchQueues() || changed
	whole = s.patchNodes()
	expired := s.patchLeases(now)
	if whole = s.patchTasks() && whole; !whole {
		return false
	}
	stuck := s.patchOverdue(now)
	s.patchJobs()
	s.inheritStarts()
	s.patchHolds()
	s.patchBudgets()
	if changed || expired || stuck || s.snapshot.Version == 0 {
		s.snapshot.Version++
	}
	return true
}

// changed reports whether the snapshot is to show anything else than it did. What is kept for jobs follows from pods and jobs.
func (s *State) changed() bool {
	return s.dirty.any() || s.budgets.dirty || s.width != s.dimensions.Len()
}

// View returns the view of the state's snapshot that kube-scheduler's plugins read, always the same one. The first call makes it;
// without a call the state has none.
func (s *State) View() *kube.View {
	if s.view == nil {
		s.view = kube.NewView(s.snapshot)
	}
	return s.view
}

// growVectors lengthens the vectors of every node for new dimensions, so that no session makes a vector longer and its
// undo leaves every byte as it was.
func (s *State) growVectors() {
	if s.width == s.dimensions.Len() {
		return
	}
	s.width = s.dimensions.Len()
	s.queues.dirty = s.queues.dirty || s.queues.any() // they may list resources that have a dimension now
	for _, node := range s.snapshot.Nodes {
		node.GrowVectors(s.width)
	}
}

// patchNodes reports whether it has come to an end with every node.
func (s *State) patchNodes() (whole bool) {
	if len(s.dirty.nodes) == 0 {
		return true
	}
	whole = true
	var added, removed []*model.Node
	for name, changed := range s.dirty.nodes {
		node, known := s.snapshot.Node(name), s.nodes[name]
		switch {
		case known == nil && node != nil:
			removed = append(removed, node)
		case known == nil:
		case s.guard.run(identity{kind: kindNode, name: name}, func() {
			if node == nil {
				added = append(added, s.addNode(name, known))
				return
			}
			s.patchNode(node, known)
			if s.view != nil {
				s.view.ChangeNode(node.Object)
			}
			if changed {
				s.snapshot.NodeChanged(node)
			}
		}) != nil:
			s.setNode(name, nil)
			whole = false
		}
	}
	s.dirty.nodes = emptyLike(s.dirty.nodes)
	compare := func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) }
	if len(added)+len(removed) > 0 {
		s.snapshot.SetNodes(insertSorted(removeSorted(s.snapshot.Nodes, removed, compare), added, compare))
	}
	if s.view != nil {
		s.view.DropNodes(removed)
		s.view.AddNodes(added)
	}
	return whole
}

// addNode makes an empty node; the tasks that have been waiting for it are placed as changed ones.
func (s *State) addNode(name string, known *nodeState) *model.Node {
	node := model.NewNode(name, known.object, known.allocatable)
	s.patchNode(node, known)
	for _, entry := range s.pods.held[name] {
		s.dirty.addPod(entry)
	}
	return node
}

func (s *State) patchNode(node *model.Node, known *nodeState) {
	node.Object, node.Invalid, node.Isolated = known.object, known.refused, known.isolated
	node.AgentExpired = node.AgentExpired && node.Isolated != nil // a node without isolated CPUs is not followed any longer
	node.Uncounted, node.OldKubelet, node.Devices = known.uncounted, known.oldKubelet, nil
	if seen := s.devices.nodes[node.Name]; seen != nil {
		node.Devices = seen
	}
	node.SetAllocatable(known.allocatable, s.width)
	node.SetLeaving(known.leaving)
}

// patchTasks reports whether it has come to an end with every pod.
func (s *State) patchTasks() (whole bool) {
	whole = true
	for _, entry := range s.dirty.pods {
		if s.guard.run(entry.identity(), func() { s.patchTask(entry, s.snapshot.Now) }) != nil {
			if whole = false; entry.record != nil {
				s.put(entry, nil)
			}
		}
	}
	clear(s.dirty.pods)
	s.dirty.pods = s.dirty.pods[:0]
	for _, task := range s.snapshot.TakeTouched() {
		entry := s.pods.entries[task.UID]
		if entry != nil && entry.task == task && entry.record != nil && task.Placement != entry.record.task.Placement {
			known := &entry.record.task
			s.snapshot.Update(task, func(t *model.Task) { t.Placement, t.Isolated = known.Placement, known.Isolated })
		}
	}
	return whole
}

// patchOverdue finds those that have been leaving for too long since the last look, and reports whether there are any.
func (s *State) patchOverdue(now time.Time) (changed bool) {
	if s.second == now.Unix() {
		return false
	}
	s.second = now.Unix()
	for _, entry := range s.pods.releasing {
		if task := entry.task; task.TerminationOverdue != entry.record.stuck(now, s.maxGrace) {
			s.snapshot.Update(task, func(t *model.Task) { t.TerminationOverdue = !t.TerminationOverdue })
			changed = true
		}
	}
	return changed
}

func (s *State) patchTask(entry *podEntry, now time.Time) {
	entry.dirty = false
	known := entry.record
	switch {
	case known != nil:
		if entry.task == nil {
			entry.task = &model.Task{}
		}
		s.snapshot.Update(entry.task, func(t *model.Task) {
			*t = known.task
			t.TerminationOverdue = known.stuck(now, s.maxGrace)
		})
	case entry.task != nil:
		s.snapshot.Update(entry.task, func(t *model.Task) { t.Placement, t.Nominated = model.Placement{}, "" })
	}
	if known == nil {
		delete(s.pods.entries, entry.uid)
	}
	if s.view != nil && (known == nil || known.finished()) {
		s.view.Forget(entry.uid)
	}
}

func (s *State) patchJobs() {
	if len(s.dirty.jobs) == 0 {
		return
	}
	var added, removed []*model.Job
	for key := range s.dirty.jobs {
		job, members, group := s.snapshot.Job(key), s.pods.members[key], s.ownGroup(key)
		switch exists := len(members) > 0 || group != nil; {
		case exists && job == nil:
			job = &model.Job{Key: key}
			added = append(added, job)
			s.fillJob(job, members, group)
		case exists:
			s.fillJob(job, members, group)
		default:
			if job != nil {
				removed = append(removed, job)
			}
			s.history.forgetMembers(key)
			delete(s.foreign.awaited, key)
			s.newsOf(key)
		}
	}
	s.dirty.jobs = emptyLike(s.dirty.jobs)
	s.foreign.tellAwaited()
	compare := func(a, b *model.Job) int { return a.Key.Compare(b.Key) }
	s.snapshot.Jobs = insertSorted(removeSorted(s.snapshot.Jobs, removed, compare), added, compare)
}

// emptyLike returns an empty set. A map keeps the size it once had, and is as slow to walk, so that one that was large is
// not used again.
func emptyLike[K comparable, V any](set map[K]V) map[K]V {
	if len(set) > few {
		return map[K]V{}
	}
	clear(set)
	return set
}

// few is up to how many items are inserted one by one; for more it is cheaper to sort once.
const few = 32

// insertSorted adds items to a sorted list.
func insertSorted[T any](list, more []T, compare func(a, b T) int) []T {
	if len(more) > few {
		list = append(list, more...)
		slices.SortFunc(list, compare)
		return list
	}
	for _, item := range more {
		i, _ := slices.BinarySearchFunc(list, item, compare)
		list = slices.Insert(list, i, item)
	}
	return list
}

// removeSorted takes items off a sorted list.
func removeSorted[T any](list, gone []T, compare func(a, b T) int) []T {
	if len(gone) > few {
		slices.SortFunc(gone, compare)
		return slices.DeleteFunc(list, func(item T) bool {
			_, found := slices.BinarySearchFunc(gone, item, compare)
			return found
		})
	}
	for _, item := range gone {
		if i, found := slices.BinarySearchFunc(list, item, compare); found {
			list = slices.Delete(list, i, i+1)
		}
	}
	return list
}
