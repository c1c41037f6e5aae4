package place

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// equivalenceClass numbers members that are interchangeable.
type equivalenceClass int

// equivalenceClasses assigns members to classes.
type equivalenceClasses struct {
	// names are the labels by which pods are distinguished; others, such as the number of a member in its job, do not matter.
	names []string
	// byShapeOnly is set when there are too many kinds: members are distinguished by role and shape alone.
	byShapeOnly bool
	ids         map[classKey]equivalenceClass
	known       map[*model.Task]equivalenceClass
}

// classKey is what members of one kind have in common.
type classKey struct {
	role  string
	shape model.Shape
	// constraints is their inter-pod affinity, and the labels that others' may select.
	constraints string
}

// newKinds classifies the members by their own terms: by what the terms require, and by the labels that they name. Where they
// select each other one by one there are as many kinds as members; then by role and shape, which orders servers before the
// workers that must be near one of them.
func newKinds(members []*model.Task) *equivalenceClasses {
	k := &equivalenceClasses{ids: map[classKey]equivalenceClass{}, known: map[*model.Task]equivalenceClass{}}
	draws := false
	for _, task := range members {
		if affectsSiblings(task) {
			k.collectLabels(task.Pod)
			draws = draws || task.Pod.Spec.Affinity != nil && task.Pod.Spec.Affinity.PodAffinity != nil
		}
	}
	if !draws {
		return k
	}
	for _, task := range members {
		if k.of(task); len(k.ids) > maxKinds {
			return &equivalenceClasses{byShapeOnly: true, ids: map[classKey]equivalenceClass{}, known: map[*model.Task]equivalenceClass{}}
		}
	}
	return k
}

// of returns the kind of a task.
func (k *equivalenceClasses) of(task *model.Task) equivalenceClass {
	if known, ok := k.known[task]; ok {
		return known
	}
	if k.byShapeOnly {
		return k.number(task, "")
	}
	return k.number(task, string(k.encode(nil, task.Pod)))
}

// number returns the kind of a task with these encoded constraints.
func (k *equivalenceClasses) number(task *model.Task, wants string) equivalenceClass {
	it := classKey{role: task.Role, shape: task.Shape, constraints: wants}
	id, ok := k.ids[it]
	if !ok {
		id = equivalenceClass(len(k.ids))
		k.ids[it] = id
	}
	k.known[task] = id
	return id
}

// maxKinds is for how many kinds of members affinity is evaluated; those past it are taken to have none.
const maxKinds = 16

// first returns the first member of each kind.
func (k *equivalenceClasses) first(members []*model.Task) []*model.Task {
	seen := map[equivalenceClass]bool{}
	var first []*model.Task
	for _, task := range members {
		if of := k.of(task); !seen[of] && len(first) < maxKinds {
			seen[of] = true
			first = append(first, task)
		}
	}
	return first
}

// collectLabels records the labels that the pod's terms and constraints name.
func (k *equivalenceClasses) collectLabels(pod *corev1.Pod) {
	for _, term := range terms(pod) {
		k.learnSelector(term.LabelSelector)
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		k.learnSelector(constraint.LabelSelector)
		for _, name := range constraint.MatchLabelKeys {
			k.learnName(name)
		}
	}
}

func (k *equivalenceClasses) learnSelector(selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for name := range selector.MatchLabels {
		k.learnName(name)
	}
	for i := range selector.MatchExpressions {
		k.learnName(selector.MatchExpressions[i].Key)
	}
}

// learnName keeps the names sorted: a selector has them in no order.
func (k *equivalenceClasses) learnName(name string) {
	if i, found := slices.BinarySearch(k.names, name); !found {
		k.names = slices.Insert(k.names, i, name)
	}
}

// encode encodes the pod's inter-pod affinity, its host ports, and the labels that matter. Every piece is preceded by its
// length, so that different pods never have the same text.
func (k *equivalenceClasses) encode(b []byte, pod *corev1.Pod) []byte {
	if affinity := pod.Spec.Affinity; affinity != nil {
		b = writePiece(b, affinity.PodAffinity, affinity.PodAffinity != nil)
		b = writePiece(b, affinity.PodAntiAffinity, affinity.PodAntiAffinity != nil)
	}
	b = append(b, '/')
	for i := range pod.Spec.TopologySpreadConstraints {
		b = writePiece(b, &pod.Spec.TopologySpreadConstraints[i], true)
	}
	b = append(b, '/')
	ports := append(hostPorts(pod.Spec.Containers), hostPorts(pod.Spec.InitContainers)...)
	for i := range ports {
		b = writePiece(b, &ports[i], true)
	}
	b = append(b, '/')
	for _, name := range k.names {
		value, ok := pod.Labels[name]
		b = writeText(b, []byte(value), ok)
	}
	return b
}

// writePiece writes an API object in its wire format, with its maps in order.
func writePiece(b []byte, piece interface{ Marshal() ([]byte, error) }, there bool) []byte {
	if !there {
		return writeText(b, nil, false)
	}
	text, _ := piece.Marshal() // into memory of the right size, which cannot fail
	return writeText(b, text, true)
}

// writeStorage writes which volumes the task's pod names, and which claims for devices unless the request says all about them.
func writeStorage(b []byte, task *model.Task) []byte {
	for i := range task.Pod.Spec.Volumes {
		b = writePiece(b, &task.Pod.Spec.Volumes[i], true)
	}
	b = append(b, '/')
	for i := 0; task.SearchesDevices() && i < len(task.Pod.Spec.ResourceClaims); i++ {
		b = writePiece(b, &task.Pod.Spec.ResourceClaims[i], true)
	}
	return b
}

func writeText(b, text []byte, there bool) []byte {
	if !there {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(append(b, 1), uint64(len(text))), text...)
}

func hostPorts(containers []corev1.Container) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for i := range containers {
		for _, port := range containers[i].Ports {
			if port.HostPort != 0 {
				ports = append(ports, port)
			}
		}
	}
	return ports
}
