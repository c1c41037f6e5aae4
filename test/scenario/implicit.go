package scenario

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file counts implicit and foreign groups on the player's own account.

// jobOf is the job of a pod as the objects are now.
func (s *environment) jobOf(pod *corev1.Pod) model.JobKey {
	name := groupOf(pod)
	if name == "" {
		if foreign := pod.Labels["scheduling.x-k8s.io/pod-group"]; foreign != "" {
			return model.JobKey{Namespace: pod.Namespace, Name: foreign, Source: model.SourceCoscheduling}
		}
		return model.JobKey{Namespace: pod.Namespace, Name: pod.Name, Source: model.SourcePod}
	}
	job := model.JobKey{Namespace: pod.Namespace, Name: name}
	if _, implicit := pod.Annotations[v1alpha1.AnnotationMinMember]; !implicit || s.world.groups[jobName(job)] != nil {
		return job
	}
	job.Source = model.SourceImplicit
	if controller := metav1.GetControllerOf(pod); controller != nil {
		job.Owner = controller.UID
	}
	return job
}

// groupOfJob is the PodGroup of a job, or what its pods say in the place of one; nil when none of them says anything.
func (s *environment) groupOfJob(job model.JobKey) *v1alpha1.PodGroup {
	if object := s.world.foreign[job]; object != nil && s.world.readings[job.Source] == cluster.IsRead {
		minimum, _, _ := unstructured.NestedInt64(object.Object, "spec", "minMember")
		return &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: int32(max(1, minimum))}}
	}
	if !job.IsImplicit() {
		return s.world.groups[jobName(job)]
	}
	group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 1}}
	for _, pod := range s.world.pods {
		if s.jobOf(pod) == job {
			if asked, err := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationMinMember], 10, 32); err == nil {
				group.Spec.MinMember = max(group.Spec.MinMember, int32(asked))
			}
		}
	}
	return group
}

// jobName is how a story names a job: an implicit group with its controller, a foreign group with its kind.
func jobName(job model.JobKey) string {
	if job.IsForeign() {
		return key(job.Namespace, job.Name) + "/" + job.Source.Kind()
	}
	if job.Owner != "" {
		return key(job.Namespace, job.Name) + "/" + string(job.Owner)
	}
	return key(job.Namespace, job.Name)
}
