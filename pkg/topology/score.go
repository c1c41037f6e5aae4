package topology

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/pkg/model"
)

func podLabels(pod *corev1.Pod) labels.Set { return labels.Set(pod.Labels) }

// AffinityScore is preferred inter-pod affinity and anti-affinity, the pod's and those of pods on nodes, for one pod. It is
// valid until the snapshot changes.
type AffinityScore struct {
	own  []weighted
	said []*domainCounts
}

type weighted struct {
	table  *domainCounts
	weight int64
}

// AffinityScore returns how inter-pod affinity ranks nodes for the pod, nil when it does not, as when no pod in the cluster
// matches. required is the weight of a required affinity of a pod on a node to this pod, 0 to 100. A pod with an invalid term
// has no ranks.
func (x *Index) AffinityScore(pod *corev1.Pod, required int64) *AffinityScore {
	if x.snapshot == nil {
		return nil
	}
	terms := x.ask(pod, false).kind.terms
	if terms == nil && len(x.terms) == 0 || terms != nil && terms.err != nil {
		return nil
	}
	var own []weighted
	var said []*domainCounts
	for _, t := range x.countsFor(incomingPod{class: x.classOf(pod), needs: required}).tables {
		if t.total > 0 {
			said = append(said, t)
		}
	}
	if terms != nil {
		for i := range terms.prefers {
			preferred := &terms.prefers[i]
			if t := x.table(preferred.selected, x.key(preferred.key), nil); t.total > 0 {
				own = append(own, weighted{table: t, weight: preferred.weight})
			}
		}
	}
	if len(own)+len(said) == 0 {
		return nil
	}
	return &AffinityScore{own: own, said: said}
}

// Of returns the rank of a node of the snapshot: the higher the better, any number.
func (s *AffinityScore) Of(node *model.Node) int64 {
	var sum int64
	for i := range s.own {
		sum += s.own[i].weight * s.own[i].table.on(node.Index)
	}
	for _, t := range s.said {
		sum += t.on(node.Index)
	}
	return sum
}

// SpreadScore is the soft topology spread constraints of one pod for some nodes. It is valid until the snapshot changes.
type SpreadScore struct {
	rules []softRule
	// all reports whether a node must have all labels.
	all bool
	// lowest and highest are the least and the greatest number of a node.
	lowest, highest int64
}

type softRule struct {
	key *key
	// domains is the key by which table counts: every node for itself where the key is the host name; a domain of nodes
	// without the label where not all labels are required.
	domains *key
	table   *domainCounts
	// slack is added for a node that has the label, weight counts for each pod.
	slack, weight float64
}

// SpreadScore returns how the pod's soft topology spread constraints rank the candidates, nil when they do not. Invalid
// constraints rank nothing.
func (x *Index) SpreadScore(pod *corev1.Pod, candidates []*model.Node) *SpreadScore {
	if x.snapshot == nil || len(x.snapshot.Nodes) == 0 || len(pod.Spec.TopologySpreadConstraints) == 0 {
		return nil
	}
	soft := x.ask(pod, false).spreads.soft
	if soft.err != nil || len(soft.all) == 0 {
		return nil
	}
	return x.rank(soft.all, candidates, true)
}

// DefaultSpreadScore is SpreadScore for a pod without constraints: it is spread over hosts and zones among the pods that the
// selector takes, as by kube-scheduler's system defaults. An empty selector ranks nothing.
func (x *Index) DefaultSpreadScore(pod *corev1.Pod, pods labels.Selector, candidates []*model.Node) *SpreadScore {
	if x.snapshot == nil || len(x.snapshot.Nodes) == 0 || pods.Empty() {
		return nil
	}
	for {
		x.ask(pod, true)
		if list := x.defaultsOf(pod, pods); !x.stale {
			return x.rank(list.all, candidates, false)
		}
	}
}

// rank ranks the candidates; all reports whether those that lack any of the labels are left out.
func (x *Index) rank(list []constraint, candidates []*model.Node, all bool) *SpreadScore {
	s := &SpreadScore{rules: make([]softRule, len(list)), all: all}
	for i := range list {
		c := &list[i]
		rule := softRule{key: x.key(c.key), slack: float64(c.maxSkew - 1)}
		if c.key == corev1.LabelHostname {
			rule.domains = x.perNode
			rule.table = x.table(c.selected, rule.domains, nil) // whatever nodes the constraint includes: a node counts for itself
		} else {
			rule.domains = x.keyOf(keyName{label: c.key, missingAsEmpty: !all})
			rule.table = x.table(c.selected, rule.domains, x.among(&c.included))
		}
		s.rules[i] = rule
	}
	for i, size := range s.sizes(candidates) {
		s.rules[i].weight = math.Log(float64(size + 2))
	}
	s.bound(candidates)
	return s
}

// sizes returns how many domains the candidates have under each rule.
func (s *SpreadScore) sizes(candidates []*model.Node) []int {
	seen, sizes := make([][]bool, len(s.rules)), make([]int, len(s.rules))
	for i := range s.rules {
		seen[i] = make([]bool, len(s.rules[i].domains.nodesPerDomain))
	}
	for _, node := range candidates {
		if s.ignores(node.Index) {
			continue
		}
		for i := range s.rules {
			if domain := s.rules[i].domains.at[node.Index]; !seen[i][domain] {
				seen[i][domain] = true
				sizes[i]++
			}
		}
	}
	return sizes
}

// bound computes the least and the greatest number.
func (s *SpreadScore) bound(candidates []*model.Node) {
	s.lowest = math.MaxInt64
	for _, node := range candidates {
		if s.ignores(node.Index) {
			continue
		}
		n := s.number(node.Index)
		s.lowest, s.highest = min(s.lowest, n), max(s.highest, n)
	}
}

// ignores reports whether the node has no rank, because a label is missing.
func (s *SpreadScore) ignores(node int) bool {
	return s.all && slices.ContainsFunc(s.rules, func(rule softRule) bool { return rule.key.at[node] == noDomain })
}

// number grows with how many pods the node's domains have.
func (s *SpreadScore) number(node int) int64 {
	var sum float64
	for i := range s.rules {
		rule := &s.rules[i]
		if rule.key.at[node] != noDomain {
			sum += float64(rule.table.on(node))*rule.weight + rule.slack
		}
	}
	return int64(math.Round(sum))
}

// Of returns the rank of a candidate, 0 to 100.
func (s *SpreadScore) Of(node *model.Node) int64 {
	const full = 100
	switch {
	case s.ignores(node.Index):
		return 0
	case s.highest == 0:
		return full
	default:
		return full * (s.highest + s.lowest - s.number(node.Index)) / s.highest
	}
}
