package framework

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestGuestsCameAfterTheReservation: a pod that began later than now did so by another clock, and cannot be told from those that
// were there before.
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
