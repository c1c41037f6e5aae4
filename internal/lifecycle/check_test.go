package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// TestRestartAt: what memberLoss says counts.
func TestRestartAt(t *testing.T) {
	restart, wait := v1alpha1.MemberLossRestart, v1alpha1.MemberLossWait
	for name, c := range map[string]struct {
		spec v1alpha1.PodGroupSpec
		want int64 // seconds after it has been degraded; 0 for never
	}{
		"nothing said":           {v1alpha1.PodGroupSpec{}, 0},
		"Wait":                   {v1alpha1.PodGroupSpec{MemberLoss: &v1alpha1.MemberLoss{Policy: wait, TimeoutSeconds: new(int64(300))}}, 0},
		"Restart":                {v1alpha1.PodGroupSpec{MemberLoss: &v1alpha1.MemberLoss{Policy: restart, TimeoutSeconds: new(int64(20))}}, 20},
		"Restart, not defaulted": {v1alpha1.PodGroupSpec{MemberLoss: &v1alpha1.MemberLoss{Policy: restart}}, 300},
		"longer than can be":     {v1alpha1.PodGroupSpec{MemberLoss: &v1alpha1.MemberLoss{Policy: restart, TimeoutSeconds: new(int64(1 << 62))}}, longestLossTimeout},
	} {
		since := metav1.NewTime(time.Unix(100, 0))
		group := &v1alpha1.PodGroup{Spec: c.spec, Status: v1alpha1.PodGroupStatus{DegradedSince: &since}}
		at := restartAt(group)
		if at.IsZero() != (c.want == 0) || !at.IsZero() && at.Unix() != 100+c.want {
			t.Errorf("%s: restart at %v; want %d s after it was degraded", name, at, c.want)
		}
		if group.Status.DegradedSince = nil; c.want != 0 {
			if !restartAt(group).IsZero() {
				t.Errorf("%s: restarts while it is not degraded", name)
			}
		}
	}
}
