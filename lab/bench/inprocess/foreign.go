package inprocess

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file makes groups of others.

// writtenBy makes groups of a source of those of ours, and members of those of their members. They are read from JSON, as the API
// server sends it, and only what the scheduler keeps of them is left.
func (b *Batch) writtenBy(source model.Source) {
	watch := sources.WatchOf(source)
	if watch.Decode == nil {
		return
	}
	at := 0
	for _, group := range b.Groups {
		wanted := corev1.ResourceList{}
		for range group.Spec.MinMember {
			for name, amount := range b.Pods[at].Spec.Containers[0].Resources.Requests {
				sum := wanted[name]
				sum.Add(amount)
				wanted[name] = sum
			}
			at++
		}
		text, err := json.Marshal(foreignObject(source, group, wanted))
		object := &unstructured.Unstructured{}
		if err != nil || object.UnmarshalJSON(text) != nil {
			continue // its members do not start then, which is an error of the round
		}
		b.Foreign = append(b.Foreign, watch.Decode(object))
	}
	b.Groups = nil
	for _, pod := range b.Pods {
		mark(source, pod)
	}
}

// foreignObject is the object of such a group as its operator writes it. minResources are what all members request.
func foreignObject(source model.Source, group *v1alpha1.PodGroup, minResources corev1.ResourceList) map[string]any {
	operated := true
	meta := metav1.ObjectMeta{
		Namespace: group.Namespace, Name: group.Name, UID: group.UID, ResourceVersion: group.ResourceVersion,
		CreationTimestamp: group.CreationTimestamp, Generation: 1, Labels: map[string]string{"app": group.Name},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "operator", Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:minMember":{},"f:minResources":{}}}`),
		}},
	}
	members := group.Spec.MinMember
	object := map[string]any{"metadata": meta, "spec": map[string]any{"minMember": members, "minResources": minResources}}
	switch source {
	case model.SourcePyTorchJob:
		object["apiVersion"], object["kind"] = "kubeflow.org/v1", "PyTorchJob"
		template := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "pytorch", "image": "example.com/none"}}}}
		object["spec"] = map[string]any{"pytorchReplicaSpecs": map[string]any{
			"Master": map[string]any{"replicas": 1, "template": template}, "Worker": map[string]any{"replicas": members - 1, "template": template},
		}}
		return object
	case model.SourceVolcano:
		object["apiVersion"] = "scheduling.volcano.sh/v1beta1"
		object["status"] = map[string]any{"phase": sources.VolcanoInqueue}
	default:
		object["apiVersion"] = "scheduling.x-k8s.io/v1alpha1"
	}
	object["kind"] = "PodGroup"
	meta.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "kubeflow.org/v2beta1", Kind: "Job", Name: group.Name, UID: types.UID("owner-" + group.Name), Controller: &operated,
	}}
	object["metadata"] = meta
	return object
}

// inRoles gives PodGroups of ours and their members the roles of a PyTorchJob.
func (b *Batch) inRoles() {
	for _, group := range b.Groups {
		group.Spec.Roles = []v1alpha1.Role{{Name: "master", MinMember: 1}, {Name: "worker", MinMember: group.Spec.MinMember - 1}}
	}
	for _, pod := range b.Pods {
		pod.Labels[v1alpha1.LabelRole] = roleOf(pod)
	}
}

// roleOf is the role of a member as a PyTorchJob has it: the first is the master.
func roleOf(pod *corev1.Pod) string {
	if pod.Labels["batch.kubernetes.io/job-completion-index"] == "0" {
		return "master"
	}
	return "worker"
}

// mark makes a pod a member as its operator does.
func mark(source model.Source, pod *corev1.Pod) {
	name := pod.Labels[v1alpha1.LabelPodGroup]
	delete(pod.Labels, v1alpha1.LabelPodGroup)
	switch source {
	case model.SourcePyTorchJob:
		pod.Labels["training.kubeflow.org/job-name"], pod.Labels["training.kubeflow.org/operator-name"] = name, "pytorchjob-controller"
		pod.Labels["training.kubeflow.org/replica-type"] = roleOf(pod)
	case model.SourceVolcano:
		pod.Annotations = map[string]string{v1alpha1.AnnotationKubeBatchGroup: name}
	default:
		pod.Labels[sources.LabelCoscheduling] = name
	}
}
