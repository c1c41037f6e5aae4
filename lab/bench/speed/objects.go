package speed

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// The shapes are those of kube-scheduler's own benchmark: nodes of 4 CPUs, 32 GiB and 110 pods; pods of 100m and 500 MiB.
const (
	nodeCPU, nodeMemory = "4", "32Gi"
	podCPU, podMemory   = "100m", "500Mi"
	perNode             = 40
)

func nodes(count int) []*corev1.Node {
	return cluster.Nodes("node", count, map[string]string{"cpu": nodeCPU, "memory": nodeMemory})
}

// gangs are PodGroups that need all their members, and the members.
func gangs(count, size int) ([]*v1alpha1.PodGroup, []*corev1.Pod) {
	groups := make([]*v1alpha1.PodGroup, count)
	var pods []*corev1.Pod
	for i := range groups {
		name := fmt.Sprintf("gang-%d", i)
		groups[i] = &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.PodGroupSpec{MinMember: int32(size)},
		}
		for member := range size {
			pods = append(pods, pod(name, member))
		}
	}
	return groups, pods
}

func pod(group string, member int) *corev1.Pod {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(podCPU), corev1.ResourceMemory: resource.MustParse(podMemory),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%d", group, member),
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

// audit looks at the end of it, as soon as the scheduler has also said so.
func (s *stage) audit(ctx context.Context) (*audit.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var report *audit.Report
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		state, err := audit.Read(ctx, s.cluster.Config())
		if err != nil {
			return false, err
		}
		report = audit.Audit(state, harness.SchedulerName)
		return len(report.Found[audit.Unexplained]) == 0, nil
	})
	if err != nil && report != nil {
		return report, nil // what is missing is in the report
	}
	return report, err
}
