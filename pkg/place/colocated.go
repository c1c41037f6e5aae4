package place

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// A gang whose members prefer to be in one domain, such as a zone, a rack or a host, is first tried in one that has capacity
// for its whole minimum. Scores alone consider one member at a time: the first takes the best node, the others follow it
// until its domain is full, and the rest end up in other domains although one had capacity for all.

// preferredColocation is a topology label of which members prefer to share one value.
type preferredColocation struct {
	key string
	// of is the kinds that prefer it; lead is the first of them to be placed.
	of   map[equivalenceClass]bool
	lead *model.Task
	// values is how many domains there are.
	values int
}

// placeColocated starts the gang in one domain, if its members prefer that and one has capacity for its minimum. Narrow
// domains are tried before wide ones: members that share a rack mostly share the zone, too. Of several such domains the one
// with the best node for the first member is tried first. So all scores (taints, images, how full nodes should be) choose the
// domain as they choose the node; a fixed rule, such as the fullest domain, would suit some clusters only.
//
// Members that have a node already attract the others by scores, and are not reconsidered here.
func (t *Placer) placeColocated() bool {
	if !t.session.PrefersColocation() || t.job.Count(IsSettledOnNode) > 0 {
		return false
	}
	tries := maxDomains
	colocations := t.preferredColocations()
	for i := range colocations {
		w := &colocations[i]
		roomy := t.fittingDomains(w)
		for ; tries > 0 && len(roomy) > 0; tries-- {
			node := t.ask.Best(w.lead, func(node *model.Node) bool {
				value, ok := node.Object.Labels[w.key]
				return ok && roomy[value]
			})
			if node == nil {
				break
			}
			value := node.Object.Labels[w.key]
			within := t.domain(w.key, value, w.of)
			delete(roomy, value)
			refusal := t.session.Try(func(statement *engine.Statement) *model.Refusal {
				return t.placeInOrder(statement, t.members, []topologyDomain{within})
			})
			if refusal == nil {
				return true
			}
		}
	}
	return false
}

// preferredColocations returns the labels of which members prefer to share a value, those with the most values first. What
// members must share is left to filters, which apply in every try.
func (t *Placer) preferredColocations() []preferredColocation {
	if !slices.ContainsFunc(t.members, hasPreferredAffinity) {
		return nil
	}
	kinds := t.kinds.first(t.members)
	var colocations []preferredColocation
	for _, task := range kinds {
		if !hasPreferredAffinity(task) {
			continue
		}
		for _, key := range preferredTopologyKeys(task.Pod, kinds) {
			i := slices.IndexFunc(colocations, func(w preferredColocation) bool { return w.key == key })
			if i < 0 {
				i = len(colocations)
				colocations = append(colocations, preferredColocation{key: key, of: map[equivalenceClass]bool{}, lead: task, values: t.domainCount(task, key)})
			}
			colocations[i].of[t.kinds.of(task)] = true
		}
	}
	slices.SortStableFunc(colocations, func(a, b preferredColocation) int {
		return cmp.Or(cmp.Compare(b.values, a.values), cmp.Compare(a.key, b.key))
	})
	return colocations
}

// domainCount returns how many domains of the key there are for the task.
func (t *Placer) domainCount(task *model.Task, key string) int {
	values := map[string]bool{}
	for _, node := range t.session.EligibleNodes(task) {
		if value, ok := node.Object.Labels[key]; ok {
			values[value] = true
		}
	}
	return len(values)
}

// fittingDomains returns the domains that have capacity for those members of the minimum that prefer to share one, shape by
// shape; none when fewer than two do. Only a try shows whether they fit all together.
func (t *Placer) fittingDomains(w *preferredColocation) map[string]bool {
	short := int(t.job.MinMember) - t.job.Count(t.readiness().Counts)
	needs := map[model.Shape]int64{}
	var shapes []*model.Task
	sharing := 0
	for _, task := range t.members[:min(max(0, short), len(t.members))] {
		if !w.of[t.kinds.of(task)] {
			continue
		}
		if needs[task.Shape] == 0 {
			shapes = append(shapes, task)
		}
		needs[task.Shape]++
		sharing++
	}
	if sharing < 2 {
		return nil
	}
	held := map[string]int{}
	for _, task := range shapes {
		fits := map[string]int64{}
		for _, node := range t.session.EligibleNodes(task) {
			value, ok := node.Object.Labels[w.key]
			if !ok || fits[value] >= needs[task.Shape] {
				continue
			}
			fits[value] = min(fits[value]+t.ask.Free(node).Copies(task.Request), model.MaxAmount)
			if fits[value] >= needs[task.Shape] {
				held[value]++
			}
		}
	}
	roomy := map[string]bool{}
	for value, shapesHeld := range held {
		if shapesHeld == len(shapes) {
			roomy[value] = true
		}
	}
	return roomy
}

// preferredTopologyKeys returns the topology labels of which the pod prefers to share a value with any of the siblings.
func preferredTopologyKeys(pod *corev1.Pod, siblings []*model.Task) []string {
	var keys []string
	terms := pod.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for i := range terms {
		term := &terms[i].PodAffinityTerm
		if slices.Contains(keys, term.TopologyKey) {
			continue
		}
		if slices.ContainsFunc(siblings, func(sibling *model.Task) bool { return matches(term, pod, sibling.Pod, certain) }) {
			keys = append(keys, term.TopologyKey)
		}
	}
	return keys
}

// IsSettledOnNode reports whether a task has its node and keeps it. A terminating one does not: a job with no other members
// has not started, so that victims recreated by their owner do not come before the job that evicted them.
func IsSettledOnNode(task *model.Task) bool {
	return task.Status.Occupies() && task.Status != model.Releasing
}
