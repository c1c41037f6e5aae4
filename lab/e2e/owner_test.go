package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// mpiJob is an object of mpi-operator, which the test plays.
func mpiJob(t *testing.T, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	job := &unstructured.Unstructured{Object: map[string]any{}}
	job.SetAPIVersion("kubeflow.org/v2beta1")
	job.SetKind("MPIJob")
	job.SetNamespace(namespace)
	job.SetName(name)
	env.Eventually(t, func() error { return env.Client.Create(t.Context(), job) })
	return job
}

// launch has a Job of the MPIJob's make the launcher, and makes the workers.
func launch(t *testing.T, job *unstructured.Unstructured, workers int) {
	t.Helper()
	owned := []metav1.OwnerReference{*metav1.NewControllerRef(job, job.GroupVersionKind())}
	pods := coscheduledPods(job.GetNamespace(), job.GetName(), 0, workers)
	for _, worker := range pods {
		worker.SetOwnerReferences(owned)
	}
	template := env.Pod(job.GetNamespace(), "", oneCPU, harness.PodLabels(map[string]string{"scheduling.x-k8s.io/pod-group": job.GetName()}))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	env.Create(t, append(pods, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.GetNamespace(), Name: job.GetName() + "-launcher", OwnerReferences: owned},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec}},
	})...)
}

// TestWhyOfAnOwner asks why an MPIJob waits, whose launcher is a pod of a Job of its own: with the rights of a user, before there
// are pods, while they wait, and when they have started; and without the right to read what is between.
func TestWhyOfAnOwner(t *testing.T) {
	installCoscheduling(t)
	crd := filepath.Join("testdata", "operators", "mpijob.yaml")
	if text, err := env.Cluster.Kubectl(t.Context(), "apply", "-f", crd); err != nil {
		t.Fatal(text, err)
	}
	t.Cleanup(func() {
		if text, err := env.Cluster.Kubectl(context.WithoutCancel(t.Context()), "delete", "-f", crd); err != nil {
			t.Error(text, err)
		}
	})
	ns := env.Namespace(t)
	kubeconfig := readerAccount(t, ns)
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) (string, error) {
		return harness.RunCommand(t.Context(), program, append(args, "--kubeconfig", kubeconfig, "-n", ns)...)
	}
	says := func(what string, want ...string) {
		t.Helper()
		env.Eventually(t, func() error {
			text, err := ask("why", what)
			return saysAll(text, err, want...)
		})
	}
	may := func(group, resource string) {
		t.Helper()
		rule := []byte(`[{"op":"add","path":"/rules/-","value":{"apiGroups":["` + group + `"],"resources":["` + resource + `"],"verbs":["get","list"]}}]`)
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"}}
		if err := env.Client.Patch(t.Context(), role, client.RawPatch("application/json-patch+json", rule)); err != nil {
			t.Fatal(err)
		}
	}
	job := mpiJob(t, ns, "train")
	says("mpijob/train", "MPIJob "+ns+"/train has no jobs", "you may not get mpijob.kubeflow.org")
	may("kubeflow.org", "mpijobs")
	may("scheduling.x-k8s.io", "podgroups")
	says("mj/train", "MPIJob "+ns+"/train has no pods", "its controller has made none yet")

	group := coscheduled(ns, "train", 3)
	group.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(job, job.GroupVersionKind())})
	env.Eventually(t, func() error { return env.Client.Create(t.Context(), group) })
	says("mpijobs.kubeflow.org/train", "MPIJob "+ns+"/train has no pods", "no pod of it exists")
	for _, what := range []string{"train", "podgroups.scheduling.x-k8s.io/train"} {
		says(what, "PodGroup.scheduling.x-k8s.io "+ns+"/train waits: NotEnoughMembers", "no pod names it")
	}

	inspectable(t, ns)
	scheduler := env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--leader-elect-namespace=" + ns}})
	env.Nodes(t, cluster.Nodes("owner", 1, map[string]string{"cpu": "2"})...)
	launch(t, job, 2)
	waits := []string{"PodGroup.scheduling.x-k8s.io " + ns + "/train of ", "waits: Unschedulable", "needs 3, 2 would fit", "has 3: 0 bound, 3 waiting"}
	says("mpijob/train", append(waits, "MPIJob "+ns+"/train has 1 job", "what controls Job train-launcher is not known: you may not get jobs.batch")...)
	may("batch", "jobs")
	says("MPIJob/train", waits...)
	says("job/train-launcher", waits...)
	env.Eventually(t, func() error { // the scheduler knows the minimum, and who owns the group's object
		text, err := harness.RunCommand(t.Context(), program, "why", "mpijob/train", "-n", ns, "--kubeconfig", env.Cluster.Kubeconfig(),
			"--scheduler-server", scheduler.URL, "--scheduler-namespace", ns)
		return saysAll(text, err, "PodGroup.scheduling.x-k8s.io "+ns+"/train of MPIJob/train waits: InsufficientResources", "needs 3, has 3: 0 bound, 3 waiting")
	})
	text, err := ask("status")
	if err := saysAll(text, err, "podgroup.scheduling.x-k8s.io/train ("); err != nil {
		t.Error(err)
	}

	// A launcher without workers is found through the Job alone.
	launch(t, mpiJob(t, ns, "alone"), 0)
	says("mpijob/alone", "has 1 job", "PodGroup.scheduling.x-k8s.io "+ns+"/alone of Job/alone-launcher waits: GroupNotFound")

	env.Nodes(t, cluster.Nodes("owner-more", 1, map[string]string{"cpu": "1"})...)
	says("mpijob/train", "has started", "pods that are bound: 3")
	for what, want := range map[string]string{
		"mpijob/trian": `there is no mpijob.kubeflow.org "trian" in namespace ` + ns + `; did you mean "train"?`,
		"mpijbo/train": `the cluster knows no kind "mpijbo"; did you mean mpijob?`,
	} {
		if _, err := ask("why", what); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
}
