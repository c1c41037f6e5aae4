package sources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestTheFieldOfKubernetes comes after our label and before all others, and what these say holds in its place.
func TestTheFieldOfKubernetes(t *testing.T) {
	long := strings.Repeat("g", 254)
	for name, c := range map[string]struct {
		group               *corev1.PodSchedulingGroup
		labels, annotations map[string]string
		off                 []string
		want                string
	}{
		"none":           {want: "pod ns/p"},
		"no name":        {group: &corev1.PodSchedulingGroup{}, want: "pod ns/p"},
		"an empty name":  {group: &corev1.PodSchedulingGroup{PodGroupName: new(string)}, want: "pod ns/p"},
		"a long name":    {group: &corev1.PodSchedulingGroup{PodGroupName: &long}, want: "pod ns/p"},
		"the field":      {group: inGroup("g"), want: "PodGroup.scheduling.k8s.io ns/g; pod ns/p"},
		"off":            {group: inGroup("g"), off: []string{"kubernetes"}, want: "pod ns/p"},
		"our label, too": {group: inGroup("g"), labels: map[string]string{v1alpha1.LabelPodGroup: "h"}, want: "PodGroup ns/h"},
		"the annotation, too": {group: inGroup("g"), annotations: map[string]string{v1alpha1.AnnotationKubeBatchGroup: "h"},
			want: "PodGroup.scheduling.k8s.io ns/g; PodGroup ns/h; PodGroup.scheduling.volcano.sh ns/h"},
		"the annotation, too, which says how many": {group: inGroup("g"), annotations: map[string]string{
			v1alpha1.AnnotationKubeBatchGroup: "h", v1alpha1.AnnotationMinMember: "2"},
			want: "PodGroup.scheduling.k8s.io ns/g; PodGroup ns/h; implicit group ns/h"},
		"the label of scheduler-plugins, too": {group: inGroup("g"), labels: map[string]string{LabelCoscheduling: "h"},
			want: "PodGroup.scheduling.k8s.io ns/g; PodGroup.scheduling.x-k8s.io ns/h"},
		"the marks of Kueue, too": {group: inGroup("g"), labels: map[string]string{KueueGroup: "h"}, annotations: map[string]string{KueueTotal: "2"},
			want: "PodGroup.scheduling.k8s.io ns/g; Kueue pod group ns/h"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: c.labels, Annotations: c.annotations}}
		pod.Spec.SchedulingGroup = c.group
		if got := describe(Without(c.off).Of(pod)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func inGroup(name string) *corev1.PodSchedulingGroup {
	return &corev1.PodSchedulingGroup{PodGroupName: &name}
}

// describe names the jobs of a membership, in their order.
func describe(m Membership) string {
	var all []string
	for one := range m.All() {
		all = append(all, one.Job.Describe())
	}
	return strings.Join(all, "; ")
}

func TestDecodeNative(t *testing.T) {
	type object = map[string]any
	spec := func(min int32, change func(*Spec)) *Spec {
		s := &Spec{Source: model.SourceNative, MinMember: min}
		change(s)
		return s
	}
	gang := func(minCount any) object { return object{"gang": object{"minCount": minCount}} }
	for name, c := range map[string]struct {
		object object
		want   *Spec
	}{
		"a gang":                {object{"spec": object{"schedulingPolicy": gang(int64(3))}}, spec(3, func(*Spec) {})},
		"basic":                 {object{"spec": object{"schedulingPolicy": object{"basic": object{}}}}, spec(1, func(s *Spec) { s.NoGang = true })},
		"a gang of none":        {object{"spec": object{"schedulingPolicy": gang(int64(0))}}, spec(1, func(s *Spec) { s.Contradiction = "spec.schedulingPolicy.gang.minCount is 0, it must be at least 1" })},
		"a gang of less":        {object{"spec": object{"schedulingPolicy": gang(int64(-1))}}, spec(1, func(s *Spec) { s.Contradiction = "spec.schedulingPolicy.gang.minCount is -1, it must be at least 1" })},
		"a gang that says none": {object{"spec": object{"schedulingPolicy": object{"gang": object{}}}}, spec(1, func(s *Spec) { s.Contradiction = "spec.schedulingPolicy.gang.minCount is 0, it must be at least 1" })},
		"a text": {object{"spec": object{"schedulingPolicy": gang("3")}}, spec(1, func(s *Spec) {
			s.Contradiction = "spec.schedulingPolicy.gang.minCount is a text, it must be a whole number"
		})},
		"no policy": {object{}, spec(1, func(s *Spec) { s.Contradiction = "spec.schedulingPolicy must have one of basic and gang" })},
		"both policies": {object{"spec": object{"schedulingPolicy": object{"basic": object{}, "gang": object{"minCount": int64(2)}}}},
			spec(1, func(s *Spec) { s.Contradiction = "spec.schedulingPolicy must have one of basic and gang" })},
		"basic, and what cannot be read": {object{"spec": object{"priorityClassName": true, "schedulingPolicy": object{"basic": object{}}}},
			spec(1, func(s *Spec) { s.Contradiction = "spec.priorityClassName is true or false, it must be a text" })},
		"class and policy": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "priorityClassName": "high", "priority": int64(7), "preemptionPolicy": "Never"}},
			spec(2, func(s *Spec) { s.PriorityClassName, s.NeverPreempts = "high", true })},
		"it preempts": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "preemptionPolicy": "PreemptLowerPriority", "disruptionMode": object{"single": object{}}}},
			spec(2, func(*Spec) {})},
		"what is not followed": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "schedulingConstraints": object{"nearness": true}, "resourceClaims": []any{},
			"parentCompositePodGroupName": "c", "disruptionMode": object{"all": object{}}}},
			spec(2, func(s *Spec) {
				s.Remark = "parentCompositePodGroupName is not followed; resourceClaims is not followed; schedulingConstraints.nearness is not followed"
				s.EndsTogether = true
			})},
		"basic, in one domain, evicted together": {object{"spec": object{"schedulingPolicy": object{"basic": object{}},
			"schedulingConstraints": sharing("rack"), "disruptionMode": object{"all": object{}}}},
			spec(1, func(s *Spec) {
				s.Topology = []model.TopologyConstraint{{Level: "label:rack"}}
				s.Remark = "disruptionMode is not followed: a basic group is no gang, and each pod may be evicted alone"
			})},
		"a label that nodes share": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "schedulingConstraints": sharing("example.com/rack")}},
			spec(2, func(s *Spec) { s.Topology = []model.TopologyConstraint{{Level: "example.com/rack"}} })},
		"a label without a prefix is not the level of that name": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "schedulingConstraints": sharing("rack")}},
			spec(2, func(s *Spec) { s.Topology = []model.TopologyConstraint{{Level: "label:rack"}} })},
		"basic, in one domain": {object{"spec": object{"schedulingPolicy": object{"basic": object{}}, "schedulingConstraints": sharing("rack")}},
			spec(1, func(s *Spec) { s.Topology = []model.TopologyConstraint{{Level: "label:rack"}} })},
		"no constraint": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "schedulingConstraints": sharing()}}, spec(2, func(*Spec) {})},
		"two labels": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "schedulingConstraints": sharing("a", "b")}},
			spec(2, func(s *Spec) {
				s.Contradiction = "spec.schedulingConstraints.topology has 2 entries, at most 1 is supported"
			})},
		"basic, and two labels": {object{"spec": object{"schedulingPolicy": object{"basic": object{}}, "schedulingConstraints": sharing("a", "b")}},
			spec(1, func(s *Spec) {
				s.Contradiction = "spec.schedulingConstraints.topology has 2 entries, at most 1 is supported"
			})},
		"an empty key": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "schedulingConstraints": sharing("")}},
			spec(2, func(s *Spec) {
				s.Contradiction = "spec.schedulingConstraints.topology[0].key is \"\", which cannot be the key of a label"
			})},
		"no key": {object{"spec": object{"schedulingPolicy": gang(int64(2)), "schedulingConstraints": object{"topology": []any{object{}}}}},
			spec(2, func(s *Spec) {
				s.Contradiction = "spec.schedulingConstraints.topology[0].key is \"\", which cannot be the key of a label"
			})},
		"a key and a mode": {object{"spec": object{"schedulingPolicy": gang(int64(2)),
			"schedulingConstraints": object{"topology": []any{object{"key": "a", "mode": "Preferred"}}}}},
			spec(2, func(s *Spec) {
				s.Topology, s.Contradiction = []model.TopologyConstraint{{Level: "label:a"}}, "spec.schedulingConstraints.topology[0].mode is not known"
			})},
		"it is being deleted": {object{"metadata": object{"name": "g", "deletionTimestamp": "2026-01-05T08:00:00Z"}, "spec": object{"schedulingPolicy": gang(int64(2))}},
			spec(2, func(s *Spec) { s.Name = "g" })},
		"a status": {object{"spec": object{"schedulingPolicy": gang(int64(2))}, "status": object{"conditions": []any{
			object{"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}, object{"type": "DisruptionTarget"}}}},
			spec(2, func(s *Spec) {
				s.Shown = Shown{HasStatus: true, HasConditions: true, Type: "PodGroupInitiallyScheduled", Status: "False", Reason: "Unschedulable", Message: "m"}
			})},
		"no condition yet": {object{"spec": object{"schedulingPolicy": gang(int64(2))}, "status": object{}},
			spec(2, func(s *Spec) { s.Shown.HasStatus = true })},
		"a status of another type": {object{"spec": object{"schedulingPolicy": gang(int64(2))}, "status": "good"},
			spec(2, func(s *Spec) { s.Shown.HasStatus = true })},
	} {
		if diff := cmp.Diff(c.want, decodeNative(&unstructured.Unstructured{Object: c.object})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// sharing are constraints with these keys of labels.
func sharing(keys ...string) map[string]any {
	list := []any{}
	for _, key := range keys {
		list = append(list, map[string]any{"key": key})
	}
	return map[string]any{"topology": list}
}

// TestOtherFieldsOfSpecs: two specs that differ in one field are not the same.
func TestOtherFieldsOfSpecs(t *testing.T) {
	first := Spec{MinMember: 1}
	for _, change := range []func(*Spec){
		func(s *Spec) { s.NoGang = true }, func(s *Spec) { s.NeverPreempts = true }, func(s *Spec) { s.EndsTogether = true },
		func(s *Spec) { s.Topology = []model.TopologyConstraint{{Level: "rack"}} },
	} {
		other := first
		if change(&other); first.Same(&other) || other.Same(&first) {
			t.Errorf("%+v", other)
		}
	}
}
