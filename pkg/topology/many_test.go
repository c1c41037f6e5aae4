package topology_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// naming gives the pod anti-affinity over hosts with a term that names so many labels, which no other pod names.
func naming(pod *corev1.Pod, labels int) {
	term := itself(pod, corev1.LabelHostname)
	for i := range labels {
		term.LabelSelector.MatchExpressions = append(term.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: fmt.Sprintf("k%04d-%s", i, pod.Name), Operator: metav1.LabelSelectorOpExists,
		})
	}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
	}}
}

// waiting adds pods that wait to the snapshot.
func waiting(snapshot *model.Snapshot, pods ...*corev1.Pod) {
	job := &model.Job{Key: model.JobKey{Namespace: "team", Name: "waiting"}}
	for _, pod := range pods {
		job.Tasks = append(job.Tasks, benchTask(pod))
	}
	snapshot.Jobs = append(snapshot.Jobs, job)
}

// indexNaming is an index that has learned so many labels, each of which a pod that waits names.
func indexNaming(labels int, snapshot *model.Snapshot) *topology.Index {
	const each = 4000
	for i := 0; i < labels; i += each {
		pod := benchPod(fmt.Sprint("waits", i), "waits", i)
		naming(pod, min(each, labels-i))
		waiting(snapshot, pod)
	}
	index := topology.New(noNamespaces{})
	index.Follow(snapshot)
	return index
}

// TestLabelsThatOthersNameCostNothing: to count pods takes what their own labels take, however many labels other pods name. The
// bound leaves a hundred times of what is needed, and is a hundredth of what it takes when each label is looked up in each pod.
func TestLabelsThatOthersNameCostNothing(t *testing.T) {
	took := map[int]time.Duration{}
	for _, labels := range []int{8, 80_000} {
		snapshot := benchCluster(10, 0)
		index := indexNaming(labels, snapshot)
		comeAndGo(t, index, snapshot, 0, 10)
		took[labels] = time.Hour
		for round := range 3 {
			began := time.Now()
			comeAndGo(t, index, snapshot, 1000*(round+1), 1000*(round+1)+300)
			took[labels] = min(took[labels], time.Since(began))
		}
	}
	if took[80_000] > 20*took[8]+time.Second/10 {
		t.Errorf("it takes %v where other pods name 80,000 labels, and %v where they name 8", took[80_000], took[8])
	}
}

