package diagnose

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestEachPodIsInOneJob, whatever marks it has: in the overview, and in the answer to why it waits.
func TestEachPodIsInOneJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := []string{v1alpha1.LabelPodGroup, sources.LabelCoscheduling, sources.KueueGroup, sources.LWSGroupKey, sources.LWSRevision}
		annotations := []string{v1alpha1.AnnotationKubeBatchGroup, v1alpha1.AnnotationMinMember, sources.KueueTotal, sources.LWSSize}
		name := rapid.SampledFrom([]string{"", "a", "2"})
		var pods []corev1.Pod
		for i := range rapid.IntRange(1, 6).Draw(t, "pods") {
			pod := corev1.Pod{}
			pod.Namespace, pod.Name, pod.UID = "ns", fmt.Sprint("p", i), "u"
			pod.Labels, pod.Annotations, pod.Spec.SchedulerName = map[string]string{}, map[string]string{}, "tutti"
			for _, key := range labels {
				if value := name.Draw(t, key); value != "" {
					pod.Labels[key] = value
				}
			}
			for _, key := range annotations {
				if value := name.Draw(t, key); value != "" {
					pod.Annotations[key] = value
				}
			}
			if group := name.Draw(t, "group"); group != "" {
				pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
			}
			pods = append(pods, pod)
		}
		var specs []*sources.Spec
		if rapid.Bool().Draw(t, "known") {
			spec := &sources.Spec{Source: model.SourceNative, MinMember: 2, NoGang: rapid.Bool().Draw(t, "basic")}
			spec.Namespace, spec.Name = "ns", "a"
			specs = append(specs, spec)
		}
		members := 0
		for _, job := range Collect(nil, pods, []string{"tutti"}, specs...).Jobs {
			members += job.Members
		}
		if members != len(pods) {
			t.Fatalf("%d members of %d pods", members, len(pods))
		}
		namespace := &Namespace{Name: "ns", Sources: sources.Default(), Pods: pods, Foreign: specs}
		AllWaiting(namespace)
		for i := range pods {
			if _, err := Diagnose(namespace, Pod, pods[i].Name); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestWhyNamesTheMarksThatDoNotCount of a group that waits; a group that is no gang is none of them.
func TestWhyNamesTheMarksThatDoNotCount(t *testing.T) {
	native := "g"
	pod := corev1.Pod{}
	pod.Namespace, pod.Name, pod.Spec.SchedulerName = "ns", "p", "tutti"
	pod.Labels = map[string]string{sources.LabelCoscheduling: "s"}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &native}
	for _, c := range []struct {
		basic bool
		kind  Kind
		want  []string
	}{
		{false, "PodGroup.scheduling.k8s.io", []string{`p: also names PodGroup.scheduling.x-k8s.io "s", which does not count`}},
		{true, Kind(model.SourceCoscheduling.Kind()), nil},
	} {
		spec := &sources.Spec{Source: model.SourceNative, MinMember: 2, NoGang: c.basic}
		spec.Namespace, spec.Name = "ns", native
		marked := &sources.Spec{Source: model.SourceCoscheduling, MinMember: 2}
		marked.Namespace, marked.Name = "ns", "s"
		waiting := AllWaiting(&Namespace{Name: "ns", Sources: sources.Default(), Pods: []corev1.Pod{pod}, Foreign: []*sources.Spec{spec, marked}})
		if len(waiting) != 1 || waiting[0].Kind != string(c.kind) || !slices.Equal(waiting[0].Notes, c.want) {
			t.Errorf("basic %t: %+v", c.basic, waiting[0])
		}
	}
}

// TestWhyDoesNotNameTheOwnerOfTheGroup among the marks that do not count; another job that a pod names is one.
func TestWhyDoesNotNameTheOwnerOfTheGroup(t *testing.T) {
	controller := true
	pod := corev1.Pod{}
	pod.Namespace, pod.Name, pod.Spec.SchedulerName = "ns", "p", "tutti"
	pod.Labels = map[string]string{
		sources.LabelCoscheduling: "train", "training.kubeflow.org/job-name": "train", "training.kubeflow.org/operator-name": "mpi-operator",
	}
	for owner, want := range map[string][]string{
		"train": nil,
		"other": {`p: also names MPIJob "train", which does not count`},
	} {
		spec := &sources.Spec{Source: model.SourceCoscheduling, MinMember: 2}
		spec.Namespace, spec.Name = "ns", "train"
		spec.OwnerReferences = []metav1.OwnerReference{{Kind: "MPIJob", Name: owner, Controller: &controller}}
		waiting := AllWaiting(&Namespace{Name: "ns", Sources: sources.Default(), Pods: []corev1.Pod{pod}, Foreign: []*sources.Spec{spec}})
		if len(waiting) != 1 || !slices.Equal(waiting[0].Notes, want) {
			t.Errorf("of MPIJob %s: %+v", owner, waiting[0])
		}
	}
}

// TestWhatAGroupNeedsWhoseOwnerIsMadeAgain: pods of the one before count for nothing, and the younger pods say which that is.
func TestWhatAGroupNeedsWhoseOwnerIsMadeAgain(t *testing.T) {
	spec := &sources.Spec{Source: model.SourceCoscheduling, MinMember: 3}
	spec.Namespace, spec.Name, spec.UID = "ns", "g", "group"
	namespace := &Namespace{Name: "ns", Sources: sources.Default(), Foreign: []*sources.Spec{spec}}
	for i, uid := range []types.UID{"old", "old", "old", "new"} {
		pod := corev1.Pod{}
		pod.Namespace, pod.Name, pod.UID, pod.Spec.SchedulerName = "ns", fmt.Sprint("p", i), types.UID(fmt.Sprint(i)), "tutti"
		pod.Labels = map[string]string{sources.LabelCoscheduling: "g"}
		pod.CreationTimestamp = metav1.Unix(int64(1000+i), 0)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubeflow.org/v1", Kind: "PyTorchJob", Name: "train", UID: uid, Controller: new(true)}}
		if uid == "old" {
			pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
		}
		namespace.Pods = append(namespace.Pods, pod)
	}
	if found, err := Diagnose(namespace, Any, "g"); err != nil || found.Members.Needs != 6 || found.Members.Exist != 4 {
		t.Errorf("%v, %+v; want 3 beside 3 of before", err, found.Members)
	}
}
