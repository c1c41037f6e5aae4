package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// PodConstraint is one thing that keeps the members' pods off nodes, and that they could do without.
type PodConstraint struct {
	words string
	drop  func(*corev1.PodSpec)
}

// Remove takes the wish back. What the spec shares with others is left as it is.
func (w *PodConstraint) Remove(spec *corev1.PodSpec) { w.drop(spec) }

// mostWishes is how many wishes are tried.
const mostWishes = 12

// drop returns the first wish without which the job would start: of its own, in the order of Kubernetes' API, and then
// tolerations of what keeps its pods off nodes, the fewest taints first.
func (q *search) drop() *Change {
	waiting := q.job.Pending()
	wishes := q.constraints(kindsOf(waiting))
	for i := range wishes[:min(len(wishes), mostWishes)] {
		if q.left <= 0 {
			return nil
		}
		if q.startsWithout(&wishes[i], waiting) {
			return &Change{Kind: Drop, Constraint: &wishes[i], words: wishes[i].words}
		}
	}
	return nil
}

// startsWithout reports whether the job would start if its pods had not that wish.
func (q *search) startsWithout(wish *PodConstraint, waiting []*model.Task) bool {
	type was struct {
		pod   *corev1.Pod
		shape model.Shape
	}
	before := make([]was, len(waiting))
	for i, task := range waiting {
		before[i] = was{task.Pod, task.Shape}
		pod := *task.Pod
		wish.drop(&pod.Spec)
		task.Pod, task.Shape = &pod, unique.Make(task.Shape.Value()+"\n"+wish.words)
	}
	defer func() {
		for i, task := range waiting {
			q.session.DropHypotheticalShape(task.Shape) // no job asks for it again soon
			task.Pod, task.Shape = before[i].pod, before[i].shape
		}
	}()
	q.left -= len(q.session.Snapshot.Nodes)
	return q.isSchedulable()
}

// constraints lists what the pods could do without, each once.
func (q *search) constraints(firsts []*model.Task) []PodConstraint {
	var all []PodConstraint
	add := func(words string, drop func(*corev1.PodSpec)) {
		same := func(wish PodConstraint) bool { return wish.words == words }
		if !slices.ContainsFunc(all, same) {
			all = append(all, PodConstraint{words: words, drop: drop})
		}
	}
	for _, task := range firsts[:min(len(firsts), mostWishes)] {
		spec := &task.Pod.Spec
		for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
			add(fmt.Sprintf("drop %s=%s from the pods' node selector", key, spec.NodeSelector[key]), withoutSelector(key))
		}
		if spec.Affinity != nil {
			nodeConstraints(spec.Affinity.NodeAffinity, add)
			podConstraints(spec.Affinity, add)
		}
		for i := range spec.TopologySpreadConstraints {
			if c := &spec.TopologySpreadConstraints[i]; c.WhenUnsatisfiable == corev1.DoNotSchedule {
				add(fmt.Sprintf("drop the pods' topology spread constraint over %s", c.TopologyKey), withoutSpread(c.TopologyKey))
			}
		}
	}
	for _, taints := range q.taints(firsts) {
		add("let the pods tolerate "+listed(taintWords(taints)), tolerating(taints))
	}
	return all
}

func withoutSelector(key string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.NodeSelector = maps.Clone(spec.NodeSelector)
		delete(spec.NodeSelector, key)
	}
}

func withoutSpread(key string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.TopologySpreadConstraints = slices.DeleteFunc(slices.Clone(spec.TopologySpreadConstraints), func(c corev1.TopologySpreadConstraint) bool {
			return c.TopologyKey == key && c.WhenUnsatisfiable == corev1.DoNotSchedule
		})
	}
}

// nodeConstraints lists the requirements of required node affinity, each to be dropped from all terms.
func nodeConstraints(affinity *corev1.NodeAffinity, add func(string, func(*corev1.PodSpec))) {
	if affinity == nil || affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	for _, term := range affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, requirement := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			text := requirementWords(&requirement)
			add(fmt.Sprintf("drop %q from the pods' node affinity", text), withoutRequirement(text))
		}
	}
}

// requirementWords writes "rack in (a,b)".
func requirementWords(r *corev1.NodeSelectorRequirement) string {
	words := r.Key + " " + strings.ToLower(string(r.Operator))
	if len(r.Values) > 0 {
		words += " (" + strings.Join(r.Values, ",") + ")"
	}
	return words
}

