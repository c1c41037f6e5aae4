package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// patience is for what must come, and takes a moment on an idle machine.
const patience = cluster.Patience

// The tests of this file are about the cluster itself: what the others rely on.

func TestClusterIsUp(t *testing.T) {
	version, err := env.Clientset.Discovery().ServerVersion()
	if err != nil {
		t.Fatalf("version of the server: %v", err)
	}
	if want := "v" + env.Cluster.Version(); version.GitVersion != want {
		t.Errorf("the server calls itself %s, want %s", version.GitVersion, want)
	}
	nodes := cluster.Nodes("up", 1, map[string]string{"cpu": "4", "nvidia.com/gpu": "8"})
	env.Nodes(t, nodes...)
	ns := env.Namespace(t)
	pod := env.Pod(ns, "bound", harness.OnNode("up-0"), harness.Requests(map[string]string{"nvidia.com/gpu": "1"}))
	env.Create(t, pod)
	env.Eventually(t, func() error { return inPhase(t, pod, corev1.PodRunning) })

	var node corev1.Node
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "up-0"}, &node); err != nil {
		t.Fatal(err)
	}
	if gpus := node.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 8 {
		t.Errorf("the node offers %s GPUs, want the 8 it was created with", gpus.String())
	}
	if len(node.Spec.Taints) > 0 {
		t.Errorf("the node has taints: %v", node.Spec.Taints)
	}
}

func TestPodsFareAsTheirAnnotationsSay(t *testing.T) {
	env.Nodes(t, cluster.Nodes("fare", 1, nil)...)
	ns := env.Namespace(t)
	on := harness.OnNode("fare-0")
	completes := env.Pod(ns, "completes", on, harness.PodAnnotations(map[string]string{cluster.RunFor: "100ms"}))
	fails := env.Pod(ns, "fails", on, harness.PodAnnotations(map[string]string{cluster.FailAfter: "100ms"}))
	lingers := env.Pod(ns, "lingers", on, harness.PodAnnotations(map[string]string{cluster.StopAfter: "1h"}))
	grace := int64(30)
	lingers.Spec.TerminationGracePeriodSeconds = &grace
	waits := env.Pod(ns, "waits", on, harness.PodAnnotations(map[string]string{cluster.StartAfter: "1h"}))
	env.Create(t, completes, fails, lingers, waits)

	env.Eventually(t, func() error { return inPhase(t, completes, corev1.PodSucceeded) })
	env.Eventually(t, func() error { return inPhase(t, fails, corev1.PodFailed) })
	env.Eventually(t, func() error { return inPhase(t, lingers, corev1.PodRunning) })
	if err := env.Client.Delete(t.Context(), lingers); err != nil {
		t.Fatal(err)
	}
	if err := inPhase(t, lingers, corev1.PodRunning); err != nil {
		t.Errorf("a pod that stops slowly went immediately: %v", err)
	}
	faster := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"100ms"}}}`, cluster.StopAfter))
	if err := env.Client.Patch(t.Context(), lingers, faster); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error {
		return client.IgnoreNotFound(gone(env.Client.Get(t.Context(), client.ObjectKeyFromObject(lingers), lingers)))
	})
	if err := inPhase(t, waits, corev1.PodPending); err != nil {
		t.Error(err)
	}
}

func TestDeploymentBecomesReady(t *testing.T) {
	env.Nodes(t, cluster.Nodes("deploy", 2, map[string]string{"cpu": "4"})...)
	replicas := int32(3)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: template(map[string]string{"app": "web"}, corev1.RestartPolicyAlways),
		},
	}
	env.Create(t, deployment)
	env.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if ready := deployment.Status.ReadyReplicas; ready != replicas {
			return fmt.Errorf("%d of %d replicas ready", ready, replicas)
		}
		return nil
	})
}

func TestJobCompletes(t *testing.T) {
	env.Nodes(t, cluster.Nodes("job", 1, map[string]string{"cpu": "4"})...)
	three := int32(3)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "train"},
		Spec: batchv1.JobSpec{
			Parallelism: &three, Completions: &three,
			Template: template(nil, corev1.RestartPolicyNever),
		},
	}
	env.Create(t, job)
	env.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		for _, condition := range job.Status.Conditions {
			if condition.Type == batchv1.JobComplete && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%d of %d pods succeeded", job.Status.Succeeded, three)
	})
}

func TestAccessOfAServiceAccountIsLimited(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"}})
	path, err := env.Cluster.KubeconfigFor(t.Context(), ns, "reader")
	if err != nil {
		t.Fatal(err)
	}
	_, err = env.Cluster.Kubectl(t.Context(), "--kubeconfig", path, "get", "nodes")
	if err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("a service account without roles lists nodes: %v", err)
	}
}

// template is a pod template for kube-scheduler.
func template(labels map[string]string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	pod := env.Pod("", "", harness.ScheduledBy("default-scheduler"), harness.PodLabels(labels),
		harness.Requests(map[string]string{"cpu": "1"}))
	pod.Spec.RestartPolicy = restart
	return corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
}

// inPhase is nil when the pod is in a phase.
func inPhase(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) error {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	if pod.Status.Phase != phase {
		return fmt.Errorf("pod %s is %s, want %s", pod.Name, pod.Status.Phase, phase)
	}
	return nil
}

// gone turns "it is still there" into an error.
func gone(err error) error {
	if err == nil {
		return fmt.Errorf("it is still there")
	}
	return err
}
