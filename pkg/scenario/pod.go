package scenario

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// draft is a pod that is being read from a line.
type draft struct {
	pod                     *corev1.Pod
	requests, initial, over corev1.ResourceList
}

func newPod(words []word) (*corev1.Pod, error) {
	d := &draft{
		pod:      &corev1.Pod{},
		requests: corev1.ResourceList{}, initial: corev1.ResourceList{}, over: corev1.ResourceList{},
	}
	d.pod.Labels, d.pod.Annotations = map[string]string{}, map[string]string{}
	d.pod.Spec.SchedulerName = "tutti"
	d.pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	d.pod.Status.Phase = corev1.PodPending
	for _, w := range words {
		if err := d.read(w); err != nil {
			return nil, err
		}
	}
	d.pod.Spec.Containers[0].Resources.Requests = d.requests
	if len(d.initial) > 0 {
		d.pod.Spec.InitContainers = []corev1.Container{{
			Name: "init", Resources: corev1.ResourceRequirements{Requests: d.initial},
		}}
	}
	if len(d.over) > 0 {
		d.pod.Spec.Overhead = d.over
	}
	return d.pod, nil
}

func (d *draft) read(w word) error {
	if done, err := d.readIdentity(w); done || err != nil {
		return err
	}
	if done, err := d.readPlacement(w); done || err != nil {
		return err
	}
	if key, found := strings.CutPrefix(w.key, "init."); found {
		return amount(d.initial, word{key, w.value})
	}
	if key, found := strings.CutPrefix(w.key, "overhead."); found {
		return amount(d.over, word{key, w.value})
	}
	return amount(d.requests, w)
}

// readIdentity reads who the pod is and where it stands.
func (d *draft) readIdentity(w word) (done bool, err error) {
	pod := d.pod
	switch w.key {
	case "group":
		pod.Labels[v1alpha1.LabelPodGroup] = w.value
	case "role":
		pod.Labels[v1alpha1.LabelRole] = w.value
	case "labels", "annotations":
		into := pod.Labels
		if w.key == "annotations" {
			into = pod.Annotations
		}
		var more map[string]string
		more, err = pairs(w.value)
		for key, value := range more {
			into[key] = value
		}
	case "priority":
		var n int32
		n, err = number(w)
		pod.Spec.Priority = &n
	case "class":
		pod.Spec.PriorityClassName = w.value
	case "scheduler":
		pod.Spec.SchedulerName = w.value
	case "node":
		pod.Spec.NodeName = w.value
	case "phase":
		pod.Status.Phase = corev1.PodPhase(w.value)
	case "gates":
		for _, name := range strings.Split(w.value, ",") {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
	case "age":
	default:
		return false, nil
	}
	return true, err
}

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
	case "image":
		spec.Containers[0].Image = w.value
	case "ports":
		for _, text := range strings.Split(w.value, ",") {
			var port int32
			port, err = number(word{w.key, text})
			spec.Containers[0].Ports = append(spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: port, HostPort: port})
		}
	case "claim":
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: w.value, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: w.value},
		}})
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

// affinity reads label=value@topology: required (affinity, anti) or preferred (near, apart).
func (d *draft) affinity(kind, text string) error {
	about, topology, found := strings.Cut(text, "@")
	if !found {
		return fmt.Errorf("%s: %q is not label=value@topology", kind, text)
	}
	match, err := pairs(about)
	term := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: match}, TopologyKey: topology}
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

// spread reads label=value@topology:skew.
func (d *draft) spread(text string) error {
	about, where, found := strings.Cut(text, "@")
	topology, skew, also := strings.Cut(where, ":")
	if !found || !also {
		return fmt.Errorf("spread: %q is not label=value@topology:skew", text)
	}
	match, err := pairs(about)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(skew, 10, 32)
	d.pod.Spec.TopologySpreadConstraints = append(d.pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
		MaxSkew: int32(n), TopologyKey: topology, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: match},
	})
	return err
}
