package openb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

const (
	// namespace is where the gangs are.
	namespace = "openb"
	// gpuResource and modelLabel are what NVIDIA's device plugin and feature discovery call them.
	gpuResource = "nvidia.com/gpu"
	modelLabel  = "nvidia.com/gpu.product"
)

// Gang is as many members of one shape.
type Gang struct {
	Name  string
	Size  int
	Shape Shape
}

// Workload is what is created.
type Workload struct {
	Nodes []Node
	Gangs []Gang
	// Offered and Asked are GPUs.
	Offered, Asked int64
	// Pods is how many members all gangs have together, Shared how many of them had asked for a share of a GPU, and
	// Constrained how many for certain models.
	Pods, Shared, Constrained int
}

// Compose gives the next gang of Philly the shape of the next pod of openb, until the gangs ask for the given part of the
// cluster's GPUs. A trace that ends before that starts again. Seed 0 keeps the order of arrival; any other shuffles both.
func Compose(t *Trace, demand float64, seed uint64) (*Workload, error) {
	w := &Workload{Nodes: t.Nodes}
	for _, node := range t.Nodes {
		w.Offered += node.GPUs
	}
	shapes, sizes := t.Shapes, t.Sizes
	if seed != 0 {
		random := rand.New(rand.NewPCG(seed, seed))
		shapes, sizes = slices.Clone(shapes), slices.Clone(sizes)
		random.Shuffle(len(shapes), func(i, j int) { shapes[i], shapes[j] = shapes[j], shapes[i] })
		random.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	}
	if !slices.ContainsFunc(shapes, func(s Shape) bool { return s.GPUs > 0 }) {
		return nil, errors.New("workload: no pod of the trace asks for a GPU")
	}
	for i := 0; float64(w.Asked) < demand*float64(w.Offered); i++ {
		gang := Gang{Name: fmt.Sprintf("gang-%05d", i), Size: sizes[i%len(sizes)], Shape: shapes[i%len(shapes)]}
		if gang.Size < 1 {
			return nil, fmt.Errorf("workload: a gang of %d", gang.Size)
		}
		w.Gangs = append(w.Gangs, gang)
		w.Asked += int64(gang.Size) * gang.Shape.GPUs
		w.Pods += gang.Size
		if gang.Shape.Shared {
			w.Shared += gang.Size
		}
		if gang.Shape.Models != "" {
			w.Constrained += gang.Size
		}
	}
	return w, nil
}

// nodes are the trace's nodes as the API knows them. The trace does not say how many pods a node takes; it is the
// kubelet's default of 110.
func (w *Workload) nodes() []*corev1.Node {
	nodes := make([]*corev1.Node, len(w.Nodes))
	for i, n := range w.Nodes {
		room := amounts(n.MilliCPU, n.MemoryMiB, n.GPUs)
		node := cluster.Node(n.Name, nil)
		for name, amount := range room {
			node.Status.Allocatable[name], node.Status.Capacity[name] = amount, amount
		}
		if n.Model != "" {
			node.Labels[modelLabel] = n.Model
		}
		nodes[i] = node
	}
	return nodes
}

func amounts(milliCPU, memoryMiB, gpus int64) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memoryMiB<<20, resource.BinarySI),
	}
	if gpus > 0 {
		list[gpuResource] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return list
}

// groups are the gangs' PodGroups: each needs all its members.
func (w *Workload) groups() []*v1alpha1.PodGroup {
	groups := make([]*v1alpha1.PodGroup, len(w.Gangs))
	for i, gang := range w.Gangs {
		groups[i] = &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gang.Name},
			Spec:       v1alpha1.PodGroupSpec{MinMember: int32(gang.Size)},
		}
	}
	return groups
}

func (w *Workload) pods() []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, w.Pods)
	for _, gang := range w.Gangs {
		for member := range gang.Size {
			pods = append(pods, gang.pod(member))
		}
	}
	return pods
}

func (g Gang) pod(member int) *corev1.Pod {
	room := amounts(g.Shape.MilliCPU, g.Shape.MemoryMiB, g.Shape.GPUs)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%d", g.Name, member),
			Labels: map[string]string{v1alpha1.LabelPodGroup: g.Name},
		},
		Spec: corev1.PodSpec{
			SchedulerName: harness.SchedulerName,
			Affinity:      g.Shape.affinity(),
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/none",
				Resources: corev1.ResourceRequirements{Requests: room, Limits: room},
			}},
		},
	}
}

// affinity keeps a pod to the models it asks for; nil when any will do.
func (s Shape) affinity() *corev1.Affinity {
	if s.Models == "" {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: modelLabel, Operator: corev1.NodeSelectorOpIn, Values: strings.Split(s.Models, "|"),
			}}}},
		},
	}}
}