func withoutRequirement(text string) func(*corev1.PodSpec) {
	is := func(r corev1.NodeSelectorRequirement) bool { return requirementWords(&r) == text }
	return func(spec *corev1.PodSpec) {
		if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil ||
			spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			return
		}
		spec.Affinity = spec.Affinity.DeepCopy()
		required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		for i := range required.NodeSelectorTerms {
			term := &required.NodeSelectorTerms[i]
			term.MatchExpressions, term.MatchFields = slices.DeleteFunc(term.MatchExpressions, is), slices.DeleteFunc(term.MatchFields, is)
			if len(term.MatchExpressions)+len(term.MatchFields) == 0 { // an empty term would match no node
				spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
				return
			}
		}
	}
}

// podConstraints lists the terms of required affinity and anti-affinity to other pods.
func podConstraints(affinity *corev1.Affinity, add func(string, func(*corev1.PodSpec))) {
	if affinity.PodAffinity != nil {
		for _, term := range affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			text := termWords(&term)
			add("drop the pods' affinity to "+text, withoutTerm(text, func(a *corev1.Affinity) *[]corev1.PodAffinityTerm {
				if a.PodAffinity == nil {
					return nil
				}
				return &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			}))
		}
	}
	if affinity.PodAntiAffinity != nil {
		for _, term := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			text := termWords(&term)
			add("drop the pods' anti-affinity to "+text, withoutTerm(text, func(a *corev1.Affinity) *[]corev1.PodAffinityTerm {
				if a.PodAntiAffinity == nil {
					return nil
				}
				return &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			}))
		}
	}
}

// termWords writes "app=x on the same rack".
func termWords(term *corev1.PodAffinityTerm) string {
	return metav1.FormatLabelSelector(term.LabelSelector) + " on the same " + term.TopologyKey
}

func withoutTerm(text string, terms func(*corev1.Affinity) *[]corev1.PodAffinityTerm) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		if spec.Affinity == nil || terms(spec.Affinity) == nil {
			return
		}
		spec.Affinity = spec.Affinity.DeepCopy()
		list := terms(spec.Affinity)
		*list = slices.DeleteFunc(*list, func(term corev1.PodAffinityTerm) bool { return termWords(&term) == text })
	}
}

// taints lists the sets of taints that keep one of the pods off nodes and that are no sign of trouble; the fewest taints
// first, those of most nodes before others.
func (q *search) taints(firsts []*model.Task) [][]corev1.Taint {
	sets, nodes := map[string][]corev1.Taint{}, map[string]int{}
	for _, first := range firsts[:min(len(firsts), 2)] {
		q.left -= len(q.session.Snapshot.Nodes)
		for _, node := range q.session.Snapshot.Nodes {
			taints, trouble := untolerated(first.Pod, node.Object)
			if len(taints) > 0 && !trouble {
				words := listed(taintWords(taints))
				sets[words] = taints
				nodes[words]++
			}
		}
	}
	words := slices.SortedFunc(maps.Keys(sets), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(sets[a]), len(sets[b])), cmp.Compare(nodes[b], nodes[a]), cmp.Compare(a, b))
	})
	var sorted [][]corev1.Taint
	for _, one := range words {
		sorted = append(sorted, sets[one])
	}
	return sorted
}

// untolerated returns the taints of a node that keep the pod off it; trouble reports that Kubernetes itself has put one
// there, since the node is not well, or is cordoned.
func untolerated(pod *corev1.Pod, node *corev1.Node) (taints []corev1.Taint, trouble bool) {
	if node == nil {
		return nil, false
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &taint) }) {
			continue
		}
		domain, _, _ := strings.Cut(taint.Key, "/")
		trouble = trouble || domain == "node.kubernetes.io" || domain == "node.cloudprovider.kubernetes.io"
		taints = append(taints, taint)
	}
	slices.SortFunc(taints, func(a, b corev1.Taint) int { return cmp.Compare(a.ToString(), b.ToString()) })
	return taints, trouble || node.Spec.Unschedulable
}

// tolerates leaves comparisons of numbers aside, which some clusters know: what is taken for untolerated by mistake is only
// tried.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	switch {
	case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
		return false
	case t.Operator == corev1.TolerationOpExists:
		return true
	}
	return (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Key != "" && t.Value == taint.Value
}

func taintWords(taints []corev1.Taint) []string {
	var words []string
	for i := range taints {
		words = append(words, taints[i].ToString())
	}
	return words
}

func tolerating(taints []corev1.Taint) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Tolerations = slices.Clone(spec.Tolerations)
		for _, taint := range taints {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
				Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect,
			})
		}
	}
}
