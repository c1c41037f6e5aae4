package cluster

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/model"
)

func (s *State) applyGroup(group *v1alpha1.PodGroup, deleted bool) Effect {
	if _, ok := s.ledger.isNews(KindGroup, group, deleted); !ok {
		return Effect{}
	}
	key := groups.Key(group)
	before := s.groups[key]
	delete(s.unreadable, key)
	s.dirtyJobs[key] = struct{}{}
	if deleted {
		s.setGroup(key, nil)
		delete(s.reserved, key)
		return Effect{Schedule: true, Report: true}
	}
	s.setGroup(key, group)
	reserved := s.readReservation(key, before, group)
	asks := reserved || before == nil || before.UID != group.UID || !equality.Semantic.DeepEqual(before.Spec, group.Spec) ||
		(before.Status.DegradedSince == nil) != (group.Status.DegradedSince == nil) ||
		groups.Whole(before) != groups.Whole(group) && s.waits(key)
	return Effect{Schedule: asks, Report: asks || !equality.Semantic.DeepEqual(before.Status, group.Status)}
}

// waits reports whether a member of the job has no node.
func (s *State) waits(job model.JobKey) bool {
	for _, slot := range s.members[job] {
		if slot.record.task.Status == model.Pending {
			return true
		}
	}
	return false
}

// setGroup takes note of a PodGroup; nil makes it gone. Pods that can do without it change sides as it comes and goes.
func (s *State) setGroup(key model.JobKey, group *v1alpha1.PodGroup) {
	existed := s.groups[key] != nil
	if group == nil {
		delete(s.groups, key)
	} else {
		s.groups[key] = group
	}
	if existed == (group != nil) {
		return
	}
	for _, slot := range slices.Collect(maps.Values(s.implicit[key])) {
		after := *slot.record
		s.membershipOf(&after)
		if !after.finished() {
			after.derivePosition()
		}
		s.replace(slot.uid, &after)
	}
}

// membershipOf says which job a pod belongs to, and what it says of that.
func (s *State) membershipOf(r *podState) {
	t, m := &r.task, &r.membership
	t.Job, t.MinMember = m.Job, 0
	if m.Implicit != (model.JobKey{}) && s.groups[m.Job] == nil {
		t.Job, t.MinMember = m.Implicit, m.MinMember
	}
}

func (s *State) applyPriorityClass(class *schedulingv1.PriorityClass, deleted bool) Effect {
	if _, ok := s.ledger.isNews(KindPriorityClass, class, deleted); !ok {
		return Effect{}
	}
	before, known := s.classes[class.Name]
	if known == !deleted && before == class.Value {
		return Effect{}
	}
	delete(s.classes, class.Name)
	if !deleted {
		s.classes[class.Name] = class.Value
	}
	var effect Effect
	for key, group := range s.groups {
		if group.Spec.PriorityClassName == class.Name {
			s.dirtyJobs[key] = struct{}{}
			effect = Effect{Schedule: true, Report: true}
		}
	}
	return effect
}

