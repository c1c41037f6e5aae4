package model_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestWhatHoldsAJobToItsEnd: a group that was there before its members run, or their own deadlines. The clock of the scheduler,
// which may be hours behind that of the API server, has no part in which came first.
func TestWhatHoldsAJobToItsEnd(t *testing.T) {
	const bound = 1_000_000
	for name, c := range map[string]struct {
		created  int64
		hasGroup bool
		says     *int64
		deadline *int64
		now      int64
		unheld   bool
	}{
		"the group was first":                       {created: bound - 10, hasGroup: true, now: bound + 50},
		"the group was first, and the clock lags":   {created: bound - 10, hasGroup: true, now: bound - 5000},
		"the group came later":                      {created: bound + 10, hasGroup: true, now: bound + 50, unheld: true},
		"the group came later, and the clock lags":  {created: bound + 10, hasGroup: true, now: bound - 5000, unheld: true},
		"in the same second, and it says something": {created: bound, hasGroup: true, says: new(int64(60)), now: bound + 50},
		"in the same second, and it says nothing":   {created: bound, hasGroup: true, now: bound + 50, unheld: true},
		"the group is gone":                         {now: bound + 50, unheld: true},
		"the group is gone, and a deadline is left": {now: bound + 50, deadline: new(int64(100))},
		"the group is gone, and a deadline is over": {now: bound + 200, deadline: new(int64(100)), unheld: true},
	} {
		pod := &corev1.Pod{}
		pod.Spec.ActiveDeadlineSeconds = c.deadline
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(bound, 0)}}
		job := &model.Job{
			Created: time.Unix(c.created, 0), HasGroup: c.hasGroup, ExpectedRunSeconds: c.says,
			Tasks: []*model.Task{{Pod: pod, Placement: model.Placement{Status: model.Running, Node: "n"}}},
		}
		if got := job.IsUnheld(c.now); got != c.unheld {
			t.Errorf("%s: unheld is %t", name, got)
		}
	}
}
