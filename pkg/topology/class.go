package topology

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// namespace is what terms may ask of a namespace. Its labels are read when first somebody asks.
type namespace struct {
	name          string
	labels        map[string]string
	exists, known bool
}

// class is all pods of one namespace that agree in the labels which some selector names.
type class struct {
	namespace *namespace
	labels    labels.Set
	// present are its pods on nodes, leaving those of them that are being deleted.
	present, leaving presence
}

// choice is what one term says about pods: in which namespaces, with which labels.
type choice struct {
	namespaces []string
	// everywhere is all namespaces; byLabels chooses them by their labels, nil chooses none.
	everywhere bool
	byLabels   labels.Selector
	pods       labels.Selector
}

// newChoice reads a term of a pod in a namespace. A term that names no namespace means its own.
func newChoice(own string, term *corev1.PodAffinityTerm) (choice, error) {
	pods, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil {
		return choice{}, err
	}
	c := choice{namespaces: term.Namespaces, pods: pods}
	if term.NamespaceSelector == nil {
		if len(term.Namespaces) == 0 {
			c.namespaces = []string{own}
		}
		return c, nil
	}
	byLabels, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
	if err != nil {
		return choice{}, err
	}
	if c.everywhere = byLabels.Empty(); !c.everywhere {
		c.byLabels = byLabels
	}
	return c, nil
}

// sees tells whether a pod that waits means the class with its term. Its selector of namespaces chooses among those that
// exist.
func (x *Index) sees(c *choice, other *class) bool {
	return x.within(c, other.namespace, true) && c.pods.Matches(other.labels)
}

// concerns tells whether a pod on a node means the class with its term. A namespace that does not exist has no labels, and is
// chosen by whoever asks for none.
func (x *Index) concerns(c *choice, other *class) bool {
	return x.within(c, other.namespace, false) && c.pods.Matches(other.labels)
}

func (x *Index) within(c *choice, space *namespace, existing bool) bool {
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

// relabelled tells whether a namespace is not any more what it was when it was read.
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

// learn takes down that a selector names labels. One that was not heard of before makes every class known so far wrong.
func (x *Index) learn(pods labels.Selector) {
	requirements, _ := pods.Requirements()
	for i := range requirements {
		x.learnLabel(requirements[i].Key())
	}
}

func (x *Index) learnLabel(name string) {
	if !slices.Contains(x.labels, name) {
		x.labels = append(x.labels, name)
		x.stale = true
	}
}

// learnFrom learns the labels that the pod's terms and constraints name, without reading what they say about them.
func (x *Index) learnFrom(pod *corev1.Pod) {
	if affinity := pod.Spec.Affinity; affinity != nil {
		if a := affinity.PodAffinity; a != nil {
			x.learnTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a := affinity.PodAntiAffinity; a != nil {
			x.learnTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		x.learnSelector(c.LabelSelector)
		for _, name := range c.MatchLabelKeys {
			x.learnLabel(name)
		}
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

// classOf returns the class of the pod.
func (x *Index) classOf(pod *corev1.Pod) *class {
	id := writeWord(x.scratch[:0], pod.Namespace)
	for i, name := range x.labels {
		if value, ok := pod.Labels[name]; ok {
			id = writeWord(writeNumber(id, i), value)
		}
	}
	x.scratch = id
	if known := x.classes[string(id)]; known != nil {
		return known
	}
	return x.newClass(string(id), pod)
}

func (x *Index) newClass(id string, pod *corev1.Pod) *class {
	space := x.spaces[pod.Namespace]
	if space == nil {
		space = &namespace{name: pod.Namespace}
		x.spaces[pod.Namespace] = space
	}
	c := &class{namespace: space, labels: labels.Set{}}
	for _, name := range x.labels {
		if value, ok := pod.Labels[name]; ok {
			c.labels[name] = value
		}
	}
	x.classes[id] = c
	x.everyClass = append(x.everyClass, c)
	for _, name := range x.labels {
		if value, ok := c.labels[name]; ok {
			label := pair{name, value}
			x.classesWith[label] = append(x.classesWith[label], c)
			x.admit(c, x.tablesFor[label])
		}
	}
	x.admit(c, x.openTables)
	return c
}

// admit lets a new class feed those of the tables that count it.
func (x *Index) admit(c *class, tables []*table) {
	for _, t := range tables {
		x.offer(c, t)
	}
}

func (x *Index) offer(c *class, t *table) {
	if !x.counts(t.crowd, c) {
		return
	}
	c.present.feed(t, 1)
	if t.crowd.leaving {
		c.leaving.feed(t, 1)
	}
}

// pair is a label with its value.
type pair struct{ name, value string }

// crowd is the pods that all of some choices take.
type crowd struct {
	choices []choice
	// leaving tells that pods that are being deleted count, too.
	leaving bool
	// nobody tells that it has none after all.
	nobody bool
	// guards are labels of which every such pod has one; none when there is no such thing.
	guards []pair
}

func newCrowd(leaving bool, choices ...choice) *crowd {
	c := &crowd{choices: choices, leaving: leaving}
	for i := range choices {
		if c.guards = guardsOf(choices[i].pods); len(c.guards) > 0 {
			break
		}
	}
	return c
}

// guardsOf returns labels of which every pod that the selector takes has exactly one; none when there is no such thing.
func guardsOf(pods labels.Selector) []pair {
	requirements, _ := pods.Requirements()
	for i := range requirements {
		switch r := &requirements[i]; r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			var guards []pair
			for _, value := range slices.Sorted(maps.Keys(r.Values())) {
				guards = append(guards, pair{r.Key(), value})
			}
			return guards
		}
	}
	return nil
}

// counts tells whether the crowd has the class in it.
func (x *Index) counts(c *crowd, of *class) bool {
	for i := range c.choices {
		if !x.sees(&c.choices[i], of) {
			return false
		}
	}
	return !c.nobody
}

// question is what a table of a crowd answers.
type question struct {
	crowd *crowd
	key   *key
	among *among
}

// table returns the crowd's numbers by domain of a key, counted from now on if they were not before.
func (x *Index) table(c *crowd, k *key, among *among) *table {
	asked := question{c, k, among}
	t := x.tables[asked]
	if t == nil {
		t = &table{key: k, crowd: c, among: among, counts: make([]int64, len(k.width))}
		x.tables[asked] = t
		if len(c.guards) == 0 {
			x.openTables = append(x.openTables, t)
			for _, of := range x.everyClass {
				x.offer(of, t)
			}
		}
		for _, guard := range c.guards {
			x.tablesFor[guard] = append(x.tablesFor[guard], t)
			for _, of := range x.classesWith[guard] {
				x.offer(of, t)
			}
		}
	}
	t.used = x.clock
	return t
}

// dropTable stops counting what nobody asks for.
func (x *Index) dropTable(asked question, t *table) {
	t.unfeed()
	delete(x.tables, asked)
	is := func(other *table) bool { return other == t }
	if len(t.crowd.guards) == 0 {
		x.openTables = slices.DeleteFunc(x.openTables, is)
	}
	for _, guard := range t.crowd.guards {
		if rest := slices.DeleteFunc(x.tablesFor[guard], is); len(rest) > 0 {
			x.tablesFor[guard] = rest
		} else {
			delete(x.tablesFor, guard)
		}
	}
}
