package topology

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// terms is the inter-pod affinity of pods of one namespace that write it alike.
type terms struct {
	// err says which term is invalid; a pod with one fits no node, and of the list that contains it nothing counts.
	err error

	// with are the pods that match all required affinity terms, nil when there are none; withKeys are the terms' keys.
	with     *podSet
	withKeys []string
	// apart are the required anti-affinity terms, prefers the preferred ones of both kinds.
	apart   []term
	prefers []term
	// said are the same terms as they apply to other pods.
	said []indexedTerm

	// holders are the pods on nodes with these terms.
	holders podCounts
	// used is the last session in which a pod with these terms was looked at.
	used uint64
}

// term is one term of a pending pod.
type term struct {
	selected *podSet
	key      string
	// weight is how much a preferred term adds to a node, negative for anti-affinity.
	weight int64
}

// termKind is the strength of a term.
type termKind int8

const (
	// No matching pod may be in the domain.
	requiredAntiAffinity termKind = iota
	// A matching pod must be in the domain.
	requiredAffinity
	// A matching pod should, or should not, be in the domain.
	preferred
)

// indexedTerm is one term of a pod on a node.
type indexedTerm struct {
	choice podSelector
	key    string
	kind   termKind
	weight int64
}

// hasPodAffinity reports whether the pod has inter-pod affinity or anti-affinity.
func hasPodAffinity(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}

// termsOf returns the pod's terms, nil for none.
func (x *Index) termsOf(pod *corev1.Pod) *terms {
	if !hasPodAffinity(pod) {
		return nil
	}
	x.scratch = writeAffinity(writeWord(x.scratch[:0], pod.Namespace), pod.Spec.Affinity)
	known := x.terms[string(x.scratch)]
	if known == nil {
		id := string(x.scratch)
		known = x.newTerms(pod)
		x.terms[id] = known
		x.kept += weight(id)
	}
	known.used = x.session
	return known
}

// newTerms reads the pod's terms, and subscribes them to the tables of the pods that they may select.
func (x *Index) newTerms(pod *corev1.Pod) *terms {
	r := reader{index: x, namespace: pod.Namespace, terms: &terms{}}
	r.read(pod.Spec.Affinity)
	for i := range r.terms.said {
		v := existingTerm{said: &r.terms.said[i], holders: &r.terms.holders}
		guards := requiredPairsOf(v.said.choice.pods)
		for _, guard := range guards {
			x.termsByLabel[guard] = append(x.termsByLabel[guard], v)
		}
		if len(guards) == 0 {
			x.unindexedTerms = append(x.unindexedTerms, v)
		}
		for _, one := range x.everyTermCounts {
			x.subscribeTerm(one, v)
		}
	}
	return r.terms
}

// existingTerm is one term and the pods on nodes that have it.
type existingTerm struct {
	said    *indexedTerm
	holders *podCounts
}

// reader reads the terms of pods in a namespace.
type reader struct {
	index     *Index
	namespace string
	terms     *terms
}

func (r *reader) read(affinity *corev1.Affinity) {
	var with, apart []corev1.PodAffinityTerm
	var near, far []corev1.WeightedPodAffinityTerm
	if a := affinity.PodAffinity; a != nil {
		with, near = a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := affinity.PodAntiAffinity; a != nil {
		apart, far = a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	withErr := r.readWith(with)
	apartErr := r.readApart(apart)
	nearErr := r.readPreferred(near, 1)
	farErr := r.readPreferred(far, -1)
	var errs []error
	for _, e := range []struct {
		list string
		err  error
	}{
		{"requiredAffinityTerms", withErr}, {"requiredAntiAffinityTerms", apartErr},
		{"preferredAffinityTerms", nearErr}, {"preferredAntiAffinityTerms", farErr},
	} {
		if e.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.list, e.err))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		r.terms.err = fmt.Errorf("parsing pod: %w", err)
	}
}

// choose reads one term and records the labels it names.
func (r *reader) choose(term *corev1.PodAffinityTerm) (podSelector, error) {
	c, err := newChoice(r.namespace, term)
	if err == nil {
		r.index.learn(c.pods)
	}
	return c, err
}

