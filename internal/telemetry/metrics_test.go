package telemetry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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
	job := &model.Job{Need: model.Need{MinMember: 2}, Created: start}
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

// TestStateOfTheProcessIsScrapedFromTheStart: a replica that does not lead says so, and alerts compare these with 0.
func TestStateOfTheProcessIsScrapedFromTheStart(t *testing.T) {
	registry := prometheus.NewRegistry()
	if _, err := New(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []metrics.Name{metrics.CycleFailing, metrics.Leading, metrics.Paused, metrics.RestartNeeded} {
		if !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == string(name) }) {
			t.Errorf("%s is not there", name)
		}
	}
}
