package sources

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// own is our own label: of a PodGroup, or of an implicit group. The two are one source, since the same mark means one or the
// other, as the PodGroup exists or not.
var own = &Source{
	name: "tutti",
	marks: Marks{
		Labels:      []string{v1alpha1.LabelPodGroup, v1alpha1.LabelRole, v1alpha1.LabelQueue},
		Annotations: []string{v1alpha1.AnnotationMinMember},
	},
	of: func(pod *corev1.Pod) (Membership, bool) {
		name := pod.Labels[v1alpha1.LabelPodGroup]
		if name == "" {
			return Membership{}, false
		}
		return ofPodGroup(pod, name), true
	},
}

// kubeBatch is the annotation of kube-batch, which means the same as our label. It comes after volcano, which has the same
// annotation.
var kubeBatch = &Source{name: "kube-batch", marks: Marks{Annotations: []string{v1alpha1.AnnotationKubeBatchGroup}}, of: ofKubeBatch}

func ofKubeBatch(pod *corev1.Pod) (Membership, bool) {
	name := pod.Annotations[v1alpha1.AnnotationKubeBatchGroup]
	if name == "" {
		return Membership{}, false
	}
	if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
		m := alone(pod)
		m.Malformed = &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf(
			"pod %s/%s: annotation %s is %q, which cannot be the value of a label", pod.Namespace, pod.Name,
			v1alpha1.AnnotationKubeBatchGroup, model.Brief(name, maxQuoted))}
		return m, true
	}
	return ofPodGroup(pod, name), true
}

// ofPodGroup is the membership in a PodGroup of ours, and in an implicit group while that does not exist and the pod says how
// many members it needs.
func ofPodGroup(pod *corev1.Pod, name string) Membership {
	m := Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name}, Role: pod.Labels[v1alpha1.LabelRole]}
	minimum, implicit := pod.Annotations[v1alpha1.AnnotationMinMember]
	if !implicit {
		return m
	}
	m.Otherwise = &Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name, Source: model.SourceImplicit, Owner: owner(pod)}, Role: m.Role}
	minMember, err := strconv.ParseInt(minimum, 10, 32)
	if err != nil || minMember < 1 {
		m.Otherwise.Malformed = noMinimum(v1alpha1.AnnotationMinMember, minimum)
		return m
	}
	m.Otherwise.MinMember = int32(minMember)
	return m
}

// noMinimum refuses a pod whose annotation cannot be read as the minimum of its group.
func noMinimum(annotation, value string) *model.Refusal {
	return &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf(
		"annotation %s is %q, it must be a whole number from 1 up", annotation, model.Brief(value, maxQuoted))}
}

// maxQuoted is how much of a text that users wrote a message quotes, in bytes.
const maxQuoted = 43

// owner returns the UID of the pod's controller, empty when it has none.
func owner(pod *corev1.Pod) types.UID {
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		return controller.UID
	}
	return ""
}

// readMinimum reads how many members the group needs. Without that the pod waits: it would start alone.
func (m *Membership) readMinimum(pod *corev1.Pod, annotation string) {
	value := pod.Annotations[annotation]
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 || len(value) > validation.LabelValueMaxLength {
		m.Malformed = noMinimum(annotation, value)
		return
	}
	m.MinMember = int32(n)
}
