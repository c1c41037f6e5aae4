package report

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestConditionsOfOthersLeaveSpaceForOurs: a status with as many conditions as the API allows gets ours all the same.
func TestConditionsOfOthersLeaveSpaceForOurs(t *testing.T) {
	d := newDesk()
	key := d.gang("a", "g", 1, model.InsufficientResources)
	for i := range 16 {
		d.groups[key].Status.Conditions = append(d.groups[key].Status.Conditions, metav1.Condition{Type: fmt.Sprintf("Other%02d", i)})
	}
	d.after(0)
	conditions := d.groups[key].Status.Conditions
	if len(conditions) != 16 || meta.FindStatusCondition(conditions, v1alpha1.ConditionScheduled) == nil || conditions[0].Type != "Other00" {
		t.Errorf("%d conditions: %+v", len(conditions), conditions)
	}
	if got := d.after(time.Minute); len(got) != 0 {
		t.Errorf("written again: %v", got)
	}
}
