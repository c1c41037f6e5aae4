package place

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// A gang whose members prefer to be in one domain, such as a zone, a rack or a host, is first tried in one that has capacity
// for its whole minimum. Scores alone consider one member at a time: the first takes the best node, the others follow it
// until its domain is full, and the rest end up in other domains although one had capacity for all.

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
	for _, of := range t.preferredColocations() {
		roomy := t.fittingDomains(&of)
		for ; tries > 0 && len(roomy) > 0; tries-- {
			node := t.ask.Best(of.lead, func(node *model.Node) bool {
				value, ok := node.Object.Labels[of.key]
				return ok && slices.Contains(roomy, value)
			})
			if node == nil {
				break
			}
			best := node.Object.Labels[of.key]
			roomy = slices.DeleteFunc(roomy, func(value string) bool { return value == best })
			refusal := t.session.Try(func(statement *engine.Statement) *model.Refusal {
				return t.placeInOrder(statement, t.members, regions{}.with(of.members, t.nodesWith(of.key, best)))
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
func (t *Placer) preferredColocations() (all []colocation) {
	if !slices.ContainsFunc(t.members, hasPreferredAffinity) {
		return nil
	}
	kinds := t.kinds.first(t.members)
	for _, task := range kinds {
		if !hasPreferredAffinity(task) {
			continue
		}
		for _, key := range preferredTopologyKeys(task.Pod, kinds) {
			i := slices.IndexFunc(all, func(one colocation) bool { return one.key == key })
			if i < 0 {
				i = len(all)
				all = append(all, colocation{key: key, lead: task, members: map[equivalenceClass]bool{}})
			}
			all[i].members[t.kinds.of(task)] = true
		}
	}
	return t.byValues(all)
}

// fittingDomains returns the domains that have capacity for those members of the minimum that prefer to share one, shape by
// shape; none when fewer than two do. Only a try shows whether they fit all together.
func (t *Placer) fittingDomains(of *colocation) []string {
	sharing := filterTasks(t.minimum(), func(task *model.Task) bool { return of.members[t.kinds.of(task)] })
	if len(sharing) < 2 {
		return nil
	}
	needs := map[model.Shape]int64{}
	for _, task := range sharing {
		needs[task.Shape]++
	}
	return t.domains(of, func(shape model.Shape) int64 { return needs[shape] }, nil)
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
