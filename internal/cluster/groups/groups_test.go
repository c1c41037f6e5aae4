package groups

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                model.JobKey
	}{
		"alone":       {nil, nil, model.JobKey{Namespace: "ns", Name: "p", IsPod: true}},
		"label":       {map[string]string{v1alpha1.LabelPodGroup: "g"}, nil, model.JobKey{Namespace: "ns", Name: "g"}},
		"empty label": {map[string]string{v1alpha1.LabelPodGroup: ""}, nil, model.JobKey{Namespace: "ns", Name: "p", IsPod: true}},
		"annotation":  {nil, map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g"}, model.JobKey{Namespace: "ns", Name: "g"}},
		"both": {map[string]string{v1alpha1.LabelPodGroup: "g"}, map[string]string{v1alpha1.AnnotationKubeBatchGroup: "x"},
			model.JobKey{Namespace: "ns", Name: "g"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}}
			if got := Of(pod); got != (Membership{Job: c.want}) {
				t.Errorf("job %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestOfImplicitGroups(t *testing.T) {
	group := model.JobKey{Namespace: "ns", Name: "g"}
	implicit := func(owner types.UID) model.JobKey {
		return model.JobKey{Namespace: "ns", Name: "g", WithoutPodGroup: true, Owner: owner}
	}
	for name, c := range map[string]struct {
		written string
		owners  []metav1.OwnerReference
		want    Membership
		problem string
	}{
		"of a controller": {"3", []metav1.OwnerReference{{UID: "other"}, {UID: "u", Controller: new(true)}}, Membership{Job: group, Implicit: implicit("u"), MinMember: 3}, ""},
		"of unowned":      {"1", nil, Membership{Job: group, Implicit: implicit(""), MinMember: 1}, ""},
		"not controlled":  {"1", []metav1.OwnerReference{{UID: "other"}}, Membership{Job: group, Implicit: implicit(""), MinMember: 1}, ""},
		"none":            {"0", nil, Membership{Job: group, Implicit: implicit("")}, `annotation scheduling.tutti.dev/min-member is "0", it must be a whole number from 1 up`},
		"words":           {"all", nil, Membership{Job: group, Implicit: implicit("")}, `annotation scheduling.tutti.dev/min-member is "all", it must be a whole number from 1 up`},
		"too many":        {"2147483648", nil, Membership{Job: group, Implicit: implicit("")}, `annotation scheduling.tutti.dev/min-member is "2147483648", it must be a whole number from 1 up`},
		"empty":           {"", nil, Membership{Job: group, Implicit: implicit("")}, `annotation scheduling.tutti.dev/min-member is "", it must be a whole number from 1 up`},
		"a book":          {strings.Repeat("é", 1000), nil, Membership{Job: group, Implicit: implicit("")}, `annotation scheduling.tutti.dev/min-member is "` + strings.Repeat("é", 20) + `…", it must be a whole number from 1 up`},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "p", OwnerReferences: c.owners, Labels: map[string]string{v1alpha1.LabelPodGroup: "g"},
				Annotations: map[string]string{v1alpha1.AnnotationMinMember: c.written},
			}})
			if got.Malformed.String() != c.problem {
				t.Errorf("problem %q, want %q", got.Malformed, c.problem)
			}
			got.Malformed = nil
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", Annotations: map[string]string{v1alpha1.AnnotationMinMember: "2"},
	}}
	if got := Of(alone); got != (Membership{Job: model.JobKey{Namespace: "ns", Name: "p", IsPod: true}}) {
		t.Errorf("the annotation alone makes %+v", got)
	}
}
