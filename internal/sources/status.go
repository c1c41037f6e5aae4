package sources

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what the status of a PodGroup keeps for the scheduler itself to read after a restart: since when the group has
// waited with all that it needs, how often it was evicted for other queues, since when it has been degraded, when it has ended,
// and what is reserved for it or was given up.

// WaitingSince returns since when the job has had its members and has waited for capacity, as its PodGroup is to show it. before
// is what it shows, nil when nothing; refused reports whether the last cycle refused the job. It stays as it is between a
// decision and the binds: a start that fails does not make the group wait from the beginning.
func WaitingSince(job *model.Job, before *metav1.Time, refused bool, now metav1.Time) *metav1.Time {
	switch {
	case job.Invalid != nil || job.Finished() || job.FirstUnmetMinimum((*model.Task).IsBound) == nil || job.FirstUnmetMinimum((*model.Task).Exists) != nil:
		return nil
	case before == nil && refused:
		return &now
	}
	return before
}

// EvictedAt returns when the scheduler last began to delete members of the job, as its PodGroup is to show it. before is what it
// shows, nil when nothing.
func EvictedAt(job *model.Job, before *metav1.Time, now metav1.Time) *metav1.Time {
	return since(job.Evicted, before, now)
}

// since returns since when something holds, as a status is to show it. before is what the status shows, nil when nothing.
func since(holds bool, before *metav1.Time, now metav1.Time) *metav1.Time {
	switch {
	case !holds:
		return nil
	case before == nil:
		return &now
	}
	return before
}

// Reclaims returns how often all of the job was evicted for jobs of other queues, as its PodGroup is to show it.
func Reclaims(job *model.Job) int32 {
	if job.Finished() && !job.Evicted {
		return 0
	}
	return job.Reclaims
}

// QueuedSince returns since when the job is in the queue, as its PodGroup is to show it and jobs are ordered by; nil while it
// lacks members and was not complete before. shown is the status that its PodGroup shows. When all members have ended or are
// gone, or the last one with a node is, the age is that of the next members, unless the scheduler has deleted them.
func QueuedSince(job *model.Job, shown *v1alpha1.PodGroupStatus) *metav1.Time {
	lost := job.Count((*model.Task).Exists) == 0 || whole(shown) && !gang.Remains(job.Tasks)
	switch {
	case shown.QueuedSince != nil && (job.Evicted || !lost && !job.Finished()):
		return shown.QueuedSince
	case job.Finished():
		return nil
	}
	minima := job.Minima()
	if at := completeAt(&minima, job.Tasks); !at.IsZero() {
		return &metav1.Time{Time: latest(at, job.Created)}
	}
	return nil
}

// DefaultScheduler is the name of a scheduler that is given none.
const DefaultScheduler = "tutti"

// Writer returns the scheduler that has written the status of a PodGroup without members; empty when none has. A status of a
// version that did not say so counts as one of DefaultScheduler: of several schedulers at most one has the name.
func Writer(status *v1alpha1.PodGroupStatus) string {
	if status.SchedulerName == "" && status.Phase != "" {
		return DefaultScheduler
	}
	return status.SchedulerName
}

// OverrunSince returns since when the group is known to have run for longer than it says, as its PodGroup is to show it. before
// is what it shows, nil when nothing: once it is shown it stays.
func OverrunSince(job *model.Job, before *metav1.Time, now metav1.Time) *metav1.Time {
	return since(before != nil || job.Overruns(now.Unix()), before, now)
}

// Reservation returns what a status shows of the group's reservation, never to be changed: one without nodes was given up at
// Until. It is nil when the group has none.
func Reservation(status *v1alpha1.PodGroupStatus) *v1alpha1.Reservation {
	if status.Reservation == nil && status.ReservationGivenUp != nil {
		return &v1alpha1.Reservation{Since: *status.ReservationGivenUp, Until: status.ReservationGivenUp}
	}
	return status.Reservation
}

// Explanation returns the condition that says why a group is as it is: Degraded while that is true, else Scheduled; nil when
// there is neither.
func Explanation(conditions []metav1.Condition) *metav1.Condition {
	if degraded := meta.FindStatusCondition(conditions, v1alpha1.ConditionDegraded); degraded != nil && degraded.Status == metav1.ConditionTrue {
		return degraded
	}
	return meta.FindStatusCondition(conditions, v1alpha1.ConditionScheduled)
}

// SetReservation lets a status show what Reservation then returns.
func SetReservation(status *v1alpha1.PodGroupStatus, reservation *v1alpha1.Reservation) {
	status.Reservation, status.ReservationGivenUp = reservation.DeepCopy(), nil
	if reservation != nil && len(reservation.Nodes) == 0 {
		status.Reservation, status.ReservationGivenUp = nil, reservation.Until.DeepCopy()
	}
}

// DegradedSince returns since when the job, which was whole, has been below its minimum because it has lost members, as its
// PodGroup is to show it; nil when it is not, or when nothing but its minimum has changed. before is what the PodGroup shows.
func DegradedSince(job *model.Job, before v1alpha1.PodGroupStatus, whole bool, now metav1.Time) *metav1.Time {
	has := job.Count((*model.Task).IsBound)
	switch {
	case !whole || has == 0 || job.Finished() || job.FirstUnmetMinimum((*model.Task).IsBound) == nil:
		return nil
	case before.DegradedSince != nil:
		return before.DegradedSince
	case has < int(before.Placed):
		return &now
	}
	return nil
}

// FinishedAt returns when the group of a phase has ended, as its PodGroup is to show it; nil when it has not. before is what it
// shows, nil when nothing.
func FinishedAt(phase v1alpha1.PodGroupPhase, before *metav1.Time, now metav1.Time) *metav1.Time {
	return since(phase == v1alpha1.PodGroupSucceeded || phase == v1alpha1.PodGroupFailed, before, now)
}

// ExpiresAt returns when a group that has ended is to be deleted; ok is false when it is to be kept.
func ExpiresAt(group *v1alpha1.PodGroup) (at time.Time, ok bool) {
	kept, finished := group.Spec.TTLSecondsAfterFinished, group.Status.FinishedAt
	if kept == nil || finished == nil {
		return at, false
	}
	return finished.Add(time.Duration(*kept) * time.Second), true
}
