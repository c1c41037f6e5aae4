package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/cluster"
)

// gangKind is one way in which pods are said to start together.
type gangKind struct {
	name string
	// object is what says how many there are; nil when the pods say all.
	object func(namespace, name string, size int) client.Object
	// mark makes a pod a member, the first when i is 0.
	mark func(pod *corev1.Pod, gang string, size, i int)
}

// ourKind is PodGroups of ours.
func ourKind() *gangKind {
	return &gangKind{
		name:   "tutti",
		object: func(namespace, name string, size int) client.Object { return group(namespace, name, int32(size)) },
		mark:   func(pod *corev1.Pod, gang string, _, _ int) { pod.Labels[v1alpha1.LabelPodGroup] = gang },
	}
}

// foreignKinds are groups as operators of other projects write them: objects of three kinds, objects that own pods, and marks
// without an object.
func foreignKinds() []*gangKind {
	return []*gangKind{
		{
			name:   "coscheduling",
			object: func(namespace, name string, size int) client.Object { return coscheduled(namespace, name, int64(size)) },
			mark:   func(pod *corev1.Pod, gang string, _, _ int) { pod.Labels["scheduling.x-k8s.io/pod-group"] = gang },
		},
		{
			name: "volcano",
			object: func(namespace, name string, size int) client.Object {
				return volcanoGroup(namespace, name, int64(size), "")
			},
			mark: func(pod *corev1.Pod, gang string, _, _ int) { pod.Annotations["scheduling.k8s.io/group-name"] = gang },
		},
		{
			name: "kueue",
			mark: func(pod *corev1.Pod, gang string, size, _ int) {
				pod.Labels["kueue.x-k8s.io/pod-group-name"] = gang
				pod.Annotations["kueue.x-k8s.io/pod-group-total-count"] = fmt.Sprint(size)
			},
		},
		{
			name: "leaderworkerset",
			mark: func(pod *corev1.Pod, gang string, size, i int) {
				const prefix = "leaderworkerset.sigs.k8s.io/"
				pod.Labels[prefix+"group-key"], pod.Labels[prefix+"template-revision-hash"] = "key-of-"+gang, "first"
				pod.Labels[prefix+"name"], pod.Labels[prefix+"group-index"], pod.Labels[prefix+"worker-index"] = gang, "0", fmt.Sprint(i)
				pod.Annotations[prefix+"size"] = fmt.Sprint(size)
			},
		},
		{
			name: "jobset",
			object: func(namespace, name string, size int) client.Object {
				job := func(name string, parallelism int) any {
					template := map[string]any{"spec": map[string]any{"parallelism": int64(parallelism)}}
					return map[string]any{"name": name, "replicas": int64(1), "template": template}
				}
				return foreignObject("jobset.x-k8s.io/v1alpha2", "JobSet", namespace, name, map[string]any{
					"replicatedJobs": []any{job("driver", 1), job("workers", size-1)},
				})
			},
			mark: func(pod *corev1.Pod, gang string, _, i int) {
				pod.Labels["jobset.sigs.k8s.io/jobset-name"] = gang
				pod.Labels["jobset.sigs.k8s.io/replicatedjob-name"] = roleOf(i, "driver", "workers")
			},
		},
		{
			name: "mpijob",
			object: func(namespace, name string, size int) client.Object {
				return foreignObject("kubeflow.org/v2beta1", "MPIJob", namespace, name, map[string]any{
					"mpiReplicaSpecs": map[string]any{"Worker": map[string]any{"replicas": int64(size - 1)}},
				})
			},
			mark: func(pod *corev1.Pod, gang string, _, i int) {
				pod.Labels["training.kubeflow.org/job-name"], pod.Labels["training.kubeflow.org/operator-name"] = gang, "mpi-operator"
				pod.Labels["training.kubeflow.org/job-role"] = roleOf(i, "launcher", "worker")
			},
		},
	}
}

// nativeKind is PodGroups of Kubernetes, which API servers have from 1.37 on, when it is turned on.
func nativeKind() *gangKind {
	return &gangKind{
		name: "kubernetes",
		object: func(namespace, name string, size int) client.Object {
			return foreignObject("scheduling.k8s.io/v1beta1", "PodGroup", namespace, name, map[string]any{
				"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(size)}},
			})
		},
		mark: func(pod *corev1.Pod, gang string, _, _ int) {
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang}
		},
	}
}

// foreignObject is an object of another project.
func foreignObject(version, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// roleOf is the role of the i-th member.
func roleOf(i int, leader, others string) string {
	if i == 0 {
		return leader
	}
	return others
}

// allKinds is a world whose gangs are of all kinds in turn.
func allKinds(t *testing.T) *world {
	t.Helper()
	kinds, options := append(foreignKinds(), ourKind()), cluster.Options{}
	if !strings.HasPrefix(env.Cluster.Version(), "1.35.") && !strings.HasPrefix(env.Cluster.Version(), "1.36.") {
		kinds = append(kinds, nativeKind())
		options.APIServerArgs = []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"}
	}
	w := newWorld(t, noLog, options)
	w.kinds = kinds
	sources := filepath.Join(chartFolder(t), "files", "sources")
	for _, folder := range []string{filepath.Join(sources, "coscheduling"), filepath.Join(sources, "volcano"), filepath.Join("testdata", "operators")} {
		if err := w.lab.Cluster.ApplyCRDs(t.Context(), folder); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// member is the i-th pod of a gang of the batch.
func (w *world) member(gang string, i int) *corev1.Pod {
	pod := w.lab.Pod(metav1.NamespaceDefault, fmt.Sprintf("%s-%d", gang, i), oneCPU)
	pod.Labels[audit.LabelGang] = gang
	w.gangs[gang].kind.mark(pod, gang, w.gangs[gang].size, i)
	return pod
}

// byKind is how many gangs there were of each kind, in words.
func byKind(counts map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(words, ", ")
}
