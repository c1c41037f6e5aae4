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
	for _, tie := range t.preferredColocations() {
		level := tie.levels[0]
		roomy := make([]bool, level.Len())
		for domain, set := range t.capacities(&tie, level, nil) {
			roomy[domain] = set.suffices()
		}
		for ; tries > 0; tries-- {
			node := t.ask.Best(tie.shapes[0].tasks[0], func(node *model.Node) bool {
				domain := level.Of(node)
				return domain >= 0 && roomy[domain]
			})
			if node == nil {
				break
			}
			best := level.Of(node)
			roomy[best] = false
			refusal := t.session.Try(func(statement *engine.Statement) *model.Refusal {
				return t.placeInOrder(statement, t.members, regions{}.with(tie.members, level.Nodes(best)))
			})
			if refusal == nil {
				return true
			}
		}
	}
	return false
}

// preferredColocations returns the ties of members that prefer to share a value of a label, by what the minimum has of them: at
// least two. What members must share is left to filters, which apply in every try.
func (t *Placer) preferredColocations() (ties []levelTie) {
	if !slices.ContainsFunc(t.members, hasPreferredAffinity) {
		return nil
	}
	kinds := t.kinds.first(t.members)
	for _, task := range filterTasks(kinds, hasPreferredAffinity) {
		for _, key := range preferredTopologyKeys(task.Pod, kinds) {
			more := tieByLabel(key, t.kinds.of(task))
			i := slices.IndexFunc(ties, func(one levelTie) bool { return one.shared.Level == more.shared.Level })
			if i < 0 {
				ties = append(ties, more)
				continue
			}
			ties[i].members[t.kinds.of(task)] = true
		}
	}
	ties = t.counted(ties)
	for i := range ties {
		tie := &ties[i]
		for j := range tie.shapes {
			one := &tie.shapes[j]
			one.needs = int64(len(filterTasks(t.minimum(), func(task *model.Task) bool {
				return tie.members[t.kinds.of(task)] && countsAlike(task, one.tasks[0])
			})))
			tie.needs += one.needs
		}
	}
	return slices.DeleteFunc(ties, func(tie levelTie) bool { return tie.needs < 2 })
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
