package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestIndexedJobs: where the source is on, the pods of an indexed Job start together, and those of another as they fit.
func TestIndexedJobs(t *testing.T) {
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	text, err := os.ReadFile(filepath.Join(chartFolder(t), "files", "scheduler.yaml"))
	if err == nil {
		err = os.WriteFile(config, append(text, "\nsources: {job: true}\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + config}})
	ns := env.Namespace(t)
	env.Nodes(t, cluster.Nodes("indexed", 1, map[string]string{"cpu": "2"})...)
	job := func(name string, mode batchv1.CompletionMode) {
		pod := env.Pod(ns, name, oneCPU, runs)
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		three := int32(3)
		env.Create(t, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec: batchv1.JobSpec{
				Parallelism: &three, Completions: &three, CompletionMode: &mode,
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: pod.Annotations}, Spec: pod.Spec},
			},
		})
	}
	job("ranks", batchv1.IndexedCompletion)
	env.Eventually(t, func() error { return saysWhy(t, ns, "ranks-", "Unschedulable", "needs 3, 2 would fit") })
	if err := boundOf(t, ns, "ranks-", 0); err != nil {
		t.Error(err)
	}
	job("tasks", batchv1.NonIndexedCompletion)
	env.Eventually(t, func() error {
		return errors.Join(boundOf(t, ns, "tasks-", 2), saysWhy(t, ns, "tasks-", "Unschedulable", "1 node lacks cpu"))
	})
	env.Nodes(t, cluster.Nodes("indexed-more", 1, map[string]string{"cpu": "1"})...)
	env.Eventually(t, func() error { return boundOf(t, ns, "tasks-", 3) })
	finish(t, ns, "tasks-")
	env.Eventually(t, func() error { return boundOf(t, ns, "ranks-", 3) })
}

// runs makes a pod run until the test lets it end with finish, however long the machine takes for what comes before.
func runs(p *corev1.Pod) { harness.PodAnnotations(map[string]string{cluster.RunFor: "1h"})(p) }

// finish lets the pods of a namespace end whose names begin so.
func finish(t *testing.T, namespace, prefix string) {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+cluster.RunFor+`":"0s"}}}`))
	for i := range pods {
		if !strings.HasPrefix(pods[i].Name, prefix) {
			continue
		}
		if err := env.Client.Patch(t.Context(), &pods[i], patch); err != nil {
			t.Fatal(err)
		}
	}
}
