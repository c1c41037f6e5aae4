package cluster

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// groupReservation is what is known to be reserved for one group.
type groupReservation struct {
	// reservation is nil when an end of it is assumed; parsed is the same as the group's status is to show it (sources.Reservation),
	// never changed.
	reservation *model.Reservation
	parsed      *v1alpha1.Reservation
	// assumed reports that it was decided here, and that the group's status has not shown it yet.
	assumed bool
}

// assumeReservation takes a decision about reserved capacity as given, until the group's status shows the same, or that the
// group has started, or until another group comes in its place. A group that is gone gets none.
func (s *State) assumeReservation(key model.JobKey, decided *model.Reservation) {
	if s.groups[key] == nil {
		return
	}
	r := &groupReservation{assumed: true}
	if len(decided.Nodes) > 0 || !decided.Until.IsZero() {
		r.reservation, r.parsed = decided, s.writeReservation(decided)
	}
	s.setReserved(key, r)
}

// readReservation follows a group's status and reports whether what is reserved for it is something else now.
func (s *State) readReservation(key model.JobKey, before, group *v1alpha1.PodGroup) (changed bool) {
	known, shown := s.reserved[key], sources.Reservation(&group.Status)
	var in *v1alpha1.Reservation
	if known != nil {
		in = known.parsed
	}
	switch {
	case equality.Semantic.DeepEqual(in, shown):
	case known != nil && known.assumed && before != nil && before.UID == group.UID && (shown != nil || !reachedMinimum(group)):
		return false // an older status than the one that tells of it
	}
	if shown == nil {
		delete(s.reserved, key)
		return in != nil
	}
	if !equality.Semantic.DeepEqual(in, shown) || known.assumed {
		s.setReserved(key, &groupReservation{reservation: s.parseReservation(shown), parsed: shown})
	}
	return !equality.Semantic.DeepEqual(in, shown)
}

// reachedMinimum reports whether the status was written after the group got its minimum, and before it waited again.
func reachedMinimum(group *v1alpha1.PodGroup) bool {
	return group.Status.WaitingSince == nil && meta.IsStatusConditionTrue(group.Status.Conditions, v1alpha1.ConditionScheduled)
}

func (s *State) setReserved(key model.JobKey, r *groupReservation) {
	s.reserved[key] = r
	s.dirty.addJob(key)
}

// writeReservation writes down what the group's status is to show.
func (s *State) writeReservation(r *model.Reservation) *v1alpha1.Reservation {
	known := func(at time.Time) *metav1.Time {
		if at.IsZero() {
			return nil
		}
		return &metav1.Time{Time: at}
	}
	object := &v1alpha1.Reservation{
		Since: metav1.NewTime(r.Since), ExpectedStart: known(r.ExpectedStart), Until: known(r.Until), GaveWay: known(r.GaveWay),
	}
	for _, room := range r.Nodes {
		object.Nodes = append(object.Nodes, v1alpha1.ReservedNode{
			Name: room.Node, Members: room.Members, Resources: s.dimensions.List(room.Request),
		})
	}
	return object
}

// parseReservation reads a group's status; an amount that is none of a pod's counts as far as it can.
func (s *State) parseReservation(object *v1alpha1.Reservation) *model.Reservation {
	known := func(at *metav1.Time) time.Time { return ptr.Deref(at, metav1.Time{}).Time }
	r := &model.Reservation{
		Since: object.Since.Time, ExpectedStart: known(object.ExpectedStart), Until: known(object.Until), GaveWay: known(object.GaveWay),
	}
	for _, node := range object.Nodes {
		offered, _ := s.divide(node.Resources)
		request, _, _ := s.dimensions.Vector(offered)
		r.Nodes = append(r.Nodes, model.ReservedNode{Node: node.Name, Members: node.Members, Request: request})
	}
	slices.SortFunc(r.Nodes, func(a, b model.ReservedNode) int { return cmp.Compare(a.Node, b.Node) })
	return r
}

// readReservationsAgain reads the reservations again when resources have other positions, or are offered since.
func (s *State) readReservationsAgain() {
	for key, r := range s.reserved {
		if r.parsed != nil {
			s.setReserved(key, &groupReservation{reservation: s.parseReservation(r.parsed), parsed: r.parsed, assumed: r.assumed})
		}
	}
}

// applyReservations gives the jobs of the snapshot what is reserved for them: nothing, once their minimum is bound or they have
// ended, whatever the status still shows.
func (s *State) applyReservations() {
	for key, r := range s.reserved {
		if job := s.snapshot.Job(key); job != nil {
			job.Reservation, job.GaveUp = r.reservation.Split()
			if !job.HasGroup || job.Finished() || job.FirstUnmetMinimum((*model.Task).IsBound) == nil {
				job.Reservation, job.GaveUp = nil, time.Time{}
			}
		}
	}
}

// Reservation returns what the status of a job's PodGroup is to show as reserved for it (sources.SetReservation), never to be
// changed; nil when that is nothing.
func (s *State) Reservation(job *model.Job) *v1alpha1.Reservation {
	if job.Reservation == nil && job.GaveUp.IsZero() || job.Finished() || job.FirstUnmetMinimum((*model.Task).IsBound) == nil {
		return nil
	}
	return s.reserved[job.Key].parsed
}

// reservedHolds returns the reserved capacity that is kept: that of jobs which still wait for capacity.
func (s *State) reservedHolds(holds []model.HeldCapacity) []model.HeldCapacity {
	for key := range s.reserved {
		job := s.snapshot.Job(key)
		if job == nil || job.Reservation == nil || job.FirstUnmetMinimum((*model.Task).CountsTowardMinimum) == nil {
			continue
		}
		holds = append(holds, job.Reservation.Holds(job)...)
	}
	return holds
}
