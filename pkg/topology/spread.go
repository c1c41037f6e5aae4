package topology

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// spreads are the topology spread constraints of pods whose constraints are written alike and mean the same.
type spreads struct {
	hard, soft constraints
	// used is the last session in which a pod with these constraints was looked at.
	used uint64
}

// constraints are those of one strength.
type constraints struct {
	// err says that one is invalid; then none counts.
	err error
	all []constraint
}

// constraint is one topology spread constraint.
type constraint struct {
	key                 string
	maxSkew, minDomains int64
	// pods are those that are counted, by whatever labels. Terminating ones are not.
	pods labels.Selector
	// selected is the same for a table. A selector of all pods matches none there, as in kube-scheduler.
	selected *podSet
	// included are the nodes that count.
	included nodeInclusion
}

// nodeInclusion says which nodes a constraint includes.
type nodeInclusion struct {
	// id is equal exactly for those that include the same nodes.
	id string
	// keys are the labels that a node must have.
	keys []string
	// affinity and tolerations are those of the pod.
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	// fits and tolerated report whether the pod's affinity and tolerations count.
	fits, tolerated bool
}

// includes reports whether a node counts.
func (g *nodeInclusion) includes(node *corev1.Node) bool {
	for _, name := range g.keys {
		if _, ok := node.Labels[name]; !ok {
			return false
		}
	}
	if g.fits {
		// A term that cannot be read matches nothing, as it does for kube-scheduler.
		if match, _ := g.affinity.Match(node); !match {
			return false
		}
	}
	if !g.tolerated {
		return true
	}
	_, repels := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, g.tolerations,
		func(taint *corev1.Taint) bool {
			return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
		}, false)
	return !repels
}

// eligibleNodes is a nodeInclusion, evaluated for every slot.
type eligibleNodes struct {
	included nodeInclusion
	has      []bool
	// used is the last session in which it was asked for.
	used uint64
}

func (a *eligibleNodes) enter(slot int32, node *corev1.Node) {
	for len(a.has) <= int(slot) {
		a.has = append(a.has, false)
	}
	a.has[slot] = a.included.includes(node)
}

// among returns the slots that are included.
func (x *Index) among(g *nodeInclusion) *eligibleNodes {
	a := x.eligible[g.id]
	if a == nil {
		a = &eligibleNodes{included: *g, has: make([]bool, len(x.slots))}
		x.eligible[g.id] = a
		x.kept += weight(g.id)
		for i := range x.slots {
			if x.slots[i].node != nil {
				a.enter(int32(i), x.slots[i].object)
			}
		}
	}
	a.used = x.session
	return a
}

// spreadsOf returns the constraints of the pod, nil when it has none.
func (x *Index) spreadsOf(pod *corev1.Pod) *spreads {
	written := pod.Spec.TopologySpreadConstraints
	if len(written) == 0 {
		return nil
	}
	id := strings.Builder{}
	id.WriteString(pod.Namespace)
	for i := range written {
		for _, name := range written[i].MatchLabelKeys {
			if value, ok := pod.Labels[name]; ok {
				fmt.Fprintf(&id, "\x00%q=%q", name, value)
			}
		}
	}
	id.WriteByte(0)
	where := encodeNodeConstraints(pod)
	id.WriteString(where)
	list := corev1.PodSpec{TopologySpreadConstraints: written}
	text, err := list.Marshal()
	id.Write(text)
	if known := x.spreads[id.String()]; known != nil && err == nil {
		known.used = x.session
		return known
	}
	s := &spreads{used: x.session}
	s.hard = x.readConstraints(pod, written, corev1.DoNotSchedule, where)
	s.soft = x.readConstraints(pod, written, corev1.ScheduleAnyway, where)
	if err == nil {
		x.spreads[id.String()] = s
		x.kept += weight(id.String())
	}
	return s
}

