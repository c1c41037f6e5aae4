package containers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
	"github.com/tutti-sched/tutti/lab/operators"
)

// sampleImage is the image of the samples that need only a shell.
const sampleImage = "busybox:1.37"

var (
	jobSet          = installed(operators.JobSet())
	leaderWorkerSet = installed(operators.LeaderWorkerSet())
	ray             = installed(operators.Ray(""))
)

// onlyOperators waits until no other process runs operators. It keeps the lock until this process ends: a file that is not
// referenced would be closed.
var onlyOperators = sync.OnceValues(operators.Lock)

// installed returns a function that installs an operator in the shared cluster. It does so on its first call, and returns the
// same error on each call.
func installed(o operators.Operator) func() error {
	return sync.OnceValue(func() error {
		if _, err := onlyOperators(); err != nil {
			return err
		}
		_, err := operators.Install(context.Background(), shared.env.Cluster, os.Stderr, o)
		return err
	})
}

// imported returns a function that imports an image into all nodes, as installed does for operators.
func imported(image node.Image) func() error {
	return sync.OnceValue(func() error {
		ctx := context.Background()
		archive, err := image.Build(ctx, os.Stderr)
		if err != nil {
			return err
		}
		return shared.env.Cluster.Import(ctx, archive)
	})
}

// samples is the folder of the samples that an operator reads.
func samples(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "config", "samples", "operators")
}

// sample applies a sample after changes of its text: of each pair, the second replaces the first, which must occur.
func sample(t *testing.T, env *harness.Env, namespace, file string, changes ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(samples(t), file))
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(changes, 2) {
		if !strings.Contains(string(text), pair[0]) {
			t.Fatalf("%s lacks %q", file, pair[0])
		}
		text = []byte(strings.ReplaceAll(string(text), pair[0], pair[1]))
	}
	changed := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Cluster.Kubectl(t.Context(), "apply", "--validate=strict", "--namespace", namespace, "--filename", changed); err != nil {
		t.Fatal(err)
	}
}

// tried has, by the name of its file, the test of each sample.
var tried = map[string]func(t *testing.T){
	"jobset.yaml":          aJobSetCompletes,
	"leaderworkerset.yaml": aLeaderWorkerSetServes,
	"mpijob.yaml":          TestAnMPIProgramRuns,
	"pytorchjob.yaml":      TestTorchrunAddsUp,
	"raycluster.yaml":      aRayClusterIsReady,
	"trainjob.yaml":        TestATrainJobAddsUp,
}

// TestEverySampleOfAnOperatorIsTried: each file of the folder has a test in tried, and each entry of tried has a file.
func TestEverySampleOfAnOperatorIsTried(t *testing.T) {
	files, err := os.ReadDir(samples(t))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for name := range tried {
		left[name] = true
	}
	for _, f := range files {
		if !left[f.Name()] {
			t.Errorf("%s is tried by no test", f.Name())
		}
		delete(left, f.Name())
	}
	for name := range left {
		t.Errorf("there is no sample %s", name)
	}
}

// TestSamplesOfOperators: each sample does in real containers what its comment says. mpi_test.go tries the MPIJob, torch_test.go
// the jobs with PyTorch.
func TestSamplesOfOperators(t *testing.T) {
	for _, name := range []string{"jobset", "leaderworkerset", "raycluster"} {
		t.Run(name, tried[name+".yaml"])
	}
}

// aJobSetCompletes: the leader reaches both workers by their names, and with the leader the JobSet succeeds.
func aJobSetCompletes(t *testing.T) {
	env, ns := begin(t, jobSet)
	sample(t, env, ns, "jobset.yaml", sampleImage, node.Busybox)
	await(t, env, ns, "jobset/train", "Completed")
	leaders, err := env.Pods(t.Context(), ns, client.MatchingLabels{"jobset.sigs.k8s.io/replicatedjob-name": "leader"})
	if err != nil || len(leaders) != 1 {
		t.Fatalf("leaders: %v %v", names(leaders), err)
	}
	said := logs(t, env, ns, leaders[0].Name, "") // wget complains while a name is unknown
	if !strings.Contains(said, "worker 0\n") || !strings.HasSuffix(said, "worker 1\nthe workers answer") {
		t.Errorf("the leader said %q", said)
	}
}

// aLeaderWorkerSetServes: all pods of both groups run, and in each group a worker has the page of the leader.
func aLeaderWorkerSetServes(t *testing.T) {
	env, ns := begin(t, leaderWorkerSet)
	sample(t, env, ns, "leaderworkerset.yaml", sampleImage, node.Busybox)
	for _, leader := range []string{"serve-0", "serve-1"} {
		for _, member := range replica(leader) {
			eventuallyPod(t, env, ns, member, in(corev1.PodRunning))
		}
		serves(t, env, ns, leader, leader+"-2")
	}
}

// TestAPlainJobRunsAsAGang: the four pods of the Job of the sample, which needs no operator, wait until there is a place for
// each. Then all of them run to their end.
func TestAPlainJobRunsAsAGang(t *testing.T) {
	env, ns := begin(t)
	slots(t, env, "real-0", 3)
	sample(t, env, ns, "../gang.yaml", sampleImage, node.Busybox, "; sleep 60", "",
		`cpu: "1", memory: 256Mi}`, `cpu: 100m, memory: 32Mi, `+slot+": 1}\n          limits: {"+slot+": 1}")
	waitsWhole(t, env, ns, 4, "InsufficientResources")
	slots(t, env, "real-1", 1)
	await(t, env, ns, "job/training", "Complete")
	pods, err := env.Pods(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if said, want := logs(t, env, ns, p.Name, ""), "worker "+p.Labels[batchv1.JobCompletionIndexAnnotation]; said != want {
			t.Errorf("%s said %q, want %q", p.Name, said, want)
		}
	}
}

