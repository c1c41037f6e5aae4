package stage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// The shapes are those of kube-scheduler's own benchmark: nodes of 4 CPUs, 32 GiB and 110 pods; pods of 100m and 500 MiB.
const (
	nodeCPU, nodeMemory = "4", "32Gi"
	podCPU, podMemory   = "100m", "500Mi"
	// PerNode is how many of the pods a node has capacity for.
	PerNode = 40
)

// Nodes are as many nodes, alike.
func Nodes(count int) []*corev1.Node {
	return cluster.Nodes("node", count, map[string]string{"cpu": nodeCPU, "memory": nodeMemory})
}

// Gangs are as many gangs of as many members, all of which each needs.
type Gangs struct {
	// Prefix begins their names; First is the number of the first.
	Prefix      string
	First       int
	Count, Size int
}

func (g Gangs) names() []string {
	names := make([]string, g.Count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", g.Prefix, g.First+i)
	}
	return names
}

// Minimum is what each gang needs, by name.
func (g Gangs) Minimum() map[string]int {
	minimum := map[string]int{}
	for _, name := range g.names() {
		minimum[name] = g.Size
	}
	return minimum
}

func (g Gangs) groups() []*v1alpha1.PodGroup {
	groups := make([]*v1alpha1.PodGroup, g.Count)
	for i, name := range g.names() {
		groups[i] = &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
			Spec:       v1alpha1.PodGroupSpec{MinMember: int32(g.Size)},
		}
	}
	return groups
}

func (g Gangs) pods() []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, g.Count*g.Size)
	for _, name := range g.names() {
		for member := range g.Size {
			pods = append(pods, pod(name, member))
		}
	}
	return pods
}

func pod(group string, member int) *corev1.Pod {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(podCPU), corev1.ResourceMemory: resource.MustParse(podMemory),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: fmt.Sprintf("%s-%d", group, member),
			Labels: map[string]string{v1alpha1.LabelPodGroup: group},
		},
		Spec: corev1.PodSpec{
			SchedulerName: harness.SchedulerName,
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/none", Resources: corev1.ResourceRequirements{Requests: room},
			}},
		},
	}
}
