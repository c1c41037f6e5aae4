package invariants

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Members counts those of a gang that count towards its minimum: they have a place, or have done their work.
type Members struct {
	// All are those that count, Live those of them that have not ended, Roles all of them by role.
	All, Live int
	Roles     map[string]int
}

// Add counts a pod in a role; placed says that it has a node, or is about to.
func (m *Members) Add(pod *corev1.Pod, role string, placed bool) {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
	case pod.Status.Phase == corev1.PodFailed, pod.DeletionTimestamp != nil, !placed:
		return
	default:
		m.Live++
	}
	if m.Roles == nil {
		m.Roles = map[string]int{}
	}
	m.All++
	m.Roles[role]++
}

// RoleOf is the role of a pod in a group of another project: by our label, or as Volcano's jobs and JobSets write it. In a
// group of ours only our label counts.
func RoleOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Labels[v1alpha1.LabelRole], pod.Annotations["volcano.sh/task-spec"], pod.Labels["jobset.sigs.k8s.io/replicatedjob-name"])
}

// Unmet says which minimum of a group the members do not meet, empty when they meet all.
func (m *Members) Unmet(group *v1alpha1.PodGroup) string {
	if m.All < int(group.Spec.MinMember) {
		return fmt.Sprintf("needs %d, and %d have a place", group.Spec.MinMember, m.All)
	}
	for _, role := range group.Spec.Roles {
		if m.Roles[role.Name] < int(role.MinMember) {
			return fmt.Sprintf("needs %d of role %s, and %d have a place", role.MinMember, role.Name, m.Roles[role.Name])
		}
	}
	return ""
}
