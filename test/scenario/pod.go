package scenario

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
)

// draft is a pod that is being read from a line. What its main, its init and its sidecar container ask for, its runtime and
// the pod as a whole stand apart.
type draft struct {
	pod                                      *corev1.Pod
	requests, initial, beside, over, overall corev1.ResourceList
	// initialPorts and besidePorts are the ports of the containers that need not be there.
	initialPorts, besidePorts []corev1.ContainerPort
	// unready reports that the pod is not ready although it runs.
	unready bool
}

// setReady makes a pod ready or unready, as its kubelet does.
func setReady(pod *corev1.Pod, ready bool) {
	status := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[ready]
	others := slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	pod.Status.Conditions = append(others, corev1.PodCondition{Type: corev1.PodReady, Status: status})
}

func newPod(words []word) (*corev1.Pod, error) {
	d := &draft{
		pod:      &corev1.Pod{},
		requests: corev1.ResourceList{}, initial: corev1.ResourceList{}, beside: corev1.ResourceList{},
		over: corev1.ResourceList{}, overall: corev1.ResourceList{},
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
	d.finish()
	return d.pod, nil
}

// finish writes down what was read of the containers; a sidecar starts before the init container.
func (d *draft) finish() {
	if d.pod.Status.Phase == corev1.PodRunning {
		setReady(d.pod, !d.unready)
	}
	spec := &d.pod.Spec
	spec.Containers[0].Resources.Requests = d.requests
	always := corev1.ContainerRestartPolicyAlways
	if len(d.beside)+len(d.besidePorts) > 0 {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{
			Name: "sidecar", RestartPolicy: &always, Ports: d.besidePorts,
			Resources: corev1.ResourceRequirements{Requests: d.beside},
		})
	}
	if len(d.initial)+len(d.initialPorts) > 0 {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{
			Name: "init", Ports: d.initialPorts, Resources: corev1.ResourceRequirements{Requests: d.initial},
		})
	}
	if len(d.over) > 0 {
		spec.Overhead = d.over
	}
	if len(d.overall) > 0 {
		spec.Resources = &corev1.ResourceRequirements{Requests: d.overall}
	}
}

func (d *draft) read(w word) error {
	if done, err := d.readIdentity(w); done || err != nil {
		return err
	}
	if done, err := d.readPlacement(w); done || err != nil {
		return err
	}
	if done, err := d.readNeeds(w); done || err != nil {
		return err
	}
	if d.readIsolated(w) {
		return nil
	}
	if d.readMarks(w) {
		return nil
	}
	part, key, _ := strings.Cut(w.key, ".")
	switch part {
	case "init":
		return amount(d.initial, word{key, w.value})
	case "sidecar":
		return amount(d.beside, word{key, w.value})
	case "overhead":
		return amount(d.over, word{key, w.value})
	case "pod":
		return amount(d.overall, word{key, w.value})
	}
	return amount(d.requests, w)
}

// readMarks reads what puts the pod into a group of another project.
func (d *draft) readMarks(w word) bool {
	pod := d.pod
	switch w.key {
	case "coscheduling":
		pod.Labels[sources.LabelCoscheduling] = w.value
	case "volcano":
		pod.Annotations[v1alpha1.AnnotationKubeBatchGroup] = w.value
	case "task":
		pod.Annotations[sources.VolcanoTaskSpec] = w.value
	case "kubernetes":
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &w.value}
	case "kueue":
		pod.Labels[sources.KueueGroup] = w.value
	case "total":
		pod.Annotations[sources.KueueTotal] = w.value
	case "serving":
		pod.Annotations[sources.KueueServing] = "true"
	case "leader", "worker":
		set, index, _ := strings.Cut(w.value, "/")
		pod.Labels[sources.LWSName], pod.Labels[sources.LWSGroupIndex], pod.Labels[sources.LWSGroupKey] = set, index, "k"+index
		pod.Labels[sources.LWSWorkerIndex] = map[string]string{"leader": "0", "worker": "1"}[w.key]
	case "jobset":
		name, role, _ := strings.Cut(w.value, "/")
		pod.Labels["jobset.sigs.k8s.io/jobset-name"], pod.Labels["jobset.sigs.k8s.io/replicatedjob-name"] = name, role
	case "topology": // as that of a group
		var list []v1alpha1.TopologyConstraint
		for _, entry := range strings.Split(w.value, ",") {
			list = append(list, sharedDomain(entry))
		}
		text, _ := json.Marshal(list) // of texts and numbers
		pod.Annotations[v1alpha1.AnnotationTopology] = string(text)
	case "size":
		pod.Annotations[sources.LWSSize] = w.value
	case "revision":
		pod.Labels[sources.LWSRevision] = w.value
	case "exclusive":
		pod.Annotations[sources.LWSExclusiveTopology] = w.value
	default:
		return false
	}
	return true
}

// readIdentity reads who the pod is and where it stands.
func (d *draft) readIdentity(w word) (done bool, err error) {
	pod := d.pod
	switch w.key {
	case "group":
		pod.Labels[v1alpha1.LabelPodGroup] = w.value
	case "min":
		pod.Annotations[v1alpha1.AnnotationMinMember] = w.value
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
	case "owner":
		var controller metav1.OwnerReference
		controller, err = owner(w)
		pod.OwnerReferences = append(pod.OwnerReferences, controller)
	case "priority":
		var n int32
		n, err = number(w)
		pod.Spec.Priority = &n
	case "class":
		pod.Spec.PriorityClassName = w.value
	case "preemption":
		pod.Spec.PreemptionPolicy = new(corev1.PreemptionPolicy(w.value))
	case "nominated":
		pod.Status.NominatedNodeName = w.value
	case "scheduler":
		pod.Spec.SchedulerName = w.value
	case "node":
		pod.Spec.NodeName = w.value
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0),
		}}
	case "bound-by": // a user who created the pod on its node: the API server does not mark such a pod
		pod.Status.Conditions = nil
	case "phase":
		pod.Status.Phase = corev1.PodPhase(w.value)
	case "unready":
		d.unready = true
	case "gates":
		for _, name := range strings.Split(w.value, ",") {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
		}
	case "grace":
		pod.Spec.TerminationGracePeriodSeconds, err = seconds(w)
	case "deadline":
		pod.Spec.ActiveDeadlineSeconds, err = seconds(w)
	case "age":
	default:
		return false, nil
	}
	return true, err
}
