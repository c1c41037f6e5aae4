// Package groups says which job a pod belongs to and what a PodGroup object means for its job. Another kind of group object
// gets its rules here. It only reads objects: it holds no state and knows nothing of nodes or rooms.
package groups

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Of returns the key of the job that a pod belongs to: its group's, always in the pod's own namespace, or one of its own.
func Of(pod *corev1.Pod) model.JobKey {
	name := cmp.Or(pod.Labels[v1alpha1.LabelPodGroup], pod.Annotations[v1alpha1.AnnotationKubeBatchGroup])
	if name == "" {
		return model.JobKey{Namespace: pod.Namespace, Name: pod.Name, Single: true}
	}
	return model.JobKey{Namespace: pod.Namespace, Name: name}
}

// Role returns the role that a pod plays in its group; empty when it names none.
func Role(pod *corev1.Pod) string { return pod.Labels[v1alpha1.LabelRole] }

// Key returns the key of the job that a PodGroup stands for.
func Key(group *v1alpha1.PodGroup) model.JobKey {
	return model.JobKey{Namespace: group.Namespace, Name: group.Name}
}

// Fill writes what the PodGroup says into its job: identity, age, minima, and a refusal when it contradicts itself.
func Fill(job *model.Job, group *v1alpha1.PodGroup) {
	job.UID = group.UID
	job.Created = group.CreationTimestamp.Time
	job.MinMember = group.Spec.MinMember
	job.Group = group
	job.Roles = nil
	for _, role := range group.Spec.Roles {
		job.Roles = append(job.Roles, model.Role{Name: role.Name, MinMember: role.MinMember})
	}
	slices.SortFunc(job.Roles, func(a, b model.Role) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MinMember, b.MinMember))
	})
	job.Refused = nil
	if detail := contradiction(group, job.Roles); detail != "" {
		job.Refused = &model.Refusal{Code: model.InvalidGroup, Detail: detail}
	}
}

// contradiction repeats the rules of the CRD, since an object may be older than they are.
func contradiction(group *v1alpha1.PodGroup, roles []model.Role) string {
	if group.Spec.MinMember < 1 {
		return fmt.Sprintf("minMember is %d, it must be at least 1", group.Spec.MinMember)
	}
	var sum int64
	for i, role := range roles {
		if role.MinMember < 1 {
			return fmt.Sprintf("minMember of role %q is %d, it must be at least 1", role.Name, role.MinMember)
		}
		if i > 0 && roles[i-1].Name == role.Name {
			return fmt.Sprintf("role %q is listed twice", role.Name)
		}
		sum += int64(role.MinMember)
	}
	if sum > int64(group.Spec.MinMember) {
		return fmt.Sprintf("the roles need %d members together, which is more than minMember: %d", sum, group.Spec.MinMember)
	}
	return ""
}