func (r *reader) readWith(list []corev1.PodAffinityTerm) error {
	var choices []podSelector
	var indexed []indexedTerm
	var keys []string
	for i := range list {
		c, err := r.choose(&list[i])
		if err != nil {
			return err
		}
		choices, keys = append(choices, c), append(keys, list[i].TopologyKey)
		indexed = append(indexed, indexedTerm{choice: c, key: list[i].TopologyKey, kind: requiredAffinity})
	}
	if len(choices) > 0 {
		r.terms.with, r.terms.withKeys = newPodSet(true, choices...), keys
	}
	r.terms.said = append(r.terms.said, indexed...)
	return nil
}

func (r *reader) readApart(list []corev1.PodAffinityTerm) error {
	var apart []term
	var indexed []indexedTerm
	for i := range list {
		c, err := r.choose(&list[i])
		if err != nil {
			return err
		}
		apart = append(apart, term{selected: newPodSet(true, c), key: list[i].TopologyKey})
		indexed = append(indexed, indexedTerm{choice: c, key: list[i].TopologyKey, kind: requiredAntiAffinity})
	}
	r.terms.apart = apart
	r.terms.said = append(r.terms.said, indexed...)
	return nil
}

func (r *reader) readPreferred(list []corev1.WeightedPodAffinityTerm, sign int64) error {
	var prefers []term
	var indexed []indexedTerm
	for i := range list {
		weighted := &list[i]
		c, err := r.choose(&weighted.PodAffinityTerm)
		if err != nil {
			return err
		}
		weight := sign * int64(weighted.Weight)
		prefers = append(prefers, term{selected: newPodSet(true, c), key: weighted.PodAffinityTerm.TopologyKey, weight: weight})
		indexed = append(indexed, indexedTerm{choice: c, key: weighted.PodAffinityTerm.TopologyKey, kind: preferred, weight: weight})
	}
	r.terms.prefers = append(r.terms.prefers, prefers...)
	r.terms.said = append(r.terms.said, indexed...)
	return nil
}

// incomingPod is the class that existing terms are counted for, and the kind of terms that count.
type incomingPod struct {
	class *labelClass
	// refusals reports whether required anti-affinity to the class counts; otherwise affinity and preferences do.
	refusals bool
	// needs is the weight of a required affinity among the latter.
	needs int64
}

// existingTermCounts counts the terms of pods on nodes that select one class: a table for every key they name.
type existingTermCounts struct {
	incomingPod
	tables []*domainCounts
	used   uint64
}

// weight returns how much a term counts for the class, 0 for not at all.
func (l *incomingPod) weight(s *indexedTerm) int64 {
	switch {
	case l.refusals && s.kind == requiredAntiAffinity:
		return 1
	case !l.refusals && s.kind == requiredAffinity:
		return l.needs
	case !l.refusals && s.kind == preferred:
		return s.weight
	default:
		return 0
	}
}

// countsFor returns the counts for a class. It counts the terms if it has not yet.
func (x *Index) countsFor(who incomingPod) *existingTermCounts {
	r := x.termCounts[who]
	if r == nil {
		r = &existingTermCounts{incomingPod: who}
		x.termCounts[who] = r
		x.everyTermCounts = append(x.everyTermCounts, r)
		x.subscribe(r)
	}
	r.used = x.clock
	return r
}

// subscribe subscribes to the new counts the terms that may select its class: not all, since most select pods of one label
// alone.
func (x *Index) subscribe(r *existingTermCounts) {
	for _, label := range r.class.pairs {
		for _, v := range x.termsByLabel[label] {
			x.subscribeTerm(r, v)
		}
	}
	for _, v := range x.unindexedTerms {
		x.subscribeTerm(r, v)
	}
}

// subscribeTerm subscribes a term to the counts, if it selects their class.
func (x *Index) subscribeTerm(r *existingTermCounts, v existingTerm) {
	if weight := r.weight(v.said); weight != 0 && x.matchesClass(&v.said.choice, r.class) {
		if k := x.key(v.said.key); k != x.nowhere {
			v.holders.subscribe(r.table(k), weight)
		}
	}
}

func (r *existingTermCounts) table(k *key) *domainCounts {
	for _, t := range r.tables {
		if t.key == k {
			return t
		}
	}
	t := &domainCounts{key: k, counts: make([]int64, len(k.nodesPerDomain))}
	r.tables = append(r.tables, t)
	return t
}

// dropCounts stops counting what is no longer used.
func (x *Index) dropCounts(r *existingTermCounts) {
	for _, t := range r.tables {
		t.unsubscribeAll()
	}
	delete(x.termCounts, r.incomingPod)
}
