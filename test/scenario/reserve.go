package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what of a scheduler's knowledge outlives it, in the status of groups.

// writeGroups writes what the status of each group keeps for the scheduler itself to read.
func (s *environment) writeGroups() {
	snapshot := s.state.Snapshot(s.world.now)
	for _, name := range slices.Sorted(maps.Keys(s.world.groups)) {
		before := s.world.groups[name]
		job := snapshot.Job(sources.Key(before))
		if job == nil {
			continue
		}
		group := before.DeepCopy()
		group.Status.WaitingSince = sources.WaitingSince(
			job, before.Status.WaitingSince, s.refusals[job.Key] != nil, metav1.NewTime(s.world.now))
		stated := gang.Stated(job)
		group.Status.EvictedAt = sources.EvictedAt(stated, before.Status.EvictedAt, metav1.NewTime(s.world.now))
		group.Status.Reclaims = sources.Reclaims(stated)
		group.Status.QueuedSince = sources.QueuedSince(stated, &before.Status)
		group.Status.OverrunSince = sources.OverrunSince(job, before.Status.OverrunSince, metav1.NewTime(s.world.now))
		sources.SetReservation(&group.Status, s.state.Reservation(job))
		writeScheduled(&group.Status, stated, s.world.now)
		sources.StartedMinima(&group.Status, stated, before, model.Minima{}, snapshot.Dimensions.List)
		if !equality.Semantic.DeepEqual(group.Status, before.Status) {
			s.world.replaceGroup(name, group)
		}
	}
}

// writeScheduled writes the condition that says whether the group was whole: True when the minimum is bound, False when no
// member is left.
func writeScheduled(status *v1alpha1.PodGroupStatus, job *model.Job, now time.Time) {
	bound := func(task *model.Task) bool {
		return task.Status == model.Bound || task.Status == model.Running || task.Status == model.Succeeded
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionScheduled, Reason: "Story", LastTransitionTime: metav1.NewTime(now)}
	switch whole := sources.Whole(&v1alpha1.PodGroup{Status: *status}); {
	case !whole && job.FirstUnmetMinimum(bound) == nil:
		condition.Status = metav1.ConditionTrue
	case whole && job.Count(bound) == 0 && !job.Finished():
		condition.Status = metav1.ConditionFalse
	default:
		return
	}
	meta.SetStatusCondition(&status.Conditions, condition)
}

// restart begins again with a scheduler that knows nothing but the objects. Binds in flight must have been seen.
func (s *environment) restart() error {
	if len(s.coming) > 0 {
		return errors.New("binds are on their way")
	}
	clear(s.started)
	s.close()
	s.close, s.kube, s.profile, s.cache = func() {}, nil, nil, engine.Cache{}
	s.state = cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}})
	s.world.tellAll(s.state)
	return nil
}

func writeReservation(b *strings.Builder, decision model.Decision) {
	reservation := decision.Reservation
	switch {
	case reservation == nil:
		return
	case len(reservation.Nodes) == 0:
		fmt.Fprintf(b, "reserve: nothing for %s\n", jobName(decision.Job))
		return
	}
	fmt.Fprintf(b, "reserve: for %s", jobName(decision.Job))
	for i, room := range reservation.Nodes {
		comma := ","
		if i == 0 {
			comma = ""
		}
		fmt.Fprintf(b, "%s %d on %s", comma, room.Members, room.Node)
	}
	fmt.Fprintf(b, "; since %s", reservation.Since.Format(time.TimeOnly))
	if !reservation.ExpectedStart.IsZero() {
		fmt.Fprintf(b, ", expected start %s", reservation.ExpectedStart.Format(time.TimeOnly))
	}
	if !reservation.GaveWay.IsZero() {
		fmt.Fprintf(b, ", gave way %s", reservation.GaveWay.Format(time.TimeOnly))
	}
	b.WriteByte('\n')
}

