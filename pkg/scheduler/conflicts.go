package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// reasonConflict is that of the event about a pod which holds isolated CPUs that it should not.
const reasonConflict = "IsolatedCPUConflict"

// reportConflicts tells of pods whose isolated CPUs are not what they should be. Nobody is evicted for it: the node's agent starts
// no container on CPUs that another one has.
func (s *Scheduler) reportConflicts(ctx context.Context, now time.Time) {
	for _, conflict := range s.state.TakeConflicts() {
		klog.FromContext(ctx).Info("Isolated CPUs in conflict", "pod", conflict.Pod, "node", conflict.Node, "kind", conflict.Kind,
			"detail", conflict.Detail)
		s.options.Metrics.conflict(string(conflict.Kind))
		s.machine.Write(now, podEvent(conflict.Pod, corev1.EventTypeWarning, reasonConflict, conflict.Detail+" on "+conflict.Node, now))
	}
}
