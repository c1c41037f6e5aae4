package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/lab/bench/load"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// largeText is what makes a pod large: a megabyte, of which etcd takes one and a half in an object.
var largeText = strings.Repeat("x", 1<<20)

// largePods are the ways in which a user makes a pod large, with text of its own in each.
var largePods = []func(*corev1.Pod){
	func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{p.Name, largeText} },
	func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "OWN", Value: p.Name}, {Name: "TEXT", Value: largeText}}
	},
	func(p *corev1.Pod) {
		for i := range 10_000 {
			p.Spec.Containers[0].Command = append(p.Spec.Containers[0].Command, fmt.Sprintf("%s-%05d-%s", p.Name, i, largeText[:90]))
		}
	},
}

// TestMemoryOnARealServer holds the memory of the scheduler's process against the limit that the chart gives its container:
// 100,000 pods, 1,000 of them of a megabyte, and 10,000 more of a megabyte that are created and deleted one after another; then a
// second process starts and reads all that is there. It is a hundredth of that unless SIZE=whole.
func TestMemoryOnARealServer(t *testing.T) {
	part := 100
	if os.Getenv("SIZE") == "whole" {
		part = 1
	}
	t.Parallel()
	// The server forgets old versions of objects early: the pods that come and go are 10 GB of them, and etcd holds 8. It keeps no
	// events of pods for watches either: as many as 100,000 small pods make it keep take 20 GB when they are large.
	lab, _ := bareCluster(t, noLog, cluster.Options{APIServerArgs: []string{"--etcd-compaction-interval=10s", "--watch-cache-sizes=pods#0"}})
	nodes := cluster.Nodes("node", 100, map[string]string{"cpu": "1k", "pods": "2k"})
	lab.Nodes(t, nodes...)
	client, err := load.NewClient(lab.Cluster.Config(), 16)
	if err != nil {
		t.Fatal(err)
	}
	first := lab.Scheduler(t, harness.SchedulerOptions{Name: "memory-first"})
	most := chartMemory(t)
	if part > 1 { // a part of what the pods take, beside what each process takes and what garbage there is
		most = memoryOf(t, first).Now + most/int64(part) + 128<<20
	}

	began := time.Now()
	fillMemory(t, lab, client, nodes, 100_000/part)
	full := memoryOf(t, first)
	t.Logf("after %s all pods are there: %s", time.Since(began).Round(time.Second), megabytes(full))
	comeAndGo(t, first, lab, client, nodes, 10_000/part)
	t.Logf("after %s the others have come and gone", time.Since(began).Round(time.Second))
	lab.AfterCycle(t, lab.Pod(metav1.NamespaceDefault, "last")) // what was sent before has been taken in
	churned := memoryOf(t, first)
	first.Kill()
	second := lab.Scheduler(t, harness.SchedulerOptions{Name: "memory-second"})
	lab.AfterCycle(t, lab.Pod(metav1.NamespaceDefault, "read"))
	started := memoryOf(t, second)
	now := max(full.Peak, churned.Peak, started.Peak)
	t.Logf("RESULT memory: %d pods, %d of a megabyte: %s; %d more that came and went: %s; a process that starts then: %s; allowed %d MiB",
		100_000/part, 1000/part, megabytes(full), 10_000/part, megabytes(churned), megabytes(started), most>>20)
	if now > most {
		t.Errorf("the process held %d MiB, want at most %d", now>>20, most>>20)
	}
}

// fillMemory creates so many pods on nodes, a hundredth of them large.
func fillMemory(t *testing.T, lab *harness.Env, client *load.Client, nodes []*corev1.Node, count int) {
	t.Helper()
	for from := 0; from < count; from += 1000 {
		var pods []*corev1.Pod
		for i := from; i < min(from+1000, count); i++ {
			pod := lab.Pod(metav1.NamespaceDefault, fmt.Sprintf("p-%d", i), harness.OnNode(nodes[i%len(nodes)].Name))
			if i%100 == 0 {
				largePods[i/100%len(largePods)](pod)
			}
			pods = append(pods, pod)
		}
		if _, err := client.CreatePods(t.Context(), pods); err != nil {
			t.Fatal(err)
		}
	}
}

// comeAndGo creates so many large pods, every other one on a node, and deletes each before the next.
func comeAndGo(t *testing.T, s *harness.Scheduler, lab *harness.Env, client *load.Client, nodes []*corev1.Node, count int) {
	t.Helper()
	pods := client.Core.CoreV1().Pods(metav1.NamespaceDefault)
	for i := range count {
		pod := lab.Pod(metav1.NamespaceDefault, fmt.Sprintf("c-%d", i))
		if i%2 == 0 {
			pod.Spec.NodeName = nodes[i%len(nodes)].Name
		}
		largePods[i%len(largePods)](pod)
		_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
		if err == nil {
			err = pods.Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0))
		}
		if err != nil {
			t.Fatalf("large pod %d of %d: %v", i, count, err)
		}
		if i%1000 == 999 {
			t.Logf("%d large pods have come and gone: %s", i+1, megabytes(memoryOf(t, s)))
		}
	}
}

// chartMemory is the limit that the chart gives the scheduler's container, in bytes.
func chartMemory(t *testing.T) int64 {
	t.Helper()
	for _, object := range render(t) {
		if object.GetKind() == "Deployment" {
			var deployment appsv1.Deployment
			convert(t, object, &deployment)
			return deployment.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
		}
	}
	t.Fatal("the chart has no Deployment")
	return 0
}

// memoryOf reads what a scheduler's process holds.
func memoryOf(t *testing.T, s *harness.Scheduler) stage.Memory {
	t.Helper()
	m, err := stage.MemoryOf(s.PID())
	if err != nil {
		t.Fatalf("%v\n%v", err, s.Failure())
	}
	return m
}

// megabytes writes what a process holds.
func megabytes(m stage.Memory) string {
	return fmt.Sprintf("%d MiB, at most %d MiB", m.Now>>20, m.Peak>>20)
}