// checkLimits sees that what is reserved after the cycle is within the limits: one reservation of each namespace, and of each
// resource no more than the share of what the nodes offer.
func (s *environment) checkLimits(o *outcome) error {
	share, holders, sum, total := int64(80), map[string]model.JobKey{}, corev1.ResourceList{}, corev1.ResourceList{}
	if _, text, given := bytes.Cut(s.configuration, []byte("reserveShare: ")); given {
		if _, err := fmt.Sscan(string(text), &share); err != nil {
			return err
		}
	}
	for _, node := range s.world.nodes {
		addTo(total, node.Status.Allocatable)
	}
	held := map[model.JobKey]*model.Reservation{}
	for _, job := range o.snapshot.Jobs {
		held[job.Key] = job.Reservation
	}
	for _, decision := range o.decisions {
		if decision.Reservation != nil {
			held[decision.Job] = decision.Reservation
		}
		if len(decision.Binds) > 0 {
			held[decision.Job] = nil
		}
	}
	for job, reservation := range held {
		if reservation == nil || len(reservation.Nodes) == 0 {
			continue
		}
		tenant := job.Namespace
		if len(s.world.queues) > 0 {
			tenant = s.queueOf(job)
		}
		if other, known := holders[tenant]; known {
			return fmt.Errorf("%s and %s of one namespace or queue have capacity reserved", other, job)
		}
		holders[tenant] = job
		addTo(sum, o.snapshot.Dimensions.List(reservation.Total()))
		if late := reservation.Until; late.IsZero() || !late.After(s.world.now.Truncate(time.Second)) {
			return fmt.Errorf("%s has capacity reserved until %s, and it is %s", job, late, s.world.now)
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		reserved, all := sum[name], total[name]
		if reserved.MilliValue()*100 > all.MilliValue()*share {
			return fmt.Errorf("%s %s of %s is reserved, and the share is %d percent", reserved.String(), name, all.String(), share)
		}
	}
	return nil
}

// checkReserved is invariant I15 for reserved capacity, by what the status of groups showed before the cycle: what was given to
// those who had to respect it, and all that was there before, leaves the capacity free.
func (s *environment) checkReserved(o *outcome) error {
	touched := map[model.JobKey]bool{}
	for _, decision := range o.decisions {
		if decision.Reservation != nil || len(decision.Binds) > 0 {
			touched[decision.Job] = true
		}
	}
	for _, group := range s.world.groups {
		owner := o.snapshot.Job(sources.Key(group))
		if owner == nil || owner.Reservation == nil || group.Status.Reservation == nil || touched[owner.Key] {
			continue
		}
		for _, room := range group.Status.Reservation.Nodes {
			if err := s.checkRoomOf(o, owner, group.Status.Reservation, room); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *environment) checkRoomOf(
	o *outcome, owner *model.Job, reservation *v1alpha1.Reservation, room v1alpha1.ReservedNode,
) error {
	fresh, respects := o.bound()[room.Name], false
	used := map[corev1.ResourceName]int64{}
	passes := func(pod *corev1.Pod) bool { // what was nominated in another queue takes the place of victims there
		return pod.Status.NominatedNodeName == room.Name && s.queueOf(s.jobOf(pod)) != s.queueOf(owner.Key) || s.passes(o, pod, owner, reservation)
	}
	for _, pod := range s.world.pods {
		nominated := s.nodeOf(pod) == "" && s.nominated[pod.UID] == room.Name && s.jobOf(pod) != owner.Key
		evicted := s.ending[pod.UID] && pod.DeletionTimestamp == nil // in this cycle
		switch {
		case !nominated && s.nodeOf(pod) != room.Name, pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed,
			evicted, s.leaves(pod), (nominated || fresh[pod.UID]) && passes(pod):
			continue
		case fresh[pod.UID]:
			respects = true
		}
		requests := pod.Spec.Containers[0].Resources.Requests
		used[corev1.ResourceCPU] += requests.Cpu().MilliValue()
		used[corev1.ResourceMemory] += requests.Memory().Value()
	}
	node := s.world.nodes[room.Name]
	if !respects || node == nil {
		return nil
	}
	cpu, memory := room.Resources.Cpu().MilliValue(), room.Resources.Memory().Value()
	for _, pod := range s.world.pods { // of what was asked for alone
		if !fresh[pod.UID] || passes(pod) {
			continue
		}
		requests, offers := pod.Spec.Containers[0].Resources.Requests, node.Status.Allocatable
		if !requests.Cpu().IsZero() && used[corev1.ResourceCPU]+cpu > offers.Cpu().MilliValue() ||
			!requests.Memory().IsZero() && used[corev1.ResourceMemory]+memory > offers.Memory().Value() {
			return fmt.Errorf("invariant I15: pod %s took capacity on %s that is reserved for %s", pod.Name, room.Name, owner.Key)
		}
	}
	return nil
}

// leaves reports whether a pod is being deleted, and not for too long yet: a job that waits for the capacity gets the pod's,
// too.
func (s *environment) leaves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && s.world.now.Unix() < pod.DeletionTimestamp.Add(30*time.Second).Unix()
}

// belowMinimum reports whether the job held capacity and was below its minimum before it was given anything.
func belowMinimum(o *outcome, job *model.Job) bool {
	fresh := map[types.UID]bool{}
	for _, pods := range o.bound() {
		maps.Copy(fresh, pods)
	}
	before := func(task *model.Task) bool { return task.Status.CountsTowardMinimum() && !fresh[task.UID] }
	held := func(task *model.Task) bool { return before(task) && task.Status.Occupies() }
	return job.FirstUnmetMinimum(before) != nil && job.Count(held) > 0
}

// mayTake reports whether a reservation may give way to a job that was started in the cycle: it has not been planned again since
// it gave way, with the gang its queue would hold more than its share of something that the job asks for, and with the job its
// own queue no more than its share. What else was started in the cycle may have been so later, and what was nominated is so
// always: pods are evicted after all that starts on idle capacity.
func (s *environment) mayTake(o *outcome, job, owner *model.Job, reservation *v1alpha1.Reservation) (beyond bool) {
	y, x := owner.InQueue().Meets(job.InQueue())
	if x == nil || y == nil || reservation.GaveWay != nil && reservation.GaveWay.Before(&reservation.Since) {
		return false
	}
	fresh := map[types.UID]bool{}
	for _, pods := range o.bound() {
		maps.Copy(fresh, pods)
	}
	for _, decision := range o.decisions {
		for _, nomination := range decision.Nominations {
			fresh[nomination.Pod.UID] = true
		}
	}
	needs := int(owner.MinMember) - owner.Count(framework.Ready.Counts)
	for _, share := range x.ContendedShares() {
		r, holds, asks := share.Position, int64(0), false
		for _, task := range job.Tasks {
			asks = asks || task.Request.At(r) > 0
		}
		for _, other := range o.snapshot.Jobs {
			for _, task := range other.Tasks {
				if other.InQueue().IsBelow(x) && task.CountsInQueue() && task.Status != model.Releasing && (other == job || !fresh[task.UID]) {
					holds += task.Request.At(r)
				}
			}
		}
		if asks && holds > share.Amount {
			return false
		}
		for _, of := range y.ContendedShares() {
			beyond = beyond || asks && of.Position == r && y.Used.At(r)+model.LeastRequest(owner, needs, r) > of.Amount
		}
	}
	return beyond
}

// passes reports whether a pod need not respect a reservation: it is above it in its queue, or within a guarantee of another
// one, or the reservation gives way to it, or it will be gone in time, or completes a gang that has begun.
func (s *environment) passes(o *outcome, pod *corev1.Pod, owner *model.Job, reservation *v1alpha1.Reservation) bool {
	job := o.snapshot.Job(s.jobOf(pod))
	if belowMinimum(o, job) {
		return true
	}
	if queue := s.queueOf(job.Key); !s.severalQueues() || queue == s.queueOf(owner.Key) {
		if job.Priority > owner.Priority {
			return true
		}
	} else if s.isGuaranteed(o, job, queue, s.world.above(s.queueOf(owner.Key))) || s.mayTake(o, job, owner, reservation) {
		return true
	}
	seconds := pod.Spec.ActiveDeadlineSeconds
	if expected := job.ExpectedRunSeconds; expected != nil && *expected <= 24*60*60 && job.OverrunSince.IsZero() && (seconds == nil || *expected < *seconds) {
		seconds = expected
	}
	return seconds != nil && reservation.ExpectedStart != nil &&
		!s.world.now.Add(time.Duration(*seconds)*time.Second).After(reservation.ExpectedStart.Time)
}
