package topology

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// namespace is what the index knows of a namespace. Its labels are read on first use.
type namespace struct {
	name          string
	labels        map[string]string
	exists, known bool
}

// labelClass is all pods of one namespace that have the same values of the labels that any selector names.
type labelClass struct {
	namespace *namespace
	labels    labels.Set
	// pairs are the same labels.
	pairs []labelPair
	// used is the last session in which a pod of the class was looked at.
	used uint64
	// present counts its pods on nodes, but for those that are being deleted, which leaving counts.
	present, leaving podCounts
}

// podSelector is what one term selects: namespaces and labels of pods.
type podSelector struct {
	namespaces []string
	// everywhere is all namespaces; byLabels chooses them by their labels, nil chooses none.
	everywhere bool
	byLabels   labels.Selector
	pods       labels.Selector
}

// newChoice reads a term of a pod in a namespace. A term that names no namespace means its own.
func newChoice(own string, term *corev1.PodAffinityTerm) (podSelector, error) {
	pods, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil {
		return podSelector{}, err
	}
	c := podSelector{namespaces: term.Namespaces, pods: pods}
	if term.NamespaceSelector == nil {
		if len(term.Namespaces) == 0 {
			c.namespaces = []string{own}
		}
		return c, nil
	}
	byLabels, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
	if err != nil {
		return podSelector{}, err
	}
	if c.everywhere = byLabels.Empty(); !c.everywhere {
		c.byLabels = byLabels
	}
	return c, nil
}

// matches reports whether the term of a pending pod selects the class. The namespace selector chooses among existing
// namespaces.
func (x *Index) matches(c *podSelector, other *labelClass) bool {
	return x.within(c, other.namespace, true) && c.pods.Matches(other.labels)
}

// matchesClass reports whether the term of a pod on a node selects the class. A namespace that does not exist has no labels;
// a selector without requirements selects it.
func (x *Index) matchesClass(c *podSelector, other *labelClass) bool {
	return x.within(c, other.namespace, false) && c.pods.Matches(other.labels)
}

func (x *Index) within(c *podSelector, space *namespace, existing bool) bool {
	if c.everywhere || slices.Contains(c.namespaces, space.name) {
		return true
	}
	if c.byLabels == nil {
		return false
	}
	x.read(space)
	return (space.exists || !existing) && c.byLabels.Matches(labels.Set(space.labels))
}

func (x *Index) read(n *namespace) {
	if !n.known {
		n.known = true
		n.labels, n.exists = x.namespaces.NamespaceLabels(n.name)
	}
}

// relabelled reports whether the labels of a namespace changed since they were read.
func (x *Index) relabelled() bool {
	for _, n := range x.spaces {
		if !n.known {
			continue
		}
		if now, exists := x.namespaces.NamespaceLabels(n.name); exists != n.exists || !maps.Equal(now, n.labels) {
			return true
		}
	}
	return false
}

// learn records that a selector names labels. A new label invalidates all classes.
func (x *Index) learn(pods labels.Selector) {
	requirements, _ := pods.Requirements()
	for i := range requirements {
		x.learnLabel(requirements[i].Key())
	}
}

func (x *Index) learnLabel(name string) {
	if _, known := x.numbers[name]; !known {
		x.numbers[name] = len(x.labels)
		x.labels = append(x.labels, name)
		x.stale = true
	}
}

// learnFrom records the labels named by the pod's terms and constraints, without reading the terms themselves.
func (x *Index) learnFrom(pod *corev1.Pod) {
	if pod.Spec.Affinity != nil {
		x.learnAffinity(pod.Spec.Affinity)
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		x.learnSelector(c.LabelSelector)
		for _, name := range c.MatchLabelKeys {
			x.learnLabel(name)
		}
	}
}

// learnFromNodes records the labels that terms of pods on nodes name.
func (x *Index) learnFromNodes() {
	for _, node := range x.snapshot.Nodes {
		for _, task := range node.Tasks {
			if task.Pod != nil && hasPodAffinity(task.Pod) {
				x.learnAffinity(task.Pod.Spec.Affinity)
			}
		}
	}
}

