package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// gangOnWholeNodes is a gang whose members each need all devices of a node, and have a controller, of a kind that the garbage
// collector does not know.
func gangOnWholeNodes(name string, minMember int, members ...string) string {
	text := fmt.Sprintf(`
apiVersion: scheduling.tutti.dev/v1alpha1
kind: PodGroup
metadata: {name: %s}
spec: {minMember: %d, schedulerName: %s}
`, name, minMember, harness.SchedulerName)
	for _, member := range members {
		text += fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %s-%s
  labels: {scheduling.tutti.dev/pod-group: %s}
  ownerReferences: [{apiVersion: example.com/v1, kind: Set, name: set, uid: set, controller: true}]
spec:
  schedulerName: %s
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: none, resources: {limits: {cpu: "1", example.com/each: "4"}}}]
`, name, member, name, harness.SchedulerName)
	}
	return text
}

// TestEachChangeIsThenDone supposes one change after another, and then makes it with kubectl: who was said to start starts, and
// who was said to wait waits for the same reason.
func TestEachChangeIsThenDone(t *testing.T) {
	ns, dir := env.Namespace(t), t.TempDir()
	env.Nodes(t, cluster.Nodes("each", 2, map[string]string{"cpu": "8", "example.com/each": "4"})...)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubectl := func(args ...string) {
		t.Helper()
		if out, err := env.Cluster.Kubectl(t.Context(), append(args, "--namespace", ns)...); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	plugin, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	env.Create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "asks-of-changes"}, Rules: []rbacv1.PolicyRule{
		{NonResourceURLs: []string{debugapi.PathAsk}, Verbs: []string{"post"}},
	}})
	accountWith(t, env, "asks-of-changes", "asks-of-changes")
	token := tokenOf(t, env, metav1.NamespaceDefault, "asks-of-changes", debugapi.Audience)
	without := file("without-allocate.yaml", "actions: \"backfill\"\ntiers:\n- plugins:\n  - {name: priority}\n  - {name: gang}\n  - {name: predicates}\n")
	with := file("with-allocate.yaml", "actions: \"allocate\"\ntiers:\n- plugins:\n  - {name: priority}\n  - {name: gang}\n  - {name: predicates}\n")
	s := env.Scheduler(t, harness.SchedulerOptions{})

	kubectl("apply", "-f", file("runs.yaml", gangOnWholeNodes("runs", 1, "0")))
	env.Eventually(t, func() error { return boundOf(t, ns, "runs", 1) })
	kubectl("apply", "-f", file("waits.yaml", gangOnWholeNodes("waits", 2, "0", "1")))
	env.Eventually(t, func() error { return waits(t, group(ns, "waits", 2), "InsufficientResources") })
	late := file("late.yaml", gangOnWholeNodes("late", 1, "0"))
	again := file("again.yaml", gangOnWholeNodes("waits", 2, "2"))
	for _, change := range []struct {
		what, job string
		state     debugapi.FateState
		code      string
		done      func()
		bound     int
	}{
		{"--without runs", "waits", debugapi.FateStarts, "", func() { kubectl("delete", "podgroup/runs", "pod/runs-0") }, 2},
		{"-f " + late, "late", debugapi.FateWaits, "InsufficientResources", func() { kubectl("apply", "-f", late) }, 0},
		{"--drain each-0", "waits", debugapi.FateEvicted, "InsufficientResources", func() {
			kubectl("drain", "each-0", "--force", "--pod-selector=scheduling.tutti.dev/pod-group=waits")
			kubectl("apply", "-f", again)
		}, 1},
		{"--set node/each-0.unschedulable=false", "waits", debugapi.FateStarts, "", func() { kubectl("uncordon", "each-0") }, 2},
		{"--add-nodes 1 --like each-0", "late", debugapi.FateStarts, "", func() {
			env.Nodes(t, cluster.Nodes("each-more", 1, map[string]string{"cpu": "8", "example.com/each": "4"})...)
		}, 1},
		{"--without late --config " + without + " -f " + file("new.yaml", gangOnWholeNodes("new", 1, "0")), "new", debugapi.FateWaits, "", func() {
			s.Kill()
			kubectl("delete", "podgroup/late", "pod/late-0")
			s = env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + without}})
			kubectl("apply", "-f", filepath.Join(dir, "new.yaml"))
		}, 0},
		{"--config " + with, "new", debugapi.FateStarts, "", func() {
			s.Kill()
			s = env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + with}})
		}, 1},
	} {
		var answer debugapi.Answer
		env.Eventually(t, func() error { // the watch has shown the change before
			out, err := env.Cluster.RunTool(t.Context(), plugin, append(append([]string{"what-if"}, strings.Fields(change.what)...),
				"-o", "json", "-n", ns, "--scheduler-server", s.URL, "--scheduler-insecure-skip-tls-verify", "--scheduler-token", token)...)
			if err != nil {
				return err
			}
			answer = debugapi.Answer{}
			if err := json.Unmarshal([]byte(out), &answer); err != nil {
				return err
			}
			for i := range answer.Jobs {
				then := answer.Jobs[i].Then
				if answer.Jobs[i].Job == "PodGroup "+ns+"/"+change.job && then.State == change.state && then.Code == change.code {
					return nil
				}
			}
			return fmt.Errorf("%s: want %s to be %s %s: %s", change.what, change.job, change.state, change.code, out)
		})
		change.done()
		env.Eventually(t, func() error {
			pods, err := env.Pods(t.Context(), ns)
			if err != nil {
				return err
			}
			for i := range pods {
				unplaced := strings.HasPrefix(pods[i].Name, change.job) && pods[i].Spec.NodeName == ""
				if text := fmt.Sprint(pods[i].Status.Conditions); unplaced && !strings.Contains(text, change.code) {
					return fmt.Errorf("after %s: %s says %s, want %s", change.what, pods[i].Name, text, change.code)
				}
			}
			return boundOf(t, ns, change.job, change.bound)
		})
		if len(answer.Supposed) == 0 {
			t.Errorf("%s: the answer does not say what was supposed", change.what)
		}
	}
}
