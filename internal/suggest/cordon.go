package suggest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// maxSingleTries is how many cordoned nodes are tried each on its own.
const maxSingleTries = 12

// uncordon returns the nodes to uncordon: one that will do alone, the first by name, else as many of which none can be left
// out.
//
// That nodes are open is tried with pods that tolerate cordons and may not be on the other cordoned nodes; pods that tolerate
// them already may be on all of them, and stay as they are. Where pods are to be spread, nodes that they may not be on would
// count differently, so nothing is said then.
func (q *search) uncordon() *Change {
	waiting := q.job.Pending()
	if slices.ContainsFunc(waiting, func(task *model.Task) bool { return hasSpreadConstraints(task.Pod) }) {
		return nil
	}
	var shut, cordoned []string
	for _, node := range q.session.Snapshot.Nodes {
		if node.Object == nil || !isCordoned(node.Object) {
			continue
		}
		shut = append(shut, node.Name)
		if node.Object.Spec.Unschedulable {
			cordoned = append(cordoned, node.Name)
		}
	}
	will := func(open []string) bool {
		return q.left > 0 && q.startsWithout(&PodConstraint{words: uncordoned(open).words, drop: ignoreCordon(open, shut)}, waiting)
	}
	if len(cordoned) == 0 || !will(cordoned) {
		return nil
	}
	slices.Sort(cordoned)
	for _, name := range cordoned[:min(len(cordoned), maxSingleTries)] {
		if will([]string{name}) {
			return uncordoned([]string{name})
		}
	}
	open := cordoned
	for i := len(open) - 1; i >= 0 && len(open) > 1; i-- {
		if less := slices.Delete(slices.Clone(open), i, i+1); will(less) {
			open = less
		}
	}
	return uncordoned(open)
}

func hasSpreadConstraints(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}

// isCordon reports whether a taint is the one that Kubernetes puts on cordoned nodes.
func isCordon(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnschedulable }

// isCordoned reports whether the node is cordoned, or was until a moment ago.
func isCordoned(node *corev1.Node) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, isCordon)
}

// ignoreCordon makes a pod tolerate cordons, and lets it be on no other node of those that are shut than the open ones.
func ignoreCordon(open, shut []string) func(*corev1.PodSpec) {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return func(spec *corev1.PodSpec) {
		if slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &cordon) }) {
			return
		}
		spec.Tolerations = append(slices.Clone(spec.Tolerations), corev1.Toleration{
			Key: cordon.Key, Operator: corev1.TolerationOpExists, Effect: cordon.Effect,
		})
		var others []corev1.NodeSelectorRequirement
		for _, name := range shut {
			if !slices.Contains(open, name) {
				others = append(others, corev1.NodeSelectorRequirement{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpNotIn, Values: []string{name},
				})
			}
		}
		if len(others) > 0 {
			spec.Affinity = withNodeFields(spec.Affinity, others)
		}
	}
}

// withNodeFields returns the affinity with requirements on the node's fields added; affinity may be nil.
func withNodeFields(affinity *corev1.Affinity, more []corev1.NodeSelectorRequirement) *corev1.Affinity {
	affinity = affinity.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	if affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: more}},
		}
		return affinity
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 { // an empty term matches no node
			terms[i].MatchFields = append(terms[i].MatchFields, more...)
		}
	}
	return affinity
}

// uncordoned says "uncordon node n7".
func uncordoned(names []string) *Change {
	c := &Change{Kind: Uncordon, Uncordoned: names}
	if len(names) == 1 {
		c.words = "uncordon node " + names[0]
		return c
	}
	few := slices.Clone(names[:min(len(names), fewNodes)])
	if more := len(names) - fewNodes; more > 0 {
		few = append(few, fmt.Sprintf("%d more", more))
	}
	c.words = "uncordon the nodes " + listed(few)
	return c
}
