package sources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tutti-sched/tutti/pkg/model"
)

// LabelCoscheduling is the label of pods that names their PodGroup of scheduling.x-k8s.io.
const LabelCoscheduling = "scheduling.x-k8s.io/pod-group"

// coscheduling is the PodGroup of scheduler-plugins, which mpi-operator, training-operator, spark-operator and Trainer write.
// Its scheduleTimeoutSeconds is not read: it is how long members that have a place wait there for others, and none of ours does.
var coscheduling = &Source{
	name: "coscheduling", marks: Marks{Labels: []string{LabelCoscheduling}},
	of: func(pod *corev1.Pod) (Membership, bool) {
		name := pod.Labels[LabelCoscheduling]
		return Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name, Source: model.SourceCoscheduling}}, name != ""
	},
	watch: &Watch{
		Source:   model.SourceCoscheduling,
		Resource: schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"},
		Decode:   decodeCoscheduling,
	},
}

// decodeCoscheduling reads one. A minMember of 0 is one that is not stated, since its clients leave it out: every pod may start.
func decodeCoscheduling(object *unstructured.Unstructured) *Spec {
	f := fields{object: object.Object}
	minMember := f.integer("spec", "minMember")
	if minMember < 0 {
		f.contradict("spec.minMember is %d, it must be at least 1", minMember)
	}
	return &Spec{
		ObjectMeta: Identity(object), Source: model.SourceCoscheduling,
		MinMember: max(1, minMember), MinResources: f.resources("spec", "minResources"), Contradiction: f.contradiction,
	}
}
