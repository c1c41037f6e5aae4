package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestWhatIfIsThenDone: a gang waits; the scheduler says that it would start with one more node, and without another one that
// runs, and so says a capture of it without a cluster; then the node is added, and it starts. Nothing comes of the questions.
func TestWhatIfIsThenDone(t *testing.T) {
	ns, devices := env.Namespace(t), map[string]string{"cpu": "8", "example.com/ask": "4"}
	all := harness.Requests(map[string]string{"cpu": "1", "example.com/ask": "4"})
	env.Nodes(t, cluster.Nodes("ask", 2, devices)...)
	plugin, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	s := env.Scheduler(t, harness.SchedulerOptions{})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "asks"}, Rules: []rbacv1.PolicyRule{
		{NonResourceURLs: []string{debugapi.PathAsk}, Verbs: []string{"post"}},
		{NonResourceURLs: []string{debugapi.PathCapture}, Verbs: []string{"get"}},
	}}
	env.Create(t, role)
	t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), role) })
	accountWith(t, env, "asks", role.Name)
	token := tokenOf(t, env, metav1.NamespaceDefault, "asks", debugapi.Audience)
	ask := func(args ...string) (*debugapi.Answer, error) {
		out, err := env.Cluster.RunTool(t.Context(), plugin, append(args,
			"-o", "json", "-n", ns, "--scheduler-server", s.URL, "--scheduler-insecure-skip-tls-verify", "--scheduler-token", token)...)
		if err != nil {
			return nil, err
		}
		answer := &debugapi.Answer{}
		return answer, json.Unmarshal([]byte(out), answer)
	}
	fateOf := func(answer *debugapi.Answer, job string) (*debugapi.Fate, error) {
		for i := range answer.Jobs {
			if answer.Jobs[i].Job == "PodGroup "+ns+"/"+job {
				return answer.Jobs[i].Then, nil
			}
		}
		return nil, fmt.Errorf("no difference for %s: %+v", job, answer)
	}

	env.Create(t, group(ns, "runs", 1))
	env.Create(t, members(ns, "runs", "", 1, all)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "runs", 1) })
	waiting := group(ns, "waits", 2)
	env.Create(t, waiting)
	env.Create(t, members(ns, "waits", "", 2, all)...)
	env.Eventually(t, func() error { return waits(t, waiting, "InsufficientResources") })

	for name, args := range map[string][]string{
		"more nodes": {"what-if", "--add-nodes", "1", "--like", "ask-0"}, "without another": {"what-if", "--without", "runs"},
		"a lower minimum": {"what-if", "--set", "podgroup/waits.minMember=1"},
	} {
		answer, err := ask(args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if fate, err := fateOf(answer, "waits"); err != nil || fate.State != debugapi.FateStarts {
			t.Errorf("%s: %+v, %v", name, fate, err)
		}
	}
	answer, err := ask("when", "waits")
	if err != nil || len(answer.Jobs) != 1 || answer.Jobs[0].Now.State != debugapi.FateWaits {
		t.Errorf("when: %+v, %v", answer, err)
	}
	if _, err := ask("what-if", "--add-nodes", "1", "--like", "ask-7"); err == nil {
		t.Error("a node that is not there is supposed")
	}
	nodes := &corev1.NodeList{}
	if err := env.Client.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		if nodes.Items[i].Name == "ask-0-what-if-1" {
			t.Error("a supposed node exists")
		}
	}
	if err := errors.Join(boundOf(t, ns, "waits", 0), boundOf(t, ns, "runs", 1)); err != nil {
		t.Errorf("after the questions: %v", err)
	}

	captured := filepath.Join(t.TempDir(), "night.tutti")
	_, err = env.Cluster.RunTool(t.Context(), plugin, "capture", "-f", captured,
		"--scheduler-server", s.URL, "--scheduler-insecure-skip-tls-verify", "--scheduler-token", token)
	if err != nil {
		t.Fatal(err)
	}
	offline := func(args ...string) string {
		out, err := env.Cluster.RunTool(t.Context(), plugin, append(args, "--kubeconfig", os.DevNull)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := offline("replay", captured)
	if again := offline("replay", captured); again != first || !strings.Contains(first, ns+"/waits") || !strings.Contains(first, "InsufficientResources") {
		t.Errorf("a replay says\n%s\nand then\n%s", first, again)
	}
	answer = &debugapi.Answer{}
	if err := json.Unmarshal([]byte(offline("what-if", "--add-nodes", "1", "--like", "ask-0", "-o", "json", "--from", captured)), answer); err != nil {
		t.Fatal(err)
	}
	if fate, err := fateOf(answer, "waits"); err != nil || fate.State != debugapi.FateStarts {
		t.Errorf("asked of the capture: %+v, %v", fate, err)
	}

	env.Nodes(t, cluster.Nodes("ask-more", 1, devices)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "waits", 2) })
}
