package sources

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// VolcanoTaskSpec is the annotation, or label, of pods that names their role in a PodGroup of scheduling.volcano.sh.
const VolcanoTaskSpec = "volcano.sh/task-spec"

// volcano is the PodGroup of Volcano, which its own jobs, KubeRay, LeaderWorkerSet, training-operator and Spark write. Its mark
// is the annotation of kube-batch: a PodGroup of ours with the name comes first. Names may be longer than those of ours.
var volcano = &Source{
	name: "volcano", of: ofVolcano,
	marks: Marks{Index: "volcano.sh/task-index", Labels: []string{VolcanoTaskSpec}, Annotations: []string{v1alpha1.AnnotationKubeBatchGroup, VolcanoTaskSpec}},
	watch: &Watch{
		Source:   model.SourceVolcano,
		Resource: schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
		Decode:   decodeVolcano,
		AfterOwn: true,
		Status:   volcanoStatus, HasTransitionIDs: true,
	},
}

// ofVolcano leaves to kubeBatch what cannot be the name of an object, and pods that say how many members their implicit group
// needs.
func ofVolcano(pod *corev1.Pod) (Membership, bool) {
	name := pod.Annotations[v1alpha1.AnnotationKubeBatchGroup]
	if name == "" {
		return Membership{}, false
	}
	if _, implicit := pod.Annotations[v1alpha1.AnnotationMinMember]; implicit || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return Membership{}, false
	}
	m := Membership{
		Job:  model.JobKey{Namespace: pod.Namespace, Name: name, Source: model.SourceVolcano},
		Role: cmp.Or(pod.Annotations[VolcanoTaskSpec], pod.Labels[VolcanoTaskSpec]),
	}
	if len(name) > validation.LabelValueMaxLength {
		return m, true
	}
	ours := ofPodGroup(pod, name)
	ours.Otherwise = &m
	return ours, true
}

// decodeVolcano reads one as Volcano's scheduler does (pkg/scheduler/api/job_info.go): a minMember of 0, which KubeRay, Spark and
// jobs without the webhook write, is a gang of one; minTaskMember counts where minMember is at least its sum, and is
// ignored otherwise. The queue default is what the CRD adds where none is named.
func decodeVolcano(object *unstructured.Unstructured) *Spec {
	f := fields{object: object.Object}
	spec := &Spec{
		ObjectMeta: Identity(object), Source: model.SourceVolcano, MinMember: f.minimum("spec", "minMember"),
		MinResources: f.resources("spec", "minResources"), PriorityClassName: f.text("spec", "priorityClassName"),
	}
	if queue := f.text("spec", "queue"); queue != v1alpha1.DefaultQueue {
		spec.Queue = queue
	}
	var remarks []string
	roles, sum := f.minima("spec", "minTaskMember")
	if spec.Roles = roles; sum > int64(spec.MinMember) {
		spec.Roles = nil
		remarks = append(remarks, fmt.Sprintf("minTaskMember is not followed: its sum of %d is more than minMember: %d", sum, spec.MinMember))
	}
	if mode := f.text("spec", "networkTopology", "mode"); mode == "hard" || mode == "" && f.value("spec", "networkTopology") != nil {
		remarks = append(remarks, "networkTopology is not followed; the annotation "+v1alpha1.AnnotationTopology+" of its pods is")
	}
	if f.value("spec", "subGroupPolicy") != nil {
		remarks = append(remarks, "subGroupPolicy is not followed")
	}
	spec.Remark, spec.Contradiction = strings.Join(remarks, "; "), f.contradiction
	spec.Shown = shownByVolcano(object)
	return spec
}

// shownByVolcano reads the status; what cannot be read of it counts as absent, since it says nothing about the group.
func shownByVolcano(object *unstructured.Unstructured) Shown {
	f := fields{object: object.Object}
	shown := f.condition(VolcanoScheduled, VolcanoUnschedulable)
	shown.Phase, shown.HasStatus = f.text("status", "phase"), f.value("status") != nil
	shown.Running, shown.Succeeded, shown.Failed = f.integer("status", "running"), f.integer("status", "succeeded"), f.integer("status", "failed")
	return shown
}

// The types of the conditions that Volcano's scheduler writes, and of its phases those that a scheduler sets.
const (
	VolcanoScheduled     = "Scheduled"
	VolcanoUnschedulable = "Unschedulable"

	VolcanoPending   = "Pending"
	VolcanoInqueue   = "Inqueue"
	VolcanoRunning   = "Running"
	VolcanoCompleted = "Completed"
)

// The reasons of these conditions, as Volcano's own scheduler writes them.
const (
	reasonNotEnoughResources = "NotEnoughResources"
	reasonNotEnoughTasks     = "NotEnoughTasks"
)

// volcanoStatus is that of a group of Volcano. The phase goes on from the one that is shown. What the status does not say clearly
// stays: Unknown makes operators restart jobs, and is never written.
func volcanoStatus(spec *Spec, job *model.Job, refusal *model.Refusal) Shown {
	wanted := spec.Shown
	ended, bound, begun := false, false, false
	if wanted.Running = 0; job != nil {
		count := func(status model.Status) int32 { return int32(job.Count(status.Is)) }
		wanted.Running, wanted.Succeeded, wanted.Failed = count(model.Running), count(model.Succeeded), count(model.Failed)
		ended, bound = job.Finished(), job.FirstUnmetMinimum((*model.Task).IsBound) == nil
		first, of := gang.First(job.Minima(), job.Tasks) // what is made later may wait
		begun = first.FirstUnmet(of, (*model.Task).IsBound) == nil
	}
	if spec.Contradiction != "" {
		why := spec.Refusal()
		wanted.say(VolcanoUnschedulable, corev1.ConditionTrue, string(why.Code), why.String())
		return wanted
	}
	switch {
	case ended && job.FirstUnmetMinimum(model.Succeeded.Is) == nil:
		wanted.Phase = VolcanoCompleted
	case begun:
		wanted.Phase = VolcanoRunning
	case wanted.Phase == "" || wanted.Phase == VolcanoPending:
		wanted.Phase = VolcanoInqueue
	}
	switch {
	case job == nil || ended:
	case bound:
		wanted.say(VolcanoScheduled, corev1.ConditionTrue, v1alpha1.ConditionScheduled, minimumIsBound, job.Warning)
	case refusal != nil && !job.Whole:
		reason := reasonNotEnoughResources
		switch refusal.Code {
		case model.NotEnoughMembers:
			reason = reasonNotEnoughTasks
		case model.InvalidGroup:
			reason = string(refusal.Code)
		}
		wanted.say(VolcanoUnschedulable, corev1.ConditionTrue, reason, refusal.String(), job.Warning)
	}
	return wanted
}
