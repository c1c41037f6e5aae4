package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file handles an object that was read, but over which the code panics that brings the snapshot up to date with it. The
// accounting may hold half of the object then. So the whole snapshot is made again without it, which takes as long as after a
// start.

// updateTarget is the object that the snapshot is being brought up to date with: a pod, a node or a job.
type updateTarget struct {
	pod  types.UID
	node string
	job  model.JobKey
}

// panickedUpdate is a subject whose update has panicked, and the value of the panic.
type panickedUpdate struct {
	updateTarget
	why string
}

// updateOne does what the snapshot needs for one subject, and records a panic over it.
func (s *State) updateOne(over updateTarget, do func()) {
	buildOrFallback(func() bool {
		if s.tended != nil {
			s.tended(over)
		}
		do()
		return true
	}, func(why string) bool {
		s.quarantined = append(s.quarantined, panickedUpdate{over, why})
		return false
	})
}

// Rebuild empties the snapshot, and the view of it, and makes everything in it again. A quarantined object is kept with its
// name and a reason only. An object that is quarantined again is left out.
//
// Invariant I25: each time there is one object fewer that can panic, so that this comes to an end.
func (s *State) Rebuild() {
	for _, one := range s.quarantined {
		s.quarantineObject(one)
	}
	s.quarantined = nil
	s.snapshot.Reset()
	if s.view != nil {
		s.view.reset()
	}
	s.width, s.second, s.leases.dirty, s.dirtyBudgets = 0, 0, true, true
	s.dirtyPods = s.dirtyPods[:0]
	for uid, slot := range s.pods {
		if slot.task, slot.dirty = nil, false; slot.record == nil {
			delete(s.pods, uid)
			continue
		}
		s.markDirty(slot)
	}
	s.dirtyNodes, s.dirtyJobs = map[string]bool{}, map[model.JobKey]struct{}{}
	for name := range s.nodes {
		s.dirtyNodes[name] = true
	}
	for key := range s.members {
		s.dirtyJobs[key] = struct{}{}
	}
	for key := range s.groups {
		s.dirtyJobs[key] = struct{}{}
	}
}

// quarantineObject leaves of a pod or node no more than its name, where it is, and why; of one that is no more than that
// already, nothing.
func (s *State) quarantineObject(one panickedUpdate) {
	if slot := s.pods[one.pod]; slot != nil && slot.record != nil {
		pod := slot.record.task.Pod
		why := fmt.Sprintf("pod %s/%s could not be counted: %s", pod.Namespace, pod.Name, one.why)
		s.reportUnreadable(why)
		if refused := slot.record.invalid; refused != nil && refused.Code == model.Malformed {
			s.index(slot, nil)
			return
		}
		s.index(slot, s.unreadablePod(pod, nil, &model.Refusal{Code: model.Malformed, Detail: why}))
	}
	if node := s.nodes[one.node]; node != nil {
		s.reportUnreadable(fmt.Sprintf("node %s could not be counted: %s", one.node, one.why))
		if node.bare {
			delete(s.nodes, one.node)
			return
		}
		s.nodes[one.node] = unreadableNode(node.object, one.why)
	}
}

// unreadableNode is a node that cannot be read, or counted: it takes no pods.
func unreadableNode(object *corev1.Node, why string) *nodeState {
	return &nodeState{
		object:  &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion}},
		refused: &model.Refusal{Code: model.NodesFiltered, Detail: "the node could not be read: " + why},
		bare:    true,
	}
}

// fillOrInvalidate is fill for any job. Of a job over which fill panics only the members are known, and none of them is placed.
func (s *State) fillOrInvalidate(job *model.Job) {
	key := job.Key
	buildOrFallback(func() bool {
		if s.tended != nil {
			s.tended(updateTarget{job: key})
		}
		s.fillJob(job)
		return true
	}, func(why string) bool {
		why = fmt.Sprintf("job %s could not be read: %s", key, why)
		s.reportUnreadable(why)
		tasks := make([]*model.Task, 0, len(s.members[key]))
		for _, slot := range s.members[key] {
			tasks = append(tasks, slot.task)
		}
		slices.SortFunc(tasks, model.CompareTasks)
		s.filled++
		*job = model.Job{
			Key: key, Tasks: tasks, MinMember: int32(max(1, len(tasks))), Version: s.filled, NeverPreempts: true,
			Invalid: &model.Refusal{Code: model.Malformed, Detail: why},
		}
		job.Priority, _ = highestPriority(tasks)
		if group := s.groups[key]; group != nil {
			job.UID, job.Created, job.HasGroup = group.UID, group.CreationTimestamp.Time, true
		} else if len(tasks) > 0 {
			job.UID, job.Created = tasks[0].UID, tasks[0].Created
		}
		return false
	})
}

// reportUnreadable takes note of an object that could not be read, for TakeMalformed.
func (s *State) reportUnreadable(why string) { s.complaints = append(s.complaints, why) }

// TakeMalformed returns what has been found wrong with objects while snapshots were taken, since the last call; mostly nothing.
func (s *State) TakeMalformed() []string {
	complaints := s.complaints
	s.complaints = nil
	return complaints
}

// readPod works out what kube-scheduler wants to know about a pod. Terms that cannot be parsed are left out, as
// kube-scheduler does. Of a pod that it panics over only the node is kept, or each look at that node would panic.
func readPod(pod *corev1.Pod) *framework.PodInfo {
	return buildOrFallback(func() *framework.PodInfo {
		known, _ := framework.NewPodInfo(pod)
		known.CalculateResource()
		return known
	}, func(string) *framework.PodInfo {
		known, _ := framework.NewPodInfo(&corev1.Pod{
			ObjectMeta: stripMeta(&pod.ObjectMeta), Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}, Status: corev1.PodStatus{Phase: pod.Status.Phase},
		})
		return known
	})
}

// probeNodeInfo panics over a node that kube-scheduler's code would panic over in the view.
func probeNodeInfo(object *corev1.Node) {
	framework.NewNodeInfo().SetNode(object)
	imagesOn(object)
}

// reset makes the view one of an empty snapshot.
func (v *View) reset() {
	fresh := newView(v.snapshot)
	v.ahead, v.mark = nil, fresh.mark
	v.nodes, v.claims, v.images, v.pods = fresh.nodes, fresh.claims, fresh.images, fresh.pods
	v.all, v.affine, v.repelling, v.widelyRepelling = nil, nil, nil, nil
}