// standIn is a program that is called ray in the tests, which have no image with Ray: it takes the arguments with which KubeRay
// calls Ray, tells the head of each worker, and answers the probes.
//
//go:embed testdata/ray.py
var standIn string

// aRayClusterIsReady: with the commands, the init container and the probes that the operator gives them, the head and all workers
// are ready, and the head knows the workers. A small program stands in for Ray.
func aRayClusterIsReady(t *testing.T) {
	env, ns := begin(t, ray, openMPI)
	program := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ray"}, Data: map[string]string{"ray": standIn}}
	if err := env.Client.Create(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	slots(t, env, "real-0", 3)
	sample(t, env, ns, "raycluster.yaml",
		"        containers:\n", "        volumes: [{name: ray, configMap: {name: ray, defaultMode: 0755}}]\n        containers:\n",
		"image: rayproject/ray:2.53.0\n", "image: "+node.OpenMPI().Reference()+"\n          volumeMounts: [{name: ray, mountPath: /usr/local/bin/ray, subPath: ray}]\n",
		"cpu: 500m, memory: 1Gi}", "cpu: 100m, memory: 64Mi, "+slot+": 1}", "limits: {memory: 1Gi}", "limits: {memory: 64Mi, "+slot+": 1}")
	waitsWhole(t, env, ns, 4, "needs 4, 3 would fit")
	slots(t, env, "real-1", 1)
	await(t, env, ns, "raycluster/ray", "RayClusterProvisioned")
	heads, err := env.Pods(t.Context(), ns, client.MatchingLabels{"ray.io/node-type": "head"})
	if err != nil || len(heads) != 1 {
		t.Fatalf("heads: %v %v", names(heads), err)
	}
	workers, err := env.Pods(t.Context(), ns, client.MatchingLabels{"ray.io/node-type": "worker"})
	if err != nil {
		t.Fatal(err)
	}
	var joined []string
	for _, line := range regexp.MustCompile(`(\S+) joined`).FindAllStringSubmatch(logs(t, env, ns, heads[0].Name, ""), -1) {
		joined = append(joined, line[1])
	}
	slices.Sort(joined)
	if !slices.Equal(joined, names(workers)) {
		t.Errorf("the head knows %v, want %v", joined, names(workers))
	}
}

// TestAGroupThatDoesNotFitWaits: one of the two groups of the LeaderWorkerSet serves. The other waits as a whole until there is
// room for it.
func TestAGroupThatDoesNotFitWaits(t *testing.T) {
	env, ns := begin(t, leaderWorkerSet)
	slots(t, env, "real-0", 4)
	sample(t, env, ns, "leaderworkerset.yaml", sampleImage, node.Busybox,
		"memory: 64Mi}", "memory: 64Mi, "+slot+": 1}\n            limits: {"+slot+": 1}")
	var serving []string
	env.Eventually(t, func() error {
		pods, err := env.Pods(t.Context(), ns)
		serving = names(slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning }))
		if err == nil && len(serving) != 3 {
			err = fmt.Errorf("%v run, want one group", serving)
		}
		return err
	})
	waiting := map[string]string{"serve-0": "serve-1", "serve-1": "serve-0"}[serving[0]]
	if !slices.Equal(serving, replica(serving[0])) {
		t.Fatalf("%v run, want one group", serving)
	}
	serves(t, env, ns, serving[0], serving[2])
	env.Eventually(t, func() error { // the oldest pod has the reason
		told := false
		for _, name := range replica(waiting) {
			p, err := get(t.Context(), env, ns, name)
			if err != nil {
				return err
			}
			if p.Spec.NodeName != "" {
				t.Fatalf("pod %s is on %s", name, p.Spec.NodeName)
			}
			told = told || unschedulable("needs 3, 1 would fit")(p) == nil
		}
		if !told {
			return fmt.Errorf("no pod of group %s says that 1 of 3 would fit", waiting)
		}
		return nil
	})
	slots(t, env, "real-1", 2)
	for _, name := range replica(waiting) {
		eventuallyPod(t, env, ns, name, in(corev1.PodRunning))
	}
}

// replica are the pods of a group of the LeaderWorkerSet, the leader first.
func replica(leader string) []string { return []string{leader, leader + "-1", leader + "-2"} }

// serves waits until a pod serves its own name to another pod.
func serves(t *testing.T, env *harness.Env, namespace, server, asking string) {
	t.Helper()
	p, err := get(t.Context(), env, namespace, server)
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { // a container that runs may not listen yet
		page, err := env.Cluster.Kubectl(t.Context(), "exec", asking, "--namespace", namespace, "--", "wget", "-qO-", "http://"+p.Status.PodIP+":8080")
		if err == nil && strings.TrimSpace(page) != server {
			err = fmt.Errorf("%s serves %q", server, page)
		}
		return err
	})
}

// begin returns the cluster, with operators and images in it, and a namespace for the test.
func begin(t *testing.T, needs ...func() error) (*harness.Env, string) {
	t.Helper()
	env := lab(t)
	for _, need := range needs {
		if err := need(); err != nil {
			t.Fatal(err)
		}
	}
	return env, env.Namespace(t)
}

// await waits until an object has a condition.
func await(t *testing.T, env *harness.Env, namespace, object, condition string) {
	t.Helper()
	_, err := env.Cluster.Kubectl(t.Context(), "wait", object, "--namespace", namespace, "--for=condition="+condition, "--timeout="+cluster.Patience.String())
	if err != nil {
		t.Fatal(err)
	}
}
