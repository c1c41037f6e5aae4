package engine

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// allocateCPUs asks for the isolated CPUs that a task is given on a node, and writes them down as the pod is to have them.
func (s *Session) allocateCPUs(op *operation, task *model.Task, node *model.Node) *model.Refusal {
	for _, assigner := range s.slots.assign {
		assigned, refusal := assigner.AllocateCPUs(task, node)
		if refusal != nil {
			return refusal
		}
		if assigned == nil {
			continue
		}
		if name := s.binder(task); name != "" {
			return &model.Refusal{Code: model.NodesFiltered, Detail: "isolated cpu is written with the bind, which " + name + " does itself"}
		}
		annotations, err := task.Asks.Annotations(assigned)
		if err != nil {
			return &model.Refusal{Code: model.InvalidRequest, Detail: err.Error()}
		}
		op.isolation = &model.Isolation{Assignment: assigned, Annotations: annotations, ResourceVersion: task.Pod.ResourceVersion}
		return nil
	}
	return nil
}

// bindOf is the decision about a task that an operation has placed.
func (s *Session) bindOf(op *operation) model.Bind {
	return model.Bind{
		Pod: op.task.PodRef, Node: op.task.Node, NeedsPreBind: op.prepare, Binder: s.binder(op.task), Isolated: op.isolation,
		Place: s.placeOf(op.task),
	}
}

// explainShortage returns the refusal of a node that lacks one resource, in more words if a plugin has them.
func (s *Session) explainShortage(task *model.Task, node *model.Node, position int, room model.CapacityKind) *model.Refusal {
	if position <= model.Pods {
		return nil
	}
	return firstRefusal(s.slots.assign, func(assigner framework.CPUAllocator) *model.Refusal {
		return assigner.ExplainShortage(task, node, position, room)
	})
}
