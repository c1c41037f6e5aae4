package groups

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                model.JobKey
	}{
		"alone":       {nil, nil, model.JobKey{Namespace: "ns", Name: "p", Single: true}},
		"label":       {map[string]string{v1alpha1.LabelPodGroup: "g"}, nil, model.JobKey{Namespace: "ns", Name: "g"}},
		"empty label": {map[string]string{v1alpha1.LabelPodGroup: ""}, nil, model.JobKey{Namespace: "ns", Name: "p", Single: true}},
		"annotation":  {nil, map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g"}, model.JobKey{Namespace: "ns", Name: "g"}},
		"both": {map[string]string{v1alpha1.LabelPodGroup: "g"}, map[string]string{v1alpha1.AnnotationKubeBatchGroup: "x"},
			model.JobKey{Namespace: "ns", Name: "g"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}}
			if got := Of(pod); got != c.want {
				t.Errorf("job %+v, want %+v", got, c.want)
			}
		})
	}
}
