package audit

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/test/invariants"
)

// gang is a PodGroup with its pods, or a pod without one as a gang of its own.
type gang struct {
	name    string // namespace/name
	minimum int
	roles   map[string]int
	// placed is how many pods have a node, whatever became of them there.
	placed int
	// waiting are the pods without a node that a scheduler may place.
	waiting []*corev1.Pod
	// status is that of the Scheduled condition, or of a single pod's PodScheduled; empty when there is none.
	status metav1.ConditionStatus
	reason string
}

// started reports whether the minimum of the gang is on nodes.
func (g *gang) started() bool { return g.placed >= g.minimum }

// complete reports whether the gang has the members it needs to start.
func (g *gang) complete() bool {
	byRole := map[string]int{}
	for _, pod := range g.waiting {
		byRole[pod.Labels[v1alpha1.LabelRole]]++
	}
	for role, minimum := range g.roles {
		if byRole[role] < minimum {
			return false
		}
	}
	return len(g.waiting) >= g.minimum
}

// gangs collects the pods of a scheduler by their group, sorted by name. Pods that name a group that does not exist
// are no gang yet.
func gangs(c *Cluster, schedulerName string) []*gang {
	byName := map[string]*gang{}
	for i := range c.Groups {
		group := &c.Groups[i]
		g := &gang{name: group.Namespace + "/" + group.Name, minimum: int(group.Spec.MinMember), roles: map[string]int{}}
		for _, role := range group.Spec.Roles {
			g.roles[role.Name] = int(role.MinMember)
		}
		if condition := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled); condition != nil {
			g.status, g.reason = condition.Status, condition.Reason
		}
		byName[g.name] = g
	}
	var all []*gang
	for i := range c.Pods {
		pod := &c.Pods[i]
		if pod.Spec.SchedulerName != schedulerName {
			continue
		}
		name := cmp.Or(pod.Labels[v1alpha1.LabelPodGroup], pod.Annotations[v1alpha1.AnnotationKubeBatchGroup])
		g := byName[pod.Namespace+"/"+name]
		if name == "" {
			g = single(pod)
			all = append(all, g)
		}
		if g == nil {
			continue
		}
		switch {
		case pod.Spec.NodeName != "":
			g.placed++
		case pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 && !invariants.Finished(pod):
			g.waiting = append(g.waiting, pod)
		}
	}
	for _, g := range byName {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *gang) int { return cmp.Compare(a.name, b.name) })
	return all
}

func single(pod *corev1.Pod) *gang {
	g := &gang{name: pod.Namespace + "/" + pod.Name, minimum: 1}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			g.status, g.reason = metav1.ConditionStatus(condition.Status), condition.Reason
		}
	}
	return g
}
