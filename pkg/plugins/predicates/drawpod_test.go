package predicates_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wishes are the constraints that a pod may have, each drawn on its own.
func wishes() []func(dice, *corev1.Pod) {
	return []func(dice, *corev1.Pod){
		wishLabels, wishNodes, wishNodes, wishNames, wishTolerations, wishPorts, wishPorts, wishPorts, wishPorts, wishFeatures, wishRoom, wishRoom,
		wishInit, wishWhole, wishSpread, wishSpread, wishNeighbours, wishNeighbours, wishDisks, wishClaims, wishClaims,
		wishClaims, wishScratch, wishDevices, wishDevices, wishExtended,
	}
}

// pod draws a pod with a few constraints; on is its node, empty for one that waits.
func (d dice) pod(name, on string, few int) *corev1.Pod {
	p := newPod(name, func(p *corev1.Pod) {
		p.Namespace = pick(d, "default", "default", "default", "other", "bare")
		p.Labels = map[string]string{"app": d.app(), "version": pick(d, "1", "2")}
		p.Spec.SchedulerName, p.Spec.NodeName = "tutti", on
		p.Spec.Containers[0].Resources.Requests = d.requests()
		p.Status.Phase = corev1.PodPending
	})
	if d.oneIn(4) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	all := wishes()
	for range few {
		all[d.IntN(len(all))](d, p)
	}
	if on != "" {
		d.run(p)
	}
	return p
}

// run draws the state of a pod with a node: running, resized, or terminating.
func (d dice) run(p *corev1.Pod) {
	if d.oneIn(3) {
		p.Spec.SchedulerName = "other-scheduler"
	}
	d.status(p)
}

func (d dice) status(p *corev1.Pod) {
	p.Status.ContainerStatuses, p.Status.Conditions = nil, nil
	p.Status.Phase = pick(d, corev1.PodPending, corev1.PodRunning, corev1.PodRunning)
	if d.oneIn(8) {
		ends := metav1.NewTime(start.Add(time.Hour))
		p.DeletionTimestamp = &ends
	}
	if !d.oneIn(4) {
		return
	}
	granted := corev1.ResourceRequirements{Requests: d.requests()}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", AllocatedResources: d.requests(), Resources: &granted,
	}}
	if d.oneIn(2) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: pick(d, corev1.PodReasonInfeasible, corev1.PodReasonDeferred),
		}}
	}
}

func wishLabels(d dice, p *corev1.Pod) {
	p.Spec.NodeSelector = map[string]string{"disk": pick(d, "ssd", "hdd")}
	if d.oneIn(3) {
		p.Spec.NodeSelector[corev1.LabelTopologyZone] = d.zone()
	}
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

// wishNodes is node affinity with all operators; terms that are empty, or that no node can meet, are possible.
func wishNodes(d dice, p *corev1.Pod) {
	var terms []corev1.NodeSelectorTerm
	for range 1 + d.IntN(2) {
		var term corev1.NodeSelectorTerm
		for range d.IntN(3) {
			term.MatchExpressions = append(term.MatchExpressions, d.nodeRequirement())
		}
		if len(term.MatchExpressions) == 0 || d.oneIn(5) {
			term.MatchFields = []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{d.nodeName()},
			}}
		}
		terms = append(terms, term)
	}
	if d.oneIn(20) {
		terms = append(terms, corev1.NodeSelectorTerm{})
	}
	affinityOf(p).NodeAffinity = &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}
	if d.oneIn(3) {
		p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{d.nodeRequirement()}}},
		}
	}
}

func (d dice) nodeRequirement() corev1.NodeSelectorRequirement {
	r := corev1.NodeSelectorRequirement{Key: pick(d, "disk", "cores", "rack", corev1.LabelTopologyZone)}
	switch r.Operator = pick(d, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
		corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt); r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		r.Values = []string{pick(d, "ssd", "8", "r0", "z0"), pick(d, "hdd", "16", "r1", "z1")}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		r.Key, r.Values = "cores", []string{pick(d, "7", "8", "20")}
	}
	return r
}

func wishNames(d dice, p *corev1.Pod) {
	in := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
		Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{d.nodeName()},
	}}}
	terms := []corev1.NodeSelectorTerm{in}
	if d.oneIn(2) {
		more := *in.DeepCopy()
		more.MatchFields[0].Values = []string{d.nodeName()}
		terms = append(terms, more)
	}
	affinityOf(p).NodeAffinity = &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}
}

func wishTolerations(d dice, p *corev1.Pod) {
	for range 1 + d.IntN(3) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, pick(d,
			corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: pick(d, "0", "1")},
			corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
			corev1.Toleration{Key: "gpu", Effect: corev1.TaintEffectNoExecute, Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "gpu", Value: "0"},
			corev1.Toleration{Key: "level", Operator: corev1.TolerationOpGt, Value: "3"},
			corev1.Toleration{Key: "level", Operator: corev1.TolerationOpLt, Value: "6", Effect: corev1.TaintEffectNoExecute},
			corev1.Toleration{Key: "level", Operator: corev1.TolerationOpExists},
			corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists},
		))
	}
}

