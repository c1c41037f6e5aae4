package scenario

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readPlacement reads where the pod wants to be.
func (d *draft) readPlacement(w word) (done bool, err error) {
	spec := &d.pod.Spec
	switch w.key {
	case "selector":
		spec.NodeSelector, err = pairs(w.value)
	case "prefer":
		err = d.prefer(w.value)
	case "tolerate":
		err = d.tolerate(w.value)
	case "affinity", "anti", "near", "apart":
		err = d.affinity(w.key, w.value)
	case "spread":
		err = d.spread(w.value)
	case "require":
		err = d.require(w.value)
	case "host":
		d.hosts(strings.Split(w.value, ","))
	default:
		return false, nil
	}
	return true, err
}

// prefer reads a label of nodes that the pod prefers.
func (d *draft) prefer(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("prefer: %q is not key=value", text)
	}
	term := corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
	}}
	affinity := d.wants()
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	preferred := &affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*preferred = append(*preferred, term)
	return nil
}

// require reads key:Operator, or key:Operator:value,value, of labels of nodes; all of a line are one term.
func (d *draft) require(text string) error {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) < 2 {
		return fmt.Errorf("require: %q is not key:Operator", text)
	}
	requirement := corev1.NodeSelectorRequirement{Key: parts[0], Operator: corev1.NodeSelectorOperator(parts[1])}
	if len(parts) == 3 {
		requirement.Values = strings.Split(parts[2], ",")
	}
	term := d.term()
	term.MatchExpressions = append(term.MatchExpressions, requirement)
	return nil
}

// hosts names the nodes that alone will do, as a DaemonSet does.
func (d *draft) hosts(names []string) {
	term := d.term()
	term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{
		Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: names,
	})
}

// term is the pod's one term of required node affinity.
func (d *draft) term() *corev1.NodeSelectorTerm {
	affinity := d.wants()
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 1)}
	}
	return &(*required).NodeSelectorTerms[0]
}

// tolerate reads key=value:Effect, key:Effect, or * for everything.
func (d *draft) tolerate(text string) error {
	if text == "*" {
		d.pod.Spec.Tolerations = append(d.pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		return nil
	}
	read, err := taints(text)
	for _, taint := range read {
		d.pod.Spec.Tolerations = append(d.pod.Spec.Tolerations, corev1.Toleration{
			Key: taint.Key, Value: taint.Value, Operator: corev1.TolerationOpEqual, Effect: taint.Effect,
		})
	}
	return err
}

func (d *draft) wants() *corev1.Affinity {
	if d.pod.Spec.Affinity == nil {
		d.pod.Spec.Affinity = &corev1.Affinity{}
	}
	return d.pod.Spec.Affinity
}

// affinity reads label=value@topology: required (affinity, anti) or preferred (near, apart). A third part says in which
// namespaces: * is all, label=value those with the label, anything else the names.
func (d *draft) affinity(kind, text string) error {
	about, where, found := strings.Cut(text, "@")
	if !found {
		return fmt.Errorf("%s: %q is not label=value@topology", kind, text)
	}
	match, err := pairs(about)
	topology, namespaces, _ := strings.Cut(where, "@")
	term := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: match}, TopologyKey: topology}
	switch {
	case namespaces == "*":
		term.NamespaceSelector = &metav1.LabelSelector{}
	case strings.Contains(namespaces, "="):
		var labels map[string]string
		labels, err = pairs(namespaces)
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: labels}
	case namespaces != "":
		term.Namespaces = strings.Split(namespaces, ",")
	}
	weighted := corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: term}
	wants := d.wants()
	if wants.PodAffinity == nil && (kind == "affinity" || kind == "near") {
		wants.PodAffinity = &corev1.PodAffinity{}
	}
	if wants.PodAntiAffinity == nil && (kind == "anti" || kind == "apart") {
		wants.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	switch kind {
	case "affinity":
		required := &wants.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*required = append(*required, term)
	case "anti":
		required := &wants.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*required = append(*required, term)
	case "near":
		preferred := &wants.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*preferred = append(*preferred, weighted)
	case "apart":
		preferred := &wants.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*preferred = append(*preferred, weighted)
	}
	return err
}

// spread reads label=value@topology:skew, and behind it, each after a colon, soft, least=DOMAINS, affinity=POLICY and
// taints=POLICY.
func (d *draft) spread(text string) error {
	about, where, found := strings.Cut(text, "@")
	words := strings.Split(where, ":")
	if !found || len(words) < 2 {
		return fmt.Errorf("spread: %q is not label=value@topology:skew", text)
	}
	match, err := pairs(about)
	if err != nil {
		return err
	}
	c := corev1.TopologySpreadConstraint{
		TopologyKey: words[0], WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: match},
	}
	if c.MaxSkew, err = number(word{"spread", words[1]}); err != nil {
		return err
	}
	for _, w := range parseWords(words[2:]) {
		policy := corev1.NodeInclusionPolicy(w.value)
		switch w.key {
		case "soft":
			c.WhenUnsatisfiable = corev1.ScheduleAnyway
		case "least":
			var least int32
			least, err = number(w)
			c.MinDomains = &least
		case "affinity":
			c.NodeAffinityPolicy = &policy
		case "taints":
			c.NodeTaintsPolicy = &policy
		default:
			err = fmt.Errorf("spread: no such word: %q", w.key)
		}
		if err != nil {
			return err
		}
	}
	d.pod.Spec.TopologySpreadConstraints = append(d.pod.Spec.TopologySpreadConstraints, c)
	return nil
}
