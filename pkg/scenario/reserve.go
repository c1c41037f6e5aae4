package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/cluster"
	"github.com/tutti-sched/tutti/pkg/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what of a scheduler's knowledge outlives it, in the status of groups.

// writeGroups writes what the status of each group keeps for the scheduler itself to read.
func (s *stage) writeGroups() {
	snapshot := s.state.Snapshot(s.world.now)
	for _, name := range slices.Sorted(maps.Keys(s.world.groups)) {
		before := s.world.groups[name]
		job := snapshot.Job(groups.Key(before))
		if job == nil {
			continue
		}
		group := before.DeepCopy()
		group.Status.WaitingSince = groups.WaitingSince(
			job, before.Status.WaitingSince, s.refusals[job.Key] != nil, metav1.NewTime(s.world.now))
		group.Status.Reservation = groups.Reservation(job).DeepCopy()
		if !equality.Semantic.DeepEqual(group.Status, before.Status) {
			s.world.replaceGroup(name, group)
		}
	}
}

// restart begins anew with a scheduler that knows nothing but the objects. Binds on their way must have been seen.
func (s *stage) restart() error {
	if len(s.coming) > 0 {
		return errors.New("binds are on their way")
	}
	s.close()
	s.close, s.kube, s.profile, s.memory = func() {}, nil, nil, framework.Memory{}
	s.state = cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}})
	for _, event := range s.world.told {
		if event.Kind == cluster.KindDeviceClass {
			s.state.Apply(event)
		}
	}
	s.world.tellAll(s.state)
	return nil
}

func writeReservation(b *strings.Builder, decision model.Decision) {
	reservation := decision.Reservation
	switch {
	case reservation == nil:
		return
	case len(reservation.Rooms) == 0:
		fmt.Fprintf(b, "reserve: nothing for %s\n", jobName(decision.Job))
		return
	}
	fmt.Fprintf(b, "reserve: for %s", jobName(decision.Job))
	for i, room := range reservation.Rooms {
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
	b.WriteByte('\n')
}
