package groups

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// own is our own label, and kube-batch's annotation: of a PodGroup, or of an implicit group. The two are one source, since the
// same mark means one or the other, as the PodGroup exists or not.
type own struct{}

func (own) Name() string { return "tutti" }

func (own) Watches() []Watch { return nil }

func (own) Of(pod *corev1.Pod) (Membership, bool) {
	written := pod.Annotations[v1alpha1.AnnotationKubeBatchGroup]
	name := cmp.Or(pod.Labels[v1alpha1.LabelPodGroup], written)
	if name == "" {
		return Membership{}, false
	}
	if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
		m := alone(pod)
		m.Malformed = &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf(
			"pod %s/%s: annotation %s is %q, which cannot be the value of a label", pod.Namespace, pod.Name,
			v1alpha1.AnnotationKubeBatchGroup, model.Brief(written, maxQuoted))}
		return m, true
	}
	m := Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name}}
	minimum, implicit := pod.Annotations[v1alpha1.AnnotationMinMember]
	if !implicit {
		return m, true
	}
	m.Implicit = model.JobKey{Namespace: pod.Namespace, Name: name, Source: model.SourceImplicit, Owner: owner(pod)}
	minMember, err := strconv.ParseInt(minimum, 10, 32)
	if err != nil || minMember < 1 {
		m.Malformed = &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf(
			"annotation %s is %q, it must be a whole number from 1 up", v1alpha1.AnnotationMinMember, model.Brief(minimum, maxQuoted))}
		return m, true
	}
	m.MinMember = int32(minMember)
	return m, true
}

// maxQuoted is how much of a text that users wrote a message quotes, in bytes.
const maxQuoted = 43

// owner returns the UID of the pod's controller, empty when it has none.
func owner(pod *corev1.Pod) types.UID {
	if controller := metav1.GetControllerOf(pod); controller != nil {
		return controller.UID
	}
	return ""
}
