package scenario

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file counts implicit and foreign groups on the player's own account.

// jobOf is the job of a pod as the objects are now.
func (s *environment) jobOf(pod *corev1.Pod) model.JobKey {
	of := func(source model.Source, name string) model.JobKey {
		return model.JobKey{Namespace: pod.Namespace, Name: name, Source: source}
	}
	if name := pod.Labels[v1alpha1.LabelPodGroup]; name != "" {
		return s.ourJob(pod, name)
	}
	if group := pod.Spec.SchedulingGroup; group != nil && !s.world.isBasic(of(model.SourceNative, *group.PodGroupName)) {
		return of(model.SourceNative, *group.PodGroupName)
	}
	if name := pod.Labels["scheduling.x-k8s.io/pod-group"]; name != "" {
		return of(model.SourceCoscheduling, name)
	}
	if name := pod.Annotations[v1alpha1.AnnotationKubeBatchGroup]; name != "" {
		if _, implicit := pod.Annotations[v1alpha1.AnnotationMinMember]; implicit || s.world.groups[key(pod.Namespace, name)] != nil {
			return s.ourJob(pod, name)
		}
		return of(model.SourceVolcano, name)
	}
	if group := pod.Labels[sources.LWSGroupKey]; group != "" {
		job := of(model.SourceLeaderWorkerSet, pod.Labels[sources.LWSName]+"-"+pod.Labels[sources.LWSGroupIndex])
		job.Owner = types.UID(group + "/" + pod.Labels[sources.LWSRevision])
		return job
	}
	if name := pod.Labels[sources.KueueGroup]; name != "" && pod.Annotations[sources.KueueServing] != "true" {
		return of(model.SourceKueue, name)
	}
	if name := pod.Labels["jobset.sigs.k8s.io/jobset-name"]; name != "" {
		return of(model.SourceJobSet, name)
	}
	return of(model.SourcePod, pod.Name)
}

// ourJob is a PodGroup of ours, or an implicit group.
func (s *environment) ourJob(pod *corev1.Pod, name string) model.JobKey {
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

// roleOf is the role of a pod in the group that jobOf names. The marks of other projects count in their groups only.
func (s *environment) roleOf(pod *corev1.Pod) string {
	if !s.jobOf(pod).IsForeign() {
		return pod.Labels[v1alpha1.LabelRole]
	}
	return invariants.RoleOf(pod)
}

// groupOfJob is the PodGroup of a job, or what its pods or a foreign object say in the place of one; nil when none of them says
// anything.
func (s *environment) groupOfJob(job model.JobKey) *v1alpha1.PodGroup {
	switch {
	case job.Source == model.SourceJobSet:
		return s.jobSetGroup(job)
	case !job.IsForeign() && !job.IsImplicit():
		return s.world.groups[jobName(job)]
	}
	group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 1}}
	if job.IsForeign() {
		if group = s.world.foreignGroup(job); group == nil {
			return nil
		}
	}
	exclusive, begun, leads, workers, lives, placed := false, false, false, false, false, false
	for _, pod := range s.world.pods {
		if s.jobOf(pod) != job {
			continue
		}
		if asked, err := strconv.ParseInt(pod.Annotations[minimumOf[job.Source]], 10, 32); err == nil {
			group.Spec.MinMember = max(group.Spec.MinMember, int32(asked))
		}
		_, excludes := pod.Annotations[sources.LWSExclusiveTopology]
		exclusive = exclusive || excludes
		begun = begun || pod.Status.Phase == corev1.PodRunning
		switch isWorker := pod.Labels[sources.LWSWorkerIndex] != "0"; {
		case !isWorker:
			leads = leads || pod.Status.Phase != corev1.PodSucceeded && s.hasPlace(pod)
		case pod.Status.Phase != corev1.PodFailed:
			workers, lives, placed = true, true, placed || s.hasPlace(pod)
		default:
			workers = true
		}
	}
	policy, known := s.world.startupPolicy(job)
	late := exclusive || policy == "LeaderReady" || !known && leads && !workers
	if (job.Source == model.SourceLeaderWorkerSet && late || job.IsForeign() && exclusive) && !placed && (!lives || begun) {
		group.Spec.MinMember = 1 // workers are made when the leader has a node, or is ready
	}
	return group
}

// minimumOf is the annotation that says how many members a group without an object needs.
var minimumOf = map[model.Source]string{
	model.SourceImplicit: v1alpha1.AnnotationMinMember, model.SourceLeaderWorkerSet: sources.LWSSize, model.SourceKueue: sources.KueueTotal,
}

// jobName is how a story names a job: as it is written anywhere, without the default namespace.
func jobName(job model.JobKey) string { return strings.TrimPrefix(job.String(), "default/") }
