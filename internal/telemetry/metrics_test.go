package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestGangWaitCountsFromTheLastMemberThatWasNeeded.
func TestGangWaitCountsFromTheLastMemberThatWasNeeded(t *testing.T) {
	start := time.Unix(1000, 0)
	registry := prometheus.NewRegistry()
	m, err := New(registry)
	if err != nil {
		t.Fatal(err)
	}
	job := &model.Job{MinMember: 2, Created: start}
	for i := range 3 {
		created := start.Add(time.Duration(i) * time.Minute)
		job.Tasks = append(job.Tasks, &model.Task{Created: created, Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint(i), CreationTimestamp: metav1.NewTime(created)}}})
	}
	m.Started(job, start.Add(3*time.Minute))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == string(metrics.GangWaitSeconds) {
			if waited := family.GetMetric()[0].GetHistogram().GetSampleSum(); waited != 120 {
				t.Errorf("waited %v s, want two minutes since the second member came", waited)
			}
			return
		}
	}
	t.Error("no wait was measured")
}
