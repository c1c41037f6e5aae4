package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// reportingPod is the pod with the scheduler's full message of an implicit or foreign group: the oldest that waits without a
// reason of its own. It is nil when there is none, or it has no message yet; a PodGroup has its own status.
func (g *gang) reportingPod() *corev1.Pod {
	if !g.byPods {
		return nil
	}
	for _, pod := range g.pods {
		if foreign(pod) || len(pod.Spec.SchedulingGates) > 0 || g.malformed(pod) {
			continue
		}
		if condition := waits(pod); condition != nil && !isRepeated(g, condition) {
			return pod
		}
	}
	return nil
}

// isRepeated reports whether a pod's condition only says that it waits with its group.
func isRepeated(g *gang, condition *corev1.PodCondition) bool {
	return strings.HasPrefix(condition.Message, fmt.Sprintf("waits with its PodGroup %q", g.name)) ||
		g.byPods && strings.HasPrefix(condition.Message, fmt.Sprintf("waits with its group %q", g.name))
}

// diagnoseByPods diagnoses an implicit or a foreign group from its pods.
func (a *Diagnosis) diagnoseByPods(g *gang) {
	m := a.Members
	var said []string
	if speaker := g.reportingPod(); speaker != nil {
		condition := waits(speaker)
		a.Reason, said = condition.Reason, conditions(condition.Message)
	}
	whole := m.Needs > 0 && m.Bound >= m.Needs-m.late
	switch {
	case len(m.Foreign) == len(g.pods):
		a.State = OtherScheduler
		a.Details = []string{fmt.Sprintf("spec.schedulerName of its pods is %q: Tutti leaves them alone", g.pods[0].Spec.SchedulerName)}
	case m.Needs == 0 && m.Bound > 0 && len(m.Waiting) == 0: // its object is not known, which matters to what waits
		a.State, a.Details = Started, []string{fmt.Sprintf("%d pods are bound", m.Bound)}
	case m.Exist == m.Succeeded && len(m.Gated) == 0:
		a.State, a.Reason = Ended, ""
		a.Details = []string{fmt.Sprintf("%d members have succeeded, %d have failed", m.Succeeded, len(m.Failed))}
	case whole:
		a.State = Started
		a.Details = []string{fmt.Sprintf("the minimum of %d is bound", m.Needs-m.late)}
		if which := "beyond the minimum"; len(m.Waiting) > 0 {
			if m.Bound < m.Needs {
				which = "made later"
			}
			a.Details = append(append(a.Details, fmt.Sprintf("members %s that wait: %d", which, len(m.Waiting))), ofWaiting(said)...)
		}
	case m.Running+m.Succeeded > 0:
		a.State = Degraded
		a.Details = append([]string{fmt.Sprintf("below its minimum: needs %d, %d bound", m.Needs, m.Bound)}, ofWaiting(said)...)
	case said != nil:
		a.State, a.Details = Waiting, said
	case m.Exist < m.Needs:
		a.State, a.Details = Waiting, []string{fmt.Sprintf("needs %d, %d exist", m.Needs, m.Exist)}
	default:
		a.State, a.Details = Unprocessed, []string{"the scheduler has not said anything about it yet"}
	}
}

// ofWaiting says of a reason that it is that of the members that wait: its numbers are those of the group with them.
func ofWaiting(said []string) []string {
	if len(said) == 0 {
		return nil
	}
	why := said[0]
	if numbers, ok := strings.CutPrefix(why, "needs "); ok {
		why = "with them the group needs " + numbers
	}
	return append([]string{"why they wait: " + why}, said[1:]...)
}

// malformed reports whether a pod says something of its group that cannot be read.
func (g *gang) malformed(pod *corev1.Pod) bool {
	membership := g.sources.Of(pod)
	implicit := membership.Implicit()
	return membership.Malformed != nil || implicit != nil && implicit.Malformed != nil
}