func (x *Index) learnAffinity(affinity *corev1.Affinity) {
	if a := affinity.PodAffinity; a != nil {
		x.learnTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		x.learnTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (x *Index) learnTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i := range required {
		x.learnSelector(required[i].LabelSelector)
	}
	for i := range preferred {
		x.learnSelector(preferred[i].PodAffinityTerm.LabelSelector)
	}
}

func (x *Index) learnSelector(selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for name := range selector.MatchLabels {
		x.learnLabel(name)
	}
	for i := range selector.MatchExpressions {
		x.learnLabel(selector.MatchExpressions[i].Key)
	}
}

// namedLabel is a label of a pod that some selector names, by its place among these.
type namedLabel struct {
	number int
	value  string
}

// namedLabels returns the labels of the pod that some selector names, in the order in which these were learned. It takes no
// longer than the pod has labels, however many others name.
func (x *Index) namedLabels(pod *corev1.Pod) []namedLabel {
	named := x.named[:0]
	if len(x.labels) <= len(pod.Labels) {
		for i, name := range x.labels {
			if value, ok := pod.Labels[name]; ok {
				named = append(named, namedLabel{i, value})
			}
		}
	} else {
		for name, value := range pod.Labels {
			if i, ok := x.numbers[name]; ok {
				named = append(named, namedLabel{i, value})
			}
		}
		slices.SortFunc(named, func(a, b namedLabel) int { return a.number - b.number })
	}
	x.named = named
	return named
}

// classOf returns the class of the pod.
func (x *Index) classOf(pod *corev1.Pod) *labelClass {
	named := x.namedLabels(pod)
	id := writeWord(x.scratch[:0], pod.Namespace)
	for i := range named {
		id = writeWord(writeNumber(id, named[i].number), named[i].value)
	}
	x.scratch = id
	c := x.classes[string(id)]
	if c == nil {
		c = x.newClass(string(id), pod.Namespace, named)
	}
	c.used = x.session
	return c
}

func (x *Index) newClass(id, within string, named []namedLabel) *labelClass {
	space := x.spaces[within]
	if space == nil {
		space = &namespace{name: within}
		x.spaces[within] = space
	}
	c := &labelClass{namespace: space, labels: labels.Set{}}
	for _, label := range named {
		name := x.labels[label.number]
		c.labels[name], c.pairs = label.value, append(c.pairs, labelPair{name, label.value})
	}
	x.classes[id] = c
	x.kept += weight(id)
	x.everyClass = append(x.everyClass, c)
	for _, label := range c.pairs {
		x.classesWith[label] = append(x.classesWith[label], c)
		x.subscribeClass(c, x.tablesFor[label])
	}
	x.subscribeClass(c, x.openTables)
	return c
}

// subscribeClass subscribes a new class to those of the tables that count it.
func (x *Index) subscribeClass(c *labelClass, tables []*domainCounts) {
	for _, t := range tables {
		x.subscribeIfMatching(c, t)
	}
}

func (x *Index) subscribeIfMatching(c *labelClass, t *domainCounts) {
	if !x.contains(t.selected, c) {
		return
	}
	c.present.subscribe(t, 1)
	if t.selected.leaving {
		c.leaving.subscribe(t, 1)
	}
}

// labelPair is a label with its value.
type labelPair struct{ name, value string }

// podSet is the pods that match all of some selectors.
type podSet struct {
	choices []podSelector
	// leaving reports whether pods that are being deleted count, too.
	leaving bool
	// matchesNothing reports whether no pod can match.
	matchesNothing bool
	// requiredPairs are labels of which every such pod has one; none when the selectors require none.
	requiredPairs []labelPair
}

func newPodSet(leaving bool, choices ...podSelector) *podSet {
	c := &podSet{choices: choices, leaving: leaving}
	for i := range choices {
		if c.requiredPairs = requiredPairsOf(choices[i].pods); len(c.requiredPairs) > 0 {
			break
		}
	}
	return c
}

// maxPairs is of how many values the pairs are returned: each takes as much memory as twenty values do in a term.
const maxPairs = 16

// requiredPairsOf returns labels of which every pod that the selector matches has exactly one; none when it requires none, or
// allows many.
func requiredPairsOf(pods labels.Selector) []labelPair {
	requirements, _ := pods.Requirements()
	for i := range requirements {
		r := &requirements[i]
		if r.Values().Len() > maxPairs {
			continue
		}
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			var guards []labelPair
			for _, value := range slices.Sorted(maps.Keys(r.Values())) {
				guards = append(guards, labelPair{r.Key(), value})
			}
			return guards
		}
	}
	return nil
}

// contains reports whether the set contains the pods of the class.
func (x *Index) contains(c *podSet, of *labelClass) bool {
	for i := range c.choices {
		if !x.matches(&c.choices[i], of) {
			return false
		}
	}
	return !c.matchesNothing
}

// countsKey identifies a table of a pod set.
type countsKey struct {
	selected *podSet
	key      *key
	among    *eligibleNodes
}

// table returns the numbers of the set's pods by domain of a key. It counts them if it has not yet.
func (x *Index) table(c *podSet, k *key, among *eligibleNodes) *domainCounts {
	if k == x.nowhere {
		return x.nothing
	}
	asked := countsKey{c, k, among}
	t := x.tables[asked]
	if t == nil {
		t = &domainCounts{key: k, selected: c, among: among, counts: make([]int64, len(k.nodesPerDomain))}
		x.tables[asked] = t
		if len(c.requiredPairs) == 0 {
			x.openTables = append(x.openTables, t)
			for _, of := range x.everyClass {
				x.subscribeIfMatching(of, t)
			}
		}
		for _, guard := range c.requiredPairs {
			x.tablesFor[guard] = append(x.tablesFor[guard], t)
			for _, of := range x.classesWith[guard] {
				x.subscribeIfMatching(of, t)
			}
		}
	}
	t.used = x.clock
	return t
}

// dropTable stops counting a table that is no longer used.
func (x *Index) dropTable(asked countsKey, t *domainCounts) {
	t.unsubscribeAll()
	delete(x.tables, asked)
	is := func(other *domainCounts) bool { return other == t }
	if len(t.selected.requiredPairs) == 0 {
		x.openTables = slices.DeleteFunc(x.openTables, is)
	}
	for _, guard := range t.selected.requiredPairs {
		if rest := slices.DeleteFunc(x.tablesFor[guard], is); len(rest) > 0 {
			x.tablesFor[guard] = rest
		} else {
			delete(x.tablesFor, guard)
		}
	}
}