// BenchmarkClasses counts a pod and removes it again, beside pods that name so many labels.
func BenchmarkClasses(b *testing.B) {
	for _, labels := range []int{1, 4, 100, 100_000} {
		b.Run(fmt.Sprint("named=", labels), func(b *testing.B) {
			snapshot := benchCluster(10, 0)
			index := indexNaming(labels, snapshot)
			asks := benchPod("asks", "job", 0)
			requireApart(asks, corev1.LabelHostname)
			if _, err := index.Affinity(asks); err != nil {
				b.Fatal(err)
			}
			pods := make([]*corev1.Pod, 10_000) // more than are recognised by their address
			for i := range pods {
				pods[i] = benchPod(fmt.Sprint("p", i), "job", i)
			}
			for i := 0; b.Loop(); i++ {
				task := benchTask(pods[i%len(pods)])
				nodeCount(snapshot, task, snapshot.Nodes[0])
				snapshot.Move(task, model.Placement{})
				if i%1000 == 0 {
					if _, err := index.Affinity(asks); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// TestLabelsOfPodsOnNodesAreLearnedTogether: after a restart of the process the pods on nodes are counted once, and not once
// again for each node with a pod that names another label.
func TestLabelsOfPodsOnNodesAreLearnedTogether(t *testing.T) {
	snapshot := benchCluster(50, 0)
	for i, node := range snapshot.Nodes {
		pod := benchPod(fmt.Sprint("old", i), "old", i)
		naming(pod, 2)
		nodeCount(snapshot, benchTask(pod), node)
	}
	index := topology.New(noNamespaces{})
	index.Follow(snapshot)
	asks := benchPod("asks", "job", 0)
	naming(asks, 2)
	if _, err := index.Affinity(asks); err != nil {
		t.Fatal(err)
	}
	if index.Begun() > 4 {
		t.Errorf("all was begun %d times", index.Begun())
	}
}

// everyRule gives the pod a rule of each kind over the key.
func everyRule(pod *corev1.Pod, key string) {
	term := itself(pod, key)
	preferred := []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
	pod.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}, PreferredDuringSchedulingIgnoredDuringExecution: preferred},
	}
	spreadOver(pod, key, corev1.DoNotSchedule)
	soft := pod.Spec.TopologySpreadConstraints[0]
	soft.WhenUnsatisfiable = corev1.ScheduleAnyway
	pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, soft)
}

// TestAKeyThatNoNodeHasTakesNoMemory for each node, and counts from the moment on at which a node has it.
func TestAKeyThatNoNodeHasTakesNoMemory(t *testing.T) {
	snapshot := benchCluster(10, 0)
	index := topology.New(noNamespaces{})
	index.Follow(snapshot)
	ask := func(pod *corev1.Pod) (spread topology.Reason, apart topology.Reason) {
		t.Helper()
		hard, err := index.Spread(pod)
		if err != nil {
			t.Fatal(err)
		}
		affinity, err := index.Affinity(pod)
		if err != nil {
			t.Fatal(err)
		}
		index.AffinityScore(pod, 1)
		index.SpreadScore(pod, snapshot.Nodes)
		if affinity != nil {
			apart = affinity.Check(snapshot.Nodes[0])
		}
		return hard.Check(snapshot.Nodes[0]), apart
	}
	for i := range 100 {
		pod := benchPod(fmt.Sprint("p", i), "job", i)
		everyRule(pod, fmt.Sprint("nowhere", i))
		if spread, apart := ask(pod); spread != topology.LabelMissing || apart != topology.Fits {
			t.Fatalf("over a key that no node has: %d and %d", spread, apart)
		}
		nodeCount(snapshot, benchTask(pod), snapshot.Nodes[0])
	}
	if index.Keys() > 1 { // that of soft constraints, which counts nodes without the label
		t.Errorf("%d keys are kept that no node has", index.Keys())
	}
	labelled := snapshot.Nodes[0].Object.DeepCopy()
	labelled.Labels["nowhere7"] = "x"
	snapshot.Nodes[0].Object = labelled
	snapshot.NodeChanged(snapshot.Nodes[0])
	pod := benchPod("last", "job", 0)
	everyRule(pod, "nowhere7")
	pod.Spec.TopologySpreadConstraints[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"job-name": "none"}}
	if spread, apart := ask(pod); spread != topology.Fits || apart != topology.AntiAffinityViolated {
		t.Errorf("over a key that a node has by now: %d and %d", spread, apart)
	}
}

// TestWhatPodsNamedThatAreGoneIsDropped also when they were there from the beginning.
func TestWhatPodsNamedThatAreGoneIsDropped(t *testing.T) {
	snapshot := benchCluster(4, 0)
	index := topology.NewTight(noNamespaces{})
	index.Follow(snapshot)
	comeAndGo(t, index, snapshot, 0, 200)
	all := index.Kept()
	for range 5 {
		index.Follow(snapshot)
		comeAndGo(t, index, snapshot, 0, 2)
	}
	if kept := index.Kept(); kept > all/10 {
		t.Errorf("%d classes, terms and keys are kept, of %d that there were when there were a hundred times as many pods", kept, all)
	}
}

// TestLargeTermsCountMore: a thousand terms of 60 KiB are as much as many small ones.
func TestLargeTermsCountMore(t *testing.T) {
	snapshot := benchCluster(4, 0)
	index := topology.New(noNamespaces{})
	index.Follow(snapshot)
	pod := benchPod("large", "job", 0)
	naming(pod, 4000)
	if _, err := index.Affinity(pod); err != nil {
		t.Fatal(err)
	}
	if kept := index.Kept(); kept < 50 {
		t.Errorf("terms of more than 60 KiB count as %d", kept)
	}
}
