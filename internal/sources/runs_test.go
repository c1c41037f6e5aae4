package sources

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAPodSaysWhenItEnded by its containers, by its status alone, or not at all; what is kept of it says the same.
func TestAPodSaysWhenItEnded(t *testing.T) {
	at := func(second int) metav1.Time { return metav1.NewTime(time.Date(2026, 1, 5, 8, 0, second, 0, time.UTC)) }
	ended := []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(10)}}}}
	written := func(second int) []metav1.ManagedFieldsEntry {
		when := at(second)
		return []metav1.ManagedFieldsEntry{{Subresource: "status", Time: &when}}
	}
	ready := []corev1.PodCondition{{Type: corev1.PodReady, LastTransitionTime: at(12)}}
	began := at(1)
	for name, c := range map[string]struct {
		written  []metav1.ManagedFieldsEntry
		status   corev1.PodStatus
		expected time.Time
	}{
		"its container":                {nil, corev1.PodStatus{ContainerStatuses: ended}, at(10).Time},
		"its condition, which is last": {nil, corev1.PodStatus{ContainerStatuses: ended, Conditions: ready}, at(12).Time},
		"a node whose clock is ahead":  {written(9), corev1.PodStatus{ContainerStatuses: ended}, at(9).Time},
		"a status written again":       {written(90), corev1.PodStatus{ContainerStatuses: ended}, at(10).Time},
		"no container":                 {written(20), corev1.PodStatus{Conditions: ready, StartTime: &began}, at(20).Time},
		"nothing":                      {nil, corev1.PodStatus{Conditions: ready, StartTime: &began}, time.Time{}},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}, Status: c.status}
		pod.ManagedFields = c.written
		kept := &corev1.Pod{}
		if KeepEnd(kept, pod); !EndedAt(pod).Equal(c.expected) || !EndedAt(kept).Equal(c.expected) {
			t.Errorf("%s: ended at %v, kept as %v, want %v", name, EndedAt(pod), EndedAt(kept), c.expected)
		}
	}
}
