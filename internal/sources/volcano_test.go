package sources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestTheAnnotationMeansOneOfTwoGroups: a PodGroup of ours with the name comes first.
func TestTheAnnotationMeansOneOfTwoGroups(t *testing.T) {
	long := strings.Repeat("g", 64)
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		off                 []string
		want                string
	}{
		"the annotation":      {annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g"}, want: "PodGroup ns/g; PodGroup.scheduling.volcano.sh ns/g"},
		"off":                 {annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g"}, off: []string{"volcano"}, want: "PodGroup ns/g"},
		"a long name":         {annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: long}, want: "PodGroup.scheduling.volcano.sh ns/" + long},
		"a long name, off":    {annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: long}, off: []string{"volcano"}, want: "pod ns/p"},
		"no name":             {annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "a/b"}, want: "pod ns/p"},
		"a name of ours only": {annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "A_b"}, want: "PodGroup ns/A_b"},
		"it says how many": {annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g", v1alpha1.AnnotationMinMember: "2"},
			want: "PodGroup ns/g; implicit group ns/g"},
		"our label, too": {labels: map[string]string{v1alpha1.LabelPodGroup: "h"}, annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g"},
			want: "PodGroup ns/h"},
		"empty": {annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: ""}, want: "pod ns/p"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}}
		var got []string
		m := Without(c.off).Of(pod)
		for one := range m.All() {
			got = append(got, one.Job.Describe())
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestRolesOfVolcano are those of the annotation, else of the label; in a PodGroup of ours it is our label.
func TestRolesOfVolcano(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "p", Labels: map[string]string{VolcanoTaskSpec: "b", v1alpha1.LabelRole: "c"},
		Annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "g", VolcanoTaskSpec: "a"},
	}}
	for _, want := range []string{"c a", "c b"} {
		if m := Of(pod); m.Role+" "+m.Otherwise.Role != want {
			t.Errorf("roles %s and %s, want %s", m.Role, m.Otherwise.Role, want)
		}
		delete(pod.Annotations, VolcanoTaskSpec)
	}
}

func TestDecodeVolcano(t *testing.T) {
	type object = map[string]any
	spec := func(min int32, change func(*Spec)) *Spec {
		s := &Spec{Source: model.SourceVolcano, MinMember: min}
		if change != nil {
			change(s)
		}
		return s
	}
	for name, c := range map[string]struct {
		object object
		want   *Spec
	}{
		"nothing":     {object{}, spec(1, nil)},
		"a minimum":   {object{"spec": object{"minMember": int64(3)}}, spec(3, nil)},
		"zero":        {object{"spec": object{"minMember": int64(0)}}, spec(1, nil)},
		"negative":    {object{"spec": object{"minMember": int64(-1)}}, spec(1, func(s *Spec) { s.Contradiction = "spec.minMember is -1, it must be at least 0" })},
		"the default": {object{"spec": object{"queue": "default"}}, spec(1, nil)},
		"queue and class": {object{"spec": object{"queue": "q", "priorityClassName": "c"}},
			spec(1, func(s *Spec) { s.Queue, s.PriorityClassName = "q", "c" })},
		"roles": {object{"spec": object{"minMember": int64(3), "minTaskMember": object{"w": int64(2), "h": int64(1), "none": int64(0)}}},
			spec(3, func(s *Spec) { s.Roles = []model.Role{{Name: "h", MinMember: 1}, {Name: "w", MinMember: 2}} })},
		"roles beyond the minimum": {object{"spec": object{"minMember": int64(2), "minTaskMember": object{"w": int64(2), "h": int64(1)}}},
			spec(2, func(s *Spec) { s.Remark = "minTaskMember is not followed: its sum of 3 is more than minMember: 2" })},
		"a role of less than none": {object{"spec": object{"minMember": int64(2), "minTaskMember": object{"w": int64(-2)}}},
			spec(2, func(s *Spec) { s.Contradiction = "spec.minTaskMember.w is -2, it must be at least 0" })},
		"roles of another type": {object{"spec": object{"minMember": int64(2), "minTaskMember": []any{}}},
			spec(2, func(s *Spec) { s.Contradiction = "spec.minTaskMember is a list, it must be a list of minima by role" })},
		"hard topology": {object{"spec": object{"networkTopology": object{"mode": "hard"}}},
			spec(1, func(s *Spec) {
				s.Remark = "networkTopology is not followed; the annotation scheduling.tutti.dev/topology of its pods is"
			})},
		"hard by default": {object{"spec": object{"networkTopology": object{"highestTierAllowed": int64(1)}}},
			spec(1, func(s *Spec) {
				s.Remark = "networkTopology is not followed; the annotation scheduling.tutti.dev/topology of its pods is"
			})},
		"soft topology": {object{"spec": object{"networkTopology": object{"mode": "soft"}}}, spec(1, nil)},
		"sub-groups":    {object{"spec": object{"subGroupPolicy": []any{}}}, spec(1, func(s *Spec) { s.Remark = "subGroupPolicy is not followed" })},
		"a status": {object{"status": object{"phase": "Inqueue", "running": int64(2), "conditions": []any{
			object{"type": "Scheduled", "status": "True"}, object{"type": "Unschedulable", "status": "True", "reason": "NotEnoughTasks", "message": "m"}, object{"type": "x"}}}},
			spec(1, func(s *Spec) {
				s.Shown = Shown{Phase: "Inqueue", Running: 2, Type: "Unschedulable", Status: "True", Reason: "NotEnoughTasks", Message: "m", At: 1, HasStatus: true, HasConditions: true}
			})},
		"a status of another type": {object{"status": object{"phase": int64(1), "running": "two", "conditions": object{}}}, spec(1, func(s *Spec) { s.Shown.HasStatus = true })},
		"an empty status":          {object{"status": object{}}, spec(1, func(s *Spec) { s.Shown.HasStatus = true })},
		"an empty list of conditions": {object{"status": object{"conditions": []any{}}},
			spec(1, func(s *Spec) { s.Shown.HasStatus, s.Shown.HasConditions = true, true })},
	} {
		if diff := cmp.Diff(c.want, decodeVolcano(&unstructured.Unstructured{Object: c.object})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	many := object{}
	for i := range maxRoles + 1 {
		many[fmt.Sprint("r", i)] = int64(1)
	}
	if s := decodeVolcano(&unstructured.Unstructured{Object: object{"spec": object{"minTaskMember": many}}}); s.Contradiction == "" || s.Roles != nil {
		t.Errorf("%d roles: %+v", len(many), s)
	}
}
