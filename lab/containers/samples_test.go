package containers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
)

// onlyOperators waits until no other process runs operators. It keeps the lock until this process ends: a file that is not
// referenced would be closed.
var onlyOperators = sync.OnceValues(operators.Lock)

// installed returns a function that installs an operator in the shared cluster and imports images into all nodes. It does so on
// its first call, and returns the same error on each call.
func installed(o operators.Operator, images ...node.Image) func() error {
	return sync.OnceValue(func() error {
		env, ctx := shared.env, context.Background()
		if _, err := onlyOperators(); err != nil {
			return err
		}
		if _, err := operators.Install(ctx, env.Cluster, os.Stderr, o); err != nil {
			return err
		}
		for _, image := range images {
			archive, err := image.Build(ctx, os.Stderr)
			if err != nil {
				return err
			}
			for _, m := range env.Cluster.Machines() {
				if err := m.Import(ctx, archive); err != nil {
					return err
				}
			}
		}
		return nil
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
	changed := filepath.Join(t.TempDir(), file)
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

// TestSamplesOfOperators: each sample does in real containers what its comment says. mpi_test.go tries the MPIJob.
func TestSamplesOfOperators(t *testing.T) {
	for _, name := range []string{"jobset", "leaderworkerset"} {
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

// begin returns the cluster, with an operator installed in it, and a namespace for the test.
func begin(t *testing.T, operator func() error) (*harness.Env, string) {
	t.Helper()
	env := lab(t)
	if err := operator(); err != nil {
		t.Fatal(err)
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