// fillJob writes a job again from its group and its members.
func (s *State) fillJob(job *model.Job) {
	key, tasks := job.Key, job.Tasks[:0]
	for _, slot := range s.members[key] {
		tasks = append(tasks, slot.task)
	}
	slices.SortFunc(tasks, model.CompareTasks)
	clear(tasks[len(tasks):cap(tasks)])
	s.filled++
	*job = model.Job{Key: key, Tasks: tasks, MinMember: 1, Version: s.filled}
	highest, live := highestPriority(tasks)
	job.Priority = highest
	group := s.groups[key]
	switch {
	case key.IsPod:
		job.UID, job.Created = tasks[0].UID, tasks[0].Created
	case key.WithoutPodGroup:
		groups.FillImplicit(job)
	case group == nil:
		// The minimum is not known any more, so every member is taken to be needed: no running member counts as surplus.
		job.MinMember = int32(min(len(tasks), 1<<30))
		job.Created = tasks[0].Created
		job.Invalid = &model.Refusal{Code: model.GroupNotFound, Detail: key.Name}
	default:
		groups.Fill(job, group)
		if unread := s.unreadable[key]; unread != nil {
			job.Invalid = unread
		}
		class := group.Spec.PriorityClassName
		value, ok := s.classes[class]
		switch {
		case class != "" && !ok:
			job.Warning = fmt.Sprintf("PriorityClass %q does not exist; the priority is that of the pods: %d", class, highest)
		case ok && live && value > highest:
			job.Warning = fmt.Sprintf("PriorityClass %q (%d) counts as %d, the highest priority of the pods", class, value, highest)
		}
		if ok {
			job.ClassPriority = &value
			if !live || value < highest {
				job.Priority = value
			}
		}
	}
	groups.Lower(job)
	job.NeverPreempts = neverPreempts(job, group)
	job.NothingPending = nothingPending(job)
	job.BelowMinimum = belowMinimum(job)
	job.Class = model.ClassOf(job, hasTerms)
}

// hasTerms reports whether a pod says something about other pods, or about objects that are not in the snapshot.
func hasTerms(task *model.Task) bool {
	spec := &task.Pod.Spec
	return spec.Affinity != nil && (spec.Affinity.PodAffinity != nil || spec.Affinity.PodAntiAffinity != nil) ||
		len(spec.TopologySpreadConstraints) > 0 || len(claims(task.Pod)) > 0
}

// hasStarted reports whether a container of the pod runs, or has done its work.
func hasStarted(pod *corev1.Pod) bool {
	started := func(status corev1.ContainerStatus) bool { return mayHaveSideEffects(&status) }
	return pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodPending && slices.ContainsFunc(pod.Status.InitContainerStatuses, started)
}

// mayHaveSideEffects reports whether an init container has come so far that it may have done something.
func mayHaveSideEffects(status *corev1.ContainerStatus) bool {
	return status.Started != nil && *status.Started || status.State.Running != nil || status.State.Terminated != nil ||
		status.LastTerminationState.Terminated != nil
}

// belowMinimum reports whether the gang holds room and is below its minimum.
func belowMinimum(job *model.Job) bool {
	holds := func(task *model.Task) bool { return task.Status == model.Bound || task.Status == model.Running }
	return job.FirstUnmetMinimum(func(task *model.Task) bool { return task.Status.CountsTowardMinimum() }) != nil && job.Count(holds) > 0
}

// neverPreempts reports whether the group, or a pod of it that has not ended, wants no pod evicted for it.
func neverPreempts(job *model.Job, group *v1alpha1.PodGroup) bool {
	never := func(policy *corev1.PreemptionPolicy) bool { return policy != nil && *policy == corev1.PreemptNever }
	return group != nil && never(group.Spec.PreemptionPolicy) ||
		slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return never(task.Pod.Spec.PreemptionPolicy) })
}

// nothingPending reports whether there is nothing to decide: no pod waits, and the job has its minimum, or has ended, or is no
// group, whose members may still come. A group that is refused as a whole must be told so.
func nothingPending(job *model.Job) bool {
	waits := func(task *model.Task) bool { return task.Status == model.Pending }
	stands := func(task *model.Task) bool { return task.Status.CountsTowardMinimum() }
	return job.Count(waits) == 0 && (!job.HasGroup || job.Finished() || job.Invalid == nil && job.FirstUnmetMinimum(stands) == nil)
}

// highestPriority returns the highest priority among the tasks that have not ended; live is false when all have.
func highestPriority(tasks []*model.Task) (highest int32, live bool) {
	for _, task := range tasks {
		if task.Status == model.Succeeded || task.Status == model.Failed {
			continue
		}
		if !live || task.Priority > highest {
			highest, live = task.Priority, true
		}
	}
	return highest, live
}
