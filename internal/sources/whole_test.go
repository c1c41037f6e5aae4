package sources

import (
	"math"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestStartedMinimaAreWithinTheLimits of the API, also where the spec was stored before there were any.
func TestStartedMinimaAreWithinTheLimits(t *testing.T) {
	group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: math.MaxInt32, Roles: []v1alpha1.Role{{Name: "w", MinMember: math.MaxInt32}}}}
	now := metav1.Now()
	group.Status.DegradedSince = &now
	group.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue}}
	status := group.Status
	StartedMinima(&status, &model.Job{Need: model.Need{MinMember: math.MaxInt32}}, group, model.Minima{}, nil)
	if status.StartedMinMember != 10_000_000 || status.StartedRoles[0].MinMember != 100_000 {
		t.Errorf("%d, %+v", status.StartedMinMember, status.StartedRoles)
	}
}
