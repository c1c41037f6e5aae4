package place

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file reads the members' inter-pod affinity. Filters decide whether a node fits, since they know all pods; here it only
// matters which siblings, none of which has a node yet, affect each other, to choose where to search.

// affectsSiblings reports whether other pods, siblings included, can make nodes feasible or infeasible for the task.
func affectsSiblings(task *model.Task) bool {
	affinity := task.Pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil) ||
		len(task.Pod.Spec.TopologySpreadConstraints) > 0
}

func hasRequiredAffinity(task *model.Task) bool { return len(RequiredTerms(task)) > 0 }

// RequiredTerms returns the task's required affinity.
func RequiredTerms(task *model.Task) []corev1.PodAffinityTerm {
	affinity := task.Pod.Spec.Affinity
	if affinity == nil || affinity.PodAffinity == nil {
		return nil
	}
	return affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// hasPreferredAffinity reports whether the task prefers to be near any pods.
func hasPreferredAffinity(task *model.Task) bool {
	affinity := task.Pod.Spec.Affinity
	return affinity != nil && affinity.PodAffinity != nil &&
		len(affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0
}

// repellingTerms are the pod's required anti-affinity terms.
func repellingTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return nil
	}
	return affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// terms returns all inter-pod affinity and anti-affinity terms of the pod.
func terms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return nil
	}
	all := slices.Clone(repellingTerms(pod))
	var weighted []corev1.WeightedPodAffinityTerm
	if near := affinity.PodAffinity; near != nil {
		all = append(all, near.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = near.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if far := affinity.PodAntiAffinity; far != nil {
		weighted = slices.Concat(weighted, far.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range weighted {
		all = append(all, weighted[i].PodAffinityTerm)
	}
	return all
}

// Requires reports whether another pod matches the task's required affinity: all of its terms.
func Requires(task, sibling *model.Task) bool {
	terms := RequiredTerms(task)
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(term corev1.PodAffinityTerm) bool {
		return !matches(&term, task.Pod, sibling.Pod, possible)
	})
}

// mutualAntiAffinityKeys returns the labels of which no two of the tasks, nor two equal to one of them, can share a value.
func mutualAntiAffinityKeys(tasks []*model.Task) []string {
	keys := antiAffinityKeys(tasks[0], tasks)
	for _, task := range tasks[1:] {
		more := antiAffinityKeys(task, tasks)
		keys = slices.DeleteFunc(keys, func(key string) bool { return !slices.Contains(more, key) })
	}
	return keys
}

// antiAffinityKeys returns the labels by which the task has required anti-affinity to all of the others.
func antiAffinityKeys(task *model.Task, others []*model.Task) (keys []string) {
	terms := repellingTerms(task.Pod)
	for i := range terms {
		if !slices.ContainsFunc(others, func(other *model.Task) bool { return !matches(&terms[i], task.Pod, other.Pod, certain) }) {
			keys = append(keys, terms[i].TopologyKey)
		}
	}
	return keys
}

// matchResult is the result where a term chooses namespaces by labels that are not known here.
type matchResult bool

const (
	certain  matchResult = false
	possible matchResult = true
)

// matches reports whether a term of one pod selects the other, its sibling.
func matches(term *corev1.PodAffinityTerm, of, sibling *corev1.Pod, unknown matchResult) bool {
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return err == nil && coversNamespace(term, of.Namespace, unknown) && selector.Matches(labels.Set(sibling.Labels))
}

// coversNamespace reports whether a term of a pod selects the pod's own namespace. Of a namespace's labels only its name,
// which the API server writes, is known here.
func coversNamespace(term *corev1.PodAffinityTerm, namespace string, unknown matchResult) bool {
	if term.NamespaceSelector == nil {
		return len(term.Namespaces) == 0 || slices.Contains(term.Namespaces, namespace)
	}
	if slices.Contains(term.Namespaces, namespace) {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
	if err != nil {
		return false
	}
	requirements, _ := selector.Requirements()
	known := labels.Set{corev1.LabelMetadataName: namespace}
	for i := range requirements {
		matches := bool(unknown)
		if requirements[i].Key() == corev1.LabelMetadataName {
			matches = requirements[i].Matches(known)
		}
		if !matches {
			return false
		}
	}
	return true
}

// mayEnable reports whether a placed sibling may make nodes feasible for the task; in every other way it can only make them
// infeasible.
func mayEnable(task *model.Task) bool {
	return hasRequiredAffinity(task) || slices.ContainsFunc(task.Pod.Spec.TopologySpreadConstraints,
		func(constraint corev1.TopologySpreadConstraint) bool {
			return constraint.WhenUnsatisfiable == corev1.DoNotSchedule
		})
}

// constrainsSiblings reports whether the task affects where siblings like it may go, beyond the capacity that it takes: by
// its terms, or by what it shares with them.
func constrainsSiblings(task *model.Task) bool {
	return mayEnable(task) || len(repellingTerms(task.Pod)) > 0 || slices.ContainsFunc(task.Pod.Spec.Volumes,
		func(volume corev1.Volume) bool { return volume.PersistentVolumeClaim != nil }) ||
		task.SearchesDevices() && slices.ContainsFunc(task.Pod.Spec.ResourceClaims,
			func(claim corev1.PodResourceClaim) bool { return claim.ResourceClaimName != nil })
}

// usesVolumesOrDevices reports whether filters check volumes or devices for the task.
func usesVolumesOrDevices(task *model.Task) bool {
	return task.SearchesDevices() || len(task.Pod.Spec.Volumes) > 0
}

// hasPrivateClaims reports whether volumes or devices are claimed for the task alone.
func hasPrivateClaims(task *model.Task) bool {
	return slices.ContainsFunc(task.Pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Ephemeral != nil }) ||
		task.SearchesDevices() && slices.ContainsFunc(task.Pod.Spec.ResourceClaims,
			func(claim corev1.PodResourceClaim) bool { return claim.ResourceClaimName == nil })
}

// sameLabels reports whether the tasks have the same labels.
func sameLabels(tasks []*model.Task) bool {
	return !slices.ContainsFunc(tasks, func(task *model.Task) bool { return !maps.Equal(task.Pod.Labels, tasks[0].Pod.Labels) })
}

// hasOwnStorage reports whether the task has volumes or claims that may bind it to some nodes, unlike others of its kind.
func hasOwnStorage(task *model.Task) bool {
	return task.SearchesDevices() || slices.ContainsFunc(task.Pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil
	})
}
