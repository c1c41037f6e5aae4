package report

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestOnlyARefusalAboutCapacityIsUnschedulable: for that reason of a pod autoscalers add nodes, which helps no job that its queue
// does not let start. Each member that waits has the reason, with a PodGroup and without one.
func TestOnlyARefusalAboutCapacityIsUnschedulable(t *testing.T) {
	d := newDesk()
	for _, c := range []struct {
		code model.Code
		want string
	}{
		{model.InsufficientResources, corev1.PodReasonUnschedulable},
		{model.NodesFiltered, corev1.PodReasonUnschedulable},
		{model.QueueLimit, "QueueLimit"},
		{model.QueuePaused, "QueuePaused"},
		{model.QueueNotFound, "QueueNotFound"},
		{model.QueueNotAllowed, "QueueNotAllowed"},
		{model.QueueNotLeaf, "QueueNotLeaf"},
		{model.QueueInvalid, "QueueInvalid"},
	} {
		key := d.gang("a", string(c.code), 2, c.code)
		without := d.gang("b", string(c.code), 1, c.code)
		job := d.jobs[len(d.jobs)-1]
		job.HasGroup, job.Key.Source = false, model.SourceImplicit
		d.refusals[job.Key] = d.refusals[without]
		d.after(time.Minute)
		for member := range 2 {
			if got, want := d.reason(key, member), string(c.code)+" "+c.want; got != want {
				t.Errorf("member %d says %q, want %q", member, got, want)
			}
		}
		if pod := model.PodScheduled(job.Tasks[0].Pod); pod == nil || pod.Status != corev1.ConditionFalse || pod.Reason != c.want {
			t.Errorf("the pod of a job without a PodGroup says %+v, want %s", pod, c.want)
		}
	}
}
