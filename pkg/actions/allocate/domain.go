package allocate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/pkg/model"
)

// domain is the nodes that share one value of a topology label.
type domain struct{ key, value string }

func (d domain) holds(node *model.Node) bool { return node.Object.Labels[d.key] == d.value }

// domains returns the domains of which the members must choose one, largest idle room first as far as their number of
// nodes tells; none when the members need not share one.
func (t *trial) domains() []domain {
	i := slices.IndexFunc(t.members, func(task *model.Task) bool { return sharedKey(task.Pod) != "" })
	if i < 0 {
		return nil
	}
	task := t.members[i]
	key := sharedKey(task.Pod)
	size := map[string]int{}
	var domains []domain
	for _, node := range t.session.Candidates(task) {
		value, ok := node.Object.Labels[key]
		if !ok {
			continue
		}
		if size[value] == 0 {
			domains = append(domains, domain{key: key, value: value})
		}
		size[value]++
	}
	slices.SortStableFunc(domains, func(a, b domain) int { return size[b.value] - size[a.value] })
	return domains
}

// sharedKey returns the topology key of a required affinity of the pod to pods like itself, empty when it has none.
func sharedKey(pod *corev1.Pod) string {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.PodAffinity == nil {
		return ""
	}
	for _, term := range affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			return term.TopologyKey
		}
	}
	return ""
}
