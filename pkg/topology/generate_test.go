package topology_test

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// draw is a source of random objects. It uses few names, so that they match often.
type draw struct {
	t    *rapid.T
	pods int
}

func (d *draw) one(label string, choices ...string) string {
	return rapid.SampledFrom(choices).Draw(d.t, label)
}

func (d *draw) upTo(label string, n int) int { return rapid.IntRange(0, n).Draw(d.t, label) }

// rarely is true once in so many times.
func (d *draw) rarely(label string, n int) bool { return d.upTo(label, n-1) == n-1 }

func (d *draw) namespace() string { return d.one("namespace", "a", "b", "c") }

// namespaceObject has labels that namespace selectors use.
func (d *draw) namespaceObject(name string) *corev1.Namespace {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !d.rarely("bare", 3) {
		object.Labels = map[string]string{"team": d.one("team", "red", "blue")}
	}
	return object
}

func (d *draw) node(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range []string{corev1.LabelHostname, corev1.LabelTopologyZone, "rack"} {
		value := d.one(label, "1", "2", "3", "")
		if label == corev1.LabelHostname && !d.rarely("shared", 4) {
			value = name
		}
		if !d.rarely("missing", 6) {
			node.Labels[label] = value
		}
	}
	if d.rarely("tainted", 3) {
		node.Spec.Taints = []corev1.Taint{{
			Key: "gpu", Value: d.one("taint", "1", "2"),
			Effect: corev1.TaintEffect(d.one("effect", "NoSchedule", "NoExecute", "PreferNoSchedule")),
		}}
	}
	return node
}

func (d *draw) pod() *corev1.Pod {
	d.pods++
	name := fmt.Sprint("p", d.pods)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: d.namespace(), UID: types.UID(name), Labels: map[string]string{"index": name},
	}}
	for _, label := range []string{"app", "tier"} {
		if !d.rarely("no label", 4) {
			pod.Labels[label] = d.one(label, "x", "y", "z")
		}
	}
	if d.rarely("deleted", 6) {
		pod.DeletionTimestamp = &metav1.Time{}
	}
	if d.rarely("owned", 4) {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", Controller: &yes}}
	}
	d.affinity(pod)
	for range max(0, d.upTo("constraints", 4)-1) {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, d.constraint())
	}
	d.whereabouts(pod)
	return pod
}

// service selects some pods of a namespace; it is one of two there.
func (d *draw) service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: d.one("service", "s", "t"), Namespace: d.namespace()},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{d.one("label", "app", "tier"): d.one("value", "x", "y")}},
	}
}

// replicas is the controller of the owned pods of a namespace.
func (d *draw) replicas() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: d.namespace()},
		Spec:       appsv1.ReplicaSetSpec{Selector: d.selector()},
	}
}

func (d *draw) whereabouts(pod *corev1.Pod) {
	if d.rarely("selector", 5) {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: d.one("zone", "1", "2")}
	}
	if d.rarely("tolerates", 4) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Value: d.one("taint", "1", "2")}}
	}
	if d.rarely("node affinity", 6) {
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{}
		}
		term := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{d.one("node", "n0", "n1", "n2")},
		}}}
		if d.rarely("unreadable", 5) {
			term.MatchFields[0].Operator = "Bogus"
		}
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}
	}
}

func (d *draw) affinity(pod *corev1.Pod) {
	var with, apart []corev1.PodAffinityTerm
	var near, far []corev1.WeightedPodAffinityTerm
	if d.rarely("with", 3) {
		with = d.terms()
	}
	if d.rarely("apart", 3) {
		apart = d.terms()
	}
	if d.rarely("near", 3) {
		near = d.weighted()
	}
	if d.rarely("far", 3) {
		far = d.weighted()
	}
	if len(with)+len(apart)+len(near)+len(far) == 0 {
		return
	}
	pod.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: with, PreferredDuringSchedulingIgnoredDuringExecution: near,
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: apart, PreferredDuringSchedulingIgnoredDuringExecution: far,
		},
	}
}

func (d *draw) terms() (terms []corev1.PodAffinityTerm) {
	for range 1 + d.upTo("terms", 1) {
		terms = append(terms, d.term())
	}
	return terms
}

func (d *draw) weighted() (terms []corev1.WeightedPodAffinityTerm) {
	for range 1 + d.upTo("terms", 1) {
		terms = append(terms, corev1.WeightedPodAffinityTerm{
			Weight: int32(1 + d.upTo("weight", 99)), PodAffinityTerm: d.term(),
		})
	}
	return terms
}

func (d *draw) key() string {
	return d.one("key", corev1.LabelHostname, corev1.LabelTopologyZone, "rack", corev1.LabelTopologyZone, "nowhere")
}

func (d *draw) term() corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{LabelSelector: d.selector(), TopologyKey: d.key()}
	switch d.upTo("namespaces", 7) {
	case 0:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": d.one("team", "red", "blue")}}
	case 2:
		term.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"red"},
		}}}
		term.Namespaces = []string{d.namespace()}
	case 3:
		term.Namespaces = []string{d.namespace(), d.namespace()}
	}
	return term
}

func (d *draw) selector() *metav1.LabelSelector {
	label := d.one("label", "app", "tier")
	expression := metav1.LabelSelectorRequirement{Key: label}
	switch d.upTo("selector", 12) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		expression.Operator, expression.Values = metav1.LabelSelectorOpIn, []string{"x", d.one("value", "y", "z")}
	case 3:
		expression.Operator, expression.Values = metav1.LabelSelectorOpNotIn, []string{d.one("value", "y", "z")}
	case 4:
		expression.Operator = metav1.LabelSelectorOpExists
	case 5:
		expression.Operator = metav1.LabelSelectorOpDoesNotExist
	case 6:
		if d.rarely("senseless", 4) {
			expression.Operator = "Bogus"
			break
		}
		fallthrough
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{label: d.one("value", "x", "y", "z")}}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{expression}}
}

func (d *draw) constraint() corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + d.upTo("skew", 2)), TopologyKey: d.key(), LabelSelector: d.selector(),
		WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(d.one("when", "DoNotSchedule", "ScheduleAnyway")),
	}
	if d.rarely("minimum", 4) {
		least := int32(d.upTo("domains", 4))
		c.MinDomains = &least
	}
	policy := func(label string) *corev1.NodeInclusionPolicy {
		if !d.rarely(label, 3) {
			return nil
		}
		p := corev1.NodeInclusionPolicy(d.one("policy", "Honor", "Ignore"))
		return &p
	}
	c.NodeAffinityPolicy, c.NodeTaintsPolicy = policy("affinity policy"), policy("taints policy")
	if d.rarely("match keys", 4) {
		c.MatchLabelKeys = []string{d.one("match key", "app", "tier", "index", "none")}
	}
	return c
}
