package harness

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1alpha1 "github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// SchedulerName is the scheduler that Pod asks for.
const SchedulerName = "tutti"

// PodOption changes a pod before it is created.
type PodOption func(*corev1.Pod)

// Pod is a pod of one container for Tutti, with no grace period and no requests.
func (e *Env) Pod(namespace, name string, options ...PodOption) *corev1.Pod {
	var noGrace int64
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			SchedulerName:                 SchedulerName,
			TerminationGracePeriodSeconds: &noGrace,
			Containers:                    []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

// Requests sets what the pod's container asks for, such as {"cpu": "1", "nvidia.com/gpu": "8"}; limits are the same,
// as extended resources need it. Amounts are literals: one that is no quantity stops the program.
func Requests(amounts map[string]string) PodOption {
	return func(p *corev1.Pod) {
		list := corev1.ResourceList{}
		for name, amount := range amounts {
			list[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
}

// InGroup makes the pod a member of a PodGroup of its namespace.
func InGroup(name string) PodOption {
	return func(p *corev1.Pod) { p.Labels[schedulingv1alpha1.LabelPodGroup] = name }
}

// ScheduledBy gives the pod to another scheduler, such as default-scheduler.
func ScheduledBy(name string) PodOption {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
}

// OnNode binds the pod to a node from the start.
func OnNode(name string) PodOption {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

// PodLabels adds labels.
func PodLabels(labels map[string]string) PodOption {
	return func(p *corev1.Pod) { maps.Copy(p.Labels, labels) }
}

// PodAnnotations adds annotations, such as cluster.RunFor.
func PodAnnotations(annotations map[string]string) PodOption {
	return func(p *corev1.Pod) { maps.Copy(p.Annotations, annotations) }
}