// encodeNodeConstraints encodes everything about the pod that a nodeInclusion may depend on.
func encodeNodeConstraints(pod *corev1.Pod) string {
	spec := corev1.PodSpec{NodeSelector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	text, err := spec.Marshal()
	if err != nil {
		return "pod " + string(pod.UID) // marshalling a spec does not fail; if it does, the pod is not shared with others
	}
	return string(text)
}

// readConstraints reads those constraints of one strength. All their keys must be there for a node to count.
func (x *Index) readConstraints(
	pod *corev1.Pod, written []corev1.TopologySpreadConstraint, strength corev1.UnsatisfiableConstraintAction, where string,
) constraints {
	var list constraints
	var keys []string
	for i := range written {
		if written[i].WhenUnsatisfiable == strength {
			keys = append(keys, written[i].TopologyKey)
		}
	}
	for i := range written {
		if written[i].WhenUnsatisfiable != strength {
			continue
		}
		pods, err := spreadPods(pod, &written[i])
		if err != nil {
			return constraints{err: err}
		}
		c := newConstraint(pod, &written[i], pods)
		c.included.keys = keys
		c.included.name(where)
		x.learn(pods)
		list.all = append(list.all, c)
	}
	return list
}

func newConstraint(pod *corev1.Pod, written *corev1.TopologySpreadConstraint, pods labels.Selector) constraint {
	c := constraint{
		key: written.TopologyKey, maxSkew: int64(written.MaxSkew), minDomains: 1, pods: pods,
		included: nodeInclusion{
			affinity: nodeaffinity.GetRequiredNodeAffinity(pod), tolerations: pod.Spec.Tolerations,
			fits:      written.NodeAffinityPolicy == nil || *written.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
			tolerated: written.NodeTaintsPolicy != nil && *written.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		},
	}
	if written.MinDomains != nil {
		c.minDomains = int64(*written.MinDomains)
	}
	c.selected = newPodSet(false, podSelector{namespaces: []string{pod.Namespace}, pods: pods})
	c.selected.matchesNothing = pods.Empty()
	return c
}

// name sets the id; where encodes the pod's part of it.
func (g *nodeInclusion) name(where string) {
	if !g.fits && !g.tolerated {
		where = ""
	}
	g.id = fmt.Sprintf("%q %t %t %s", g.keys, g.fits, g.tolerated, where)
}

// spreadPods returns which pods a constraint counts: those of its selector that agree with the pod in the labels it names.
func spreadPods(pod *corev1.Pod, written *corev1.TopologySpreadConstraint) (labels.Selector, error) {
	pods, err := metav1.LabelSelectorAsSelector(written.LabelSelector)
	if err != nil {
		return nil, err
	}
	agreed := labels.Set{}
	for _, name := range written.MatchLabelKeys {
		if value, ok := pod.Labels[name]; ok {
			agreed[name] = value
		}
	}
	requirements, selectable := pods.Requirements()
	if len(agreed) == 0 || !selectable {
		return pods, nil
	}
	return labels.SelectorFromSet(maps.Clone(agreed)).Add(requirements...), nil
}

// defaultsOf returns the constraints of a pod that is spread by default.
func (x *Index) defaultsOf(pod *corev1.Pod, pods labels.Selector) constraints {
	where := encodeNodeConstraints(pod)
	id := fmt.Sprintf("default\x00%s\x00%s\x00%s", pod.Namespace, pods, where)
	s := x.spreads[id]
	if s == nil {
		s = &spreads{}
		for _, written := range []corev1.TopologySpreadConstraint{
			{TopologyKey: corev1.LabelHostname, MaxSkew: 3}, {TopologyKey: corev1.LabelTopologyZone, MaxSkew: 5},
		} {
			c := newConstraint(pod, &written, pods)
			c.included.name(where)
			s.soft.all = append(s.soft.all, c)
		}
		x.learn(pods)
		x.spreads[id] = s
		x.kept += weight(id)
	}
	s.used = x.session
	return s.soft
}
