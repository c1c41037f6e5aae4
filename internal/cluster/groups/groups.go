// Package groups says which job a pod belongs to and what a PodGroup object means for its job; groups without an object, too.
// Another kind of group object gets its rules here. It only reads objects: it holds no state and knows nothing of nodes or
// rooms.
package groups

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Membership is what a pod says of the job it belongs to.
type Membership struct {
	// Job is that of the PodGroup which the pod names, always in its own namespace, or one of its own.
	Job model.JobKey
	// Implicit is the job that it belongs to while there is no such PodGroup; zero when it waits for it.
	Implicit model.JobKey
	// MinMember is how many members the implicit group needs as far as this pod says; zero when it says nothing that can be read,
	// which Malformed then tells.
	MinMember int32
	Malformed *model.Refusal
}

// Of returns what a pod says of the job it belongs to.
func Of(pod *corev1.Pod) Membership {
	name := cmp.Or(pod.Labels[v1alpha1.LabelPodGroup], pod.Annotations[v1alpha1.AnnotationKubeBatchGroup])
	if name == "" {
		return Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: pod.Name, IsPod: true}}
	}
	m := Membership{Job: model.JobKey{Namespace: pod.Namespace, Name: name}}
	written, implicit := pod.Annotations[v1alpha1.AnnotationMinMember]
	if !implicit {
		return m
	}
	m.Implicit = model.JobKey{Namespace: pod.Namespace, Name: name, WithoutPodGroup: true, Owner: owner(pod)}
	minMember, err := strconv.ParseInt(written, 10, 32)
	if err != nil || minMember < 1 {
		m.Malformed = &model.Refusal{Code: model.InvalidGroup, Detail: fmt.Sprintf(
			"annotation %s is %q, it must be a whole number from 1 up", v1alpha1.AnnotationMinMember, brief(written))}
		return m
	}
	m.MinMember = int32(minMember)
	return m
}

// owner returns the UID of the pod's controller, empty when it has none.
func owner(pod *corev1.Pod) types.UID {
	if controller := metav1.GetControllerOf(pod); controller != nil {
		return controller.UID
	}
	return ""
}

// brief cuts the text of a user to what a message can hold.
func brief(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// FillImplicit writes what its members say into a job without a PodGroup: identity and minimum, which is the highest that any
// of them asks for. A member that says nothing that can be read is refused on its own account.
func FillImplicit(job *model.Job) {
	job.UID, job.MinMember = job.Key.Owner, 1
	for _, task := range job.Tasks {
		job.MinMember = max(job.MinMember, task.MinMember)
	}
	if len(job.Tasks) > 0 {
		job.Created = job.Tasks[0].Created
	}
	job.Whole = slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Started && task.IsBound() })
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
	job.HasGroup = true
	job.StatusFinished = group.Status.Phase == v1alpha1.PodGroupSucceeded || group.Status.Phase == v1alpha1.PodGroupFailed
	if since := group.Status.WaitingSince; since != nil {
		job.WaitingSince = since.Time
	}
	job.ExpectedRunSeconds = group.Spec.ExpectedRunSeconds
	job.Whole = Whole(group)
	job.Roles = nil
	for _, role := range group.Spec.Roles {
		job.Roles = append(job.Roles, model.Role{Name: role.Name, MinMember: role.MinMember})
	}
	slices.SortFunc(job.Roles, func(a, b model.Role) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MinMember, b.MinMember))
	})
	job.Invalid = nil
	if detail := contradiction(group, job.Roles); detail != "" {
		job.Invalid = &model.Refusal{Code: model.InvalidGroup, Detail: detail}
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
