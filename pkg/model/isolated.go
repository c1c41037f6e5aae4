package model

import (
	"fmt"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// HeldCPUs returns the isolated CPUs that tasks on the node hold; ahead leaves out terminating tasks. It is not kept as a
// field: the tasks are few, and a sum that is computed each time cannot be stale.
func (n *Node) HeldCPUs(ahead bool) isolated.CPUSet {
	var held isolated.CPUSet
	for _, task := range n.Tasks {
		if task.Isolated != nil && !(ahead && task.ReleasesResources()) {
			held = held.Union(task.Isolated.CPUs)
		}
	}
	return held
}

// checkIsolated returns an error when a task has CPUs that the node does not isolate or that another task holds, or is
// charged for another number than it holds. Tasks bound by other schedulers may overlap; those placed in this session must
// not.
func (n *Node) checkIsolated(dimensions *ResourceIndex) error {
	if n.Isolated == nil || dimensions == nil {
		return nil
	}
	charged, known := dimensions.Find(isolated.Resource)
	if !known {
		return nil // no task is charged
	}
	for i, task := range n.Tasks {
		switch {
		case task.Status == Pipelined && task.Isolated != nil:
			return fmt.Errorf("node %s: pod %s has a nomination, and holds CPUs %s", n.Name, task, task.Isolated.CPUs)
		case task.Isolated == nil && task.Status == Allocated && task.Request.At(charged) > 0:
			return fmt.Errorf("node %s: pod %s is charged for %d isolated CPUs, and holds none", n.Name, task, task.Request.At(charged))
		case task.Isolated == nil:
			continue
		case task.Request.At(charged) > 0 && int64(task.Isolated.CPUs.Len()) != task.Request.At(charged):
			return fmt.Errorf("node %s: pod %s is charged for %d isolated CPUs, and holds %s",
				n.Name, task, task.Request.At(charged), task.Isolated.CPUs)
		case task.Status != Allocated:
			continue
		}
		if outside := task.Isolated.CPUs.Minus(n.Isolated.Isolated); !outside.Empty() {
			return fmt.Errorf("node %s: pod %s was given CPUs %s, which are not isolated", n.Name, task, outside)
		}
		for j, other := range n.Tasks {
			if i == j || other.Isolated == nil {
				continue
			}
			if both := task.Isolated.CPUs.Intersect(other.Isolated.CPUs); !both.Empty() {
				return fmt.Errorf("node %s: pod %s was given CPUs %s, which pod %s holds", n.Name, task, both, other)
			}
		}
	}
	return nil
}