func wishPorts(d dice, p *corev1.Pod) {
	port := corev1.ContainerPort{
		ContainerPort: 80, HostPort: pick(d, int32(8080), 8080, 8080, 9090, 0),
		Protocol: pick(d, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, ""),
		HostIP:   pick(d, "", "", "", "0.0.0.0", "10.0.0.1", "10.0.0.2"),
	}
	always := corev1.ContainerRestartPolicyAlways
	switch d.IntN(6) {
	case 0:
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
			Name: "port", RestartPolicy: &always, Ports: []corev1.ContainerPort{port},
		})
	case 1:
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "port", Ports: []corev1.ContainerPort{port}})
	default:
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, port)
	}
}

// wishFeatures requires features that a kubelet must declare.
func wishFeatures(d dice, p *corev1.Pod) {
	no := false
	switch d.IntN(3) {
	case 0:
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestartAllContainers,
		}}
	case 1:
		p.Spec.HostNetwork, p.Spec.HostUsers = true, &no
	default:
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
			Name: "mount", VolumeMounts: []corev1.VolumeMount{{Name: "a", BindMountOptions: []string{"noexec"}}},
		})
	}
}

func wishRoom(d dice, p *corev1.Pod) {
	list := p.Spec.Containers[0].Resources.Requests
	for name, amount := range pick(d,
		amounts(string(gpu), pick(d, "1", "2", "4")), amounts("hugepages-2Mi", pick(d, "2Mi", "16Mi")),
		amounts("ephemeral-storage", pick(d, "500Mi", "2Gi")), amounts("example.com/fpga", "1"),
		amounts("cpu", pick(d, "2", "3", "5")), amounts("memory", pick(d, "3Gi", "9Gi")), amounts(string(gpu), "0"),
	) {
		list[name] = amount
	}
	if d.oneIn(3) {
		p.Spec.Overhead = amounts("cpu", "250m", "memory", "128Mi")
	}
}

func wishInit(d dice, p *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	for i := range 1 + d.IntN(3) {
		c := corev1.Container{Name: fmt.Sprint("init", i), Resources: corev1.ResourceRequirements{
			Requests: amounts("cpu", pick(d, "", "500m", "2", "3"), "memory", pick(d, "", "2Gi"), string(gpu), pick(d, "", "", "1")),
		}}
		if d.oneIn(2) {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if d.oneIn(2) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: "second", Resources: corev1.ResourceRequirements{Requests: d.requests()},
		})
	}
}

// wishWhole adds pod-level requests.
func wishWhole(d dice, p *corev1.Pod) {
	p.Spec.Resources = &corev1.ResourceRequirements{
		Requests: amounts("cpu", pick(d, "", "1", "3"), "memory", pick(d, "", "2Gi", "5Gi"), "hugepages-2Mi", pick(d, "", "", "4Mi")),
	}
	if d.oneIn(2) {
		p.Spec.Overhead = amounts("cpu", "250m", "memory", "128Mi")
	}
}

func wishSpread(d dice, p *corev1.Pod) {
	honour := []*corev1.NodeInclusionPolicy{nil}
	for _, policy := range []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore} {
		honour = append(honour, &policy)
	}
	for range 1 + d.IntN(2) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: int32(1 + d.IntN(2)), TopologyKey: d.topology(),
			WhenUnsatisfiable:  pick(d, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
			NodeAffinityPolicy: pick(d, honour...), NodeTaintsPolicy: pick(d, honour...),
			LabelSelector: d.selector(),
		}
		if d.oneIn(3) && c.WhenUnsatisfiable == corev1.DoNotSchedule {
			least := int32(1 + d.IntN(4))
			c.MinDomains = &least
		}
		if d.oneIn(4) {
			c.MatchLabelKeys = []string{"version"}
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// selector draws a selector of pods, nil at times, which selects none; now and then one that no label can match, which older
// API servers accept.
func (d dice) selector() *metav1.LabelSelector {
	if d.oneIn(80) {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "not a label"}}
	}
	switch d.IntN(6) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return nil
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: pick(d, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{"x", "y"},
		}}}
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": d.app()}}
	}
}

// wishNeighbours is affinity and anti-affinity, required and preferred.
func wishNeighbours(d dice, p *corev1.Pod) {
	affinity := affinityOf(p)
	if !d.oneIn(3) {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
		for range 1 + d.IntN(2) {
			required := &affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			*required = append(*required, d.term())
		}
	}
	if d.oneIn(2) {
		affinity.PodAffinity = &corev1.PodAffinity{}
		for range 1 + d.IntN(2) {
			required := &affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			*required = append(*required, d.term())
		}
	}
	if d.oneIn(4) {
		affinity.PodAffinity = &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: d.term()}},
		}
	}
}

func (d dice) term() corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{LabelSelector: d.selector(), TopologyKey: d.topology()}
	if d.oneIn(8) {
		term.MatchLabelKeys = []string{"version"}
	}
	switch d.IntN(6) {
	case 0:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(d, "a", "b")}}
	case 2:
		term.Namespaces = []string{"other"}
	case 3:
		term.Namespaces = []string{"bare"}
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	}
	return term
}
