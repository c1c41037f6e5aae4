package model

import (
	"maps"
	"slices"
)

// Copy returns a snapshot for another goroutine: nothing that is ever changed is in both. API objects, refusals and the like
// never change, and are shared. It costs the copy of every node, job and task.
func (s *Snapshot) Copy() *Snapshot {
	copied := *s
	copied.moved, copied.released, copied.Journal.changes = nil, nil, nil
	copied.Dimensions, copied.Budgets = s.Dimensions.Clone(), slices.Clone(s.Budgets)
	copied.JobBackoff, copied.NodeBackoff = maps.Clone(s.JobBackoff), maps.Clone(s.NodeBackoff)
	copied.BindBackoff, copied.EvictionBackoff = maps.Clone(s.BindBackoff), maps.Clone(s.EvictionBackoff)
	copied.Queues = copyQueues(s.Queues)
	tasks := newTaskCopies(s, copied.Queues)
	nodes := make([]Node, len(s.Nodes))
	copied.Nodes = make([]*Node, len(s.Nodes))
	for i, node := range s.Nodes {
		nodes[i] = *node
		nodes[i].GrowVectors(s.Dimensions.Len())
		nodes[i].Tasks = tasks.list(node.Tasks)
		copied.Nodes[i] = &nodes[i]
	}
	jobs := make([]Job, len(s.Jobs))
	copied.Jobs = make([]*Job, len(s.Jobs))
	for i, job := range s.Jobs {
		jobs[i] = *job
		jobs[i].Tasks = tasks.list(job.Tasks)
		jobs[i].queue = counterpart(job.queue, copied.Queues)
		copied.Jobs[i] = &jobs[i]
	}
	copied.holds, copied.kept, copied.charged = slices.Clone(s.holds), slices.Clone(s.kept), slices.Clone(s.charged)
	for i, node := range copied.kept {
		copied.holds[i].Queue = counterpart(s.holds[i].Queue, copied.Queues)
		if node != nil {
			copied.kept[i] = copied.Nodes[node.Index]
		}
	}
	copied.viewer.Queue = counterpart(s.viewer.Queue, copied.Queues)
	copied.viewer.Guaranteed = counterpart(s.viewer.Guaranteed, copied.Queues)
	return &copied
}

// taskCopies makes one copy of each task. A task of a job that has a node is listed twice, by its job and by its node.
type taskCopies struct {
	tasks    []Task
	pointers []*Task
	listed   map[*Task]*Task
	// queues are the copies of the queues.
	queues []*Queue
}

func newTaskCopies(s *Snapshot, queues []*Queue) *taskCopies {
	onNodes, ofJobs, both := 0, 0, 0
	for _, node := range s.Nodes {
		onNodes += len(node.Tasks)
	}
	for _, job := range s.Jobs {
		ofJobs += len(job.Tasks)
		both += job.Count(listedTwice)
	}
	return &taskCopies{
		tasks: make([]Task, 0, onNodes+ofJobs-both), pointers: make([]*Task, 0, onNodes+ofJobs), listed: make(map[*Task]*Task, both),
		queues: queues,
	}
}

func listedTwice(task *Task) bool { return task.Status.HasNode() && task.Job != JobKey{} }

func (c *taskCopies) list(tasks []*Task) []*Task {
	from := len(c.pointers)
	for _, task := range tasks {
		c.pointers = append(c.pointers, c.copy(task))
	}
	return slices.Clip(c.pointers[from:])
}

func (c *taskCopies) copy(task *Task) *Task {
	twice := listedTwice(task)
	if known := c.listed[task]; twice && known != nil {
		return known
	}
	var copied *Task
	if len(c.tasks) < cap(c.tasks) {
		c.tasks = append(c.tasks, *task)
		copied = &c.tasks[len(c.tasks)-1]
	} else { // its node is gone
		copied = new(*task)
	}
	copied.queue = counterpart(task.queue, c.queues)
	if twice {
		c.listed[task] = copied
	}
	return copied
}
