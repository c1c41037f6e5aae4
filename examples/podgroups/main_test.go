package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned/fake"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

func TestPrintWaiting(t *testing.T) {
	about := func(name string, status metav1.ConditionStatus, reason string) *v1alpha1.PodGroup {
		return &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "jobs", Name: name},
			Status: v1alpha1.PodGroupStatus{Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionScheduled, Status: status, Reason: reason, Message: "so it is",
			}}},
		}
	}
	client := fake.NewClientset(about("runs", metav1.ConditionTrue, "Scheduled"), about("waits", metav1.ConditionFalse, "InsufficientResources"))
	var out strings.Builder
	if err := printWaiting(t.Context(), client, &out); err != nil {
		t.Fatal(err)
	}
	if want := "jobs/waits: InsufficientResources: so it is\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
