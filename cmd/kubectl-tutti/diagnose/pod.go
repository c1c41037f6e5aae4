package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// DiagnosePod diagnoses the pod of that name, and its group when it has one. It returns nil when there is no such pod.
func DiagnosePod(namespace *Namespace, name string) *Diagnosis {
	pod := namespace.pod(name)
	if pod == nil {
		return nil
	}
	a := diagnosePod(namespace, pod)
	if off := namespace.turnedOff(pod); off != "" {
		a.Notes = append(a.Notes, off)
	}
	return a
}

func diagnosePod(namespace *Namespace, pod *corev1.Pod) *Diagnosis {
	a := &Diagnosis{Kind: kindPod, Namespace: namespace.Name, Name: pod.Name}
	a.readPod(namespace, pod)
	if namespace.groupName(pod) != "" && !foreign(pod) {
		g := namespace.gangOf(pod)
		a.Group = newDiagnosis(namespace, &g)
		if condition := waits(pod); a.Reason == groupNotFound || pod == g.reportingPod() || condition != nil && isRepeated(&g, condition) {
			a.Details = nil // the group has more detail
		}
	}
	return a
}

func (a *Diagnosis) readPod(namespace *Namespace, pod *corev1.Pod) {
	condition := waits(pod)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		a.State, a.Reason = Ended, string(pod.Status.Phase)
		a.Details = conditions(pod.Status.Message)
	case pod.DeletionTimestamp != nil:
		a.State, a.Details = Ended, []string{"it is being deleted"}
	case pod.Spec.NodeName != "":
		a.State, a.Details = Started, []string{fmt.Sprintf("bound to node %s, %s", pod.Spec.NodeName, pod.Status.Phase)}
	case foreign(pod):
		a.State = OtherScheduler
		a.Details = []string{fmt.Sprintf("its spec.schedulerName is %q: Tutti leaves it alone", pod.Spec.SchedulerName)}
		if job := namespace.On().Of(pod).Job; !job.IsPod() {
			a.Notes = append(a.Notes, fmt.Sprintf("it names %s %q, of which it is no member therefore", job.Source.Kind(), job.Name))
		}
	case len(pod.Spec.SchedulingGates) > 0:
		a.State, a.Reason = Waiting, corev1.PodReasonSchedulingGated
		var gates []string
		for _, gate := range pod.Spec.SchedulingGates {
			gates = append(gates, gate.Name)
		}
		a.Details = []string{"it carries scheduling gates, which another controller removes: " + strings.Join(gates, ", ")}
	case condition != nil:
		a.State, a.Reason, a.Details = Waiting, condition.Reason, conditions(condition.Message)
	default:
		a.State, a.Details = Unprocessed, []string{"the scheduler has not said anything about it yet"}
		if name := pod.Spec.SchedulerName; name != usualReasons && namespace.groupName(pod) == "" { // else its group says it
			a.Notes = append(a.Notes, leftTo([]string{pod.Name}, name))
		}
	}
	if node := pod.Status.NominatedNodeName; node != "" && a.State == Waiting {
		a.Details = append(a.Details, "capacity for it is nominated on node "+node)
	}
}
