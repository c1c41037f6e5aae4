package engine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestGuestsCameAfterTheReservation: a pod that began later than now did so by another clock, and cannot be distinguished from
// those that were there before.
func TestGuestsCameAfterTheReservation(t *testing.T) {
	const reserved, now = 1000, 2000
	for began, want := range map[int64]bool{999: false, 1000: false, 1001: true, 2000: true, 2001: false} {
		start := metav1.NewTime(time.Unix(began, 0))
		task := &model.Task{Job: model.JobKey{Namespace: "a", Name: "g"}, Pod: &corev1.Pod{Status: corev1.PodStatus{StartTime: &start}}}
		task.Status = model.Running
		if got := len(guestsOn(&model.Node{Tasks: []*model.Task{task}}, reserved, now)) == 1; got != want {
			t.Errorf("began at %d: a guest %t, want %t", began, got, want)
		}
	}
}

// TestAPodThatRunsLateIsNoGuest where it was bound before the capacity was reserved.
func TestAPodThatRunsLateIsNoGuest(t *testing.T) {
	const reserved, began, now = 1000, 1500, 2000
	for bound, want := range map[int64]bool{1000: false, 1001: true} {
		start := metav1.NewTime(time.Unix(began, 0))
		pod := &corev1.Pod{Status: corev1.PodStatus{StartTime: &start, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(bound, 0)),
		}}}}
		task := &model.Task{Job: model.JobKey{Namespace: "a", Name: "g"}, Pod: pod}
		task.Status = model.Running
		if got := len(guestsOn(&model.Node{Tasks: []*model.Task{task}}, reserved, now)) == 1; got != want {
			t.Errorf("bound at %d: a guest %t, want %t", bound, got, want)
		}
		s := &Session{Snapshot: &model.Snapshot{Now: time.Unix(now, 0)}, reservations: reservations{since: reserved}}
		if got := s.precedesReservations(&model.Job{Tasks: []*model.Task{task}}); got == want {
			t.Errorf("bound at %d: precedes the reservation %t", bound, got)
		}
	}
}
