package topology

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Reason is the reason why a pod does not fit a node.
type Reason int8

const (
	// Fits: there is no reason.
	Fits Reason = iota
	// MaxSkewExceeded: the node's domain has too many of the pods already.
	MaxSkewExceeded
	// LabelMissing: the node lacks a label to spread over.
	LabelMissing
	// AffinityUnmatched: no pod matches the pod's required affinity in the node's domains.
	AffinityUnmatched
	// AntiAffinityViolated: a pod in the node's domains matches the pod's required anti-affinity.
	AntiAffinityViolated
	// ExistingAntiAffinity: the pod matches the required anti-affinity of a pod in the node's domains.
	ExistingAntiAffinity

	// LastReason is the last of them.
	LastReason = ExistingAntiAffinity
)

var reasonTexts = [...]string{
	Fits:                 "",
	MaxSkewExceeded:      "didn't match pod topology spread constraints",
	LabelMissing:         "didn't match pod topology spread constraints (missing required label)",
	AffinityUnmatched:    "didn't match pod affinity rules",
	AntiAffinityViolated: "didn't match pod anti-affinity rules",
	ExistingAntiAffinity: "didn't satisfy existing pods anti-affinity rules",
}

// String returns kube-scheduler's text for it, which goes after "node(s)"; empty for Fits.
func (r Reason) String() string { return reasonTexts[r] }

// Evictable reports whether an eviction could help, where kube-scheduler returns Unschedulable rather than
// UnschedulableAndUnresolvable.
func (r Reason) Evictable() bool {
	return r == MaxSkewExceeded || r == AntiAffinityViolated || r == ExistingAntiAffinity
}

// SpreadFilter is the hard topology spread constraints of one pod. It is valid until the snapshot changes.
type SpreadFilter struct{ rules []spreadRule }

type spreadRule struct {
	key   *key
	table *domainCounts
	// most is how many pods the domain may have before this one is added.
	most int64
}

// Spread returns the filter of the pod's hard topology spread constraints, nil when it has none. An error says that a
// constraint is invalid, so that no node fits.
func (x *Index) Spread(pod *corev1.Pod) (*SpreadFilter, error) {
	if x.snapshot == nil || len(pod.Spec.TopologySpreadConstraints) == 0 {
		return nil, nil
	}
	hard := x.ask(pod, false).spreads.hard
	if hard.err != nil {
		return nil, fmt.Errorf("get constraints from pod: obtaining pod's hard topology spread constraints: %w", hard.err)
	}
	if len(hard.all) == 0 {
		return nil, nil
	}
	f := &SpreadFilter{}
	for i := range hard.all {
		f.rules = append(f.rules, x.spreadRule(pod, &hard.all[i]))
	}
	return f, nil
}

// everywhere is more than any number of pods.
const everywhere = 1 << 31

func (x *Index) spreadRule(pod *corev1.Pod, c *constraint) spreadRule {
	rule := spreadRule{key: x.key(c.key), most: c.maxSkew}
	t := x.table(c.selected, rule.key, x.among(&c.included))
	t.computeMin(x.layout)
	switch {
	case int64(t.domains) < c.minDomains:
	case t.domains == 0:
		rule.most += everywhere
	default:
		rule.most += t.lowest
	}
	if c.pods.Matches(podLabels(pod)) {
		rule.most--
	}
	rule.table = t
	return rule
}

// Check returns why the pod does not fit the node, which must be one of the snapshot.
func (f *SpreadFilter) Check(node *model.Node) Reason {
	for i := range f.rules {
		rule := &f.rules[i]
		domain := rule.key.at[node.Index]
		if domain == noDomain {
			return LabelMissing
		}
		if rule.table.count(domain) > rule.most {
			return MaxSkewExceeded
		}
	}
	return Fits
}

// AffinityFilter is required inter-pod affinity and anti-affinity, the pod's and those of pods on nodes, for one pod. It is
// valid until the snapshot changes.
type AffinityFilter struct {
	// with has a table for each term, of the pods that match all terms; first reports whether there are none and the pod
	// itself would match.
	with  []*domainCounts
	first bool
	// apart has a table for each term, unwelcome one for each key of the terms of pods on nodes.
	apart, unwelcome []*domainCounts
}

// Affinity returns the filter of required inter-pod affinity and anti-affinity for the pod, nil when nothing applies. An
// error says that a term of the pod is invalid, so that no node fits.
func (x *Index) Affinity(pod *corev1.Pod) (*AffinityFilter, error) {
	if x.snapshot == nil {
		return nil, nil
	}
	terms := x.ask(pod, false).kind.terms
	if terms == nil && len(x.terms) == 0 {
		return nil, nil
	}
	if terms != nil && terms.err != nil {
		return nil, terms.err
	}
	self := x.classOf(pod)
	var unwelcome []*domainCounts
	for _, t := range x.countsFor(incomingPod{class: self, refusals: true}).tables {
		if t.total > 0 {
			unwelcome = append(unwelcome, t)
		}
	}
	if len(unwelcome) == 0 && (terms == nil || terms.with == nil && len(terms.apart) == 0) {
		return nil, nil
	}
	f := &AffinityFilter{unwelcome: unwelcome}
	if terms != nil {
		x.addOwn(f, terms, self)
	}
	return f, nil
}

func (x *Index) addOwn(f *AffinityFilter, terms *terms, self *labelClass) {
	var matching int64
	for _, label := range terms.withKeys {
		t := x.table(terms.with, x.key(label), nil)
		matching += t.total
		f.with = append(f.with, t)
	}
	f.first = len(f.with) > 0 && matching == 0 && x.contains(terms.with, self)
	for i := range terms.apart {
		f.apart = append(f.apart, x.table(terms.apart[i].selected, x.key(terms.apart[i].key), nil))
	}
}

// Check returns why the pod does not fit the node, which must be one of the snapshot.
func (f *AffinityFilter) Check(node *model.Node) Reason {
	if len(f.with) > 0 && !f.near(node.Index) {
		return AffinityUnmatched
	}
	for _, t := range f.apart {
		if t.on(node.Index) > 0 {
			return AntiAffinityViolated
		}
	}
	for _, t := range f.unwelcome {
		if t.on(node.Index) > 0 {
			return ExistingAntiAffinity
		}
	}
	return Fits
}

// near reports whether the node's domains have the pods that the affinity requires. The first pod of its kind may go to any
// node that has the labels.
func (f *AffinityFilter) near(node int) bool {
	all := true
	for _, t := range f.with {
		domain := t.key.at[node]
		if domain == noDomain {
			return false
		}
		all = all && t.count(domain) > 0
	}
	return all || f.first
}
