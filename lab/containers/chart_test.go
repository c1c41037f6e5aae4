package containers

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestTheChartRunsAsPods: the images of `make image` run as the chart has them, one of two replicas leads, and the commands of
// the chart's notes do what they say, `helm test` among them. When the leader's container is killed, the other replica leads, and
// the first one comes back.
func TestTheChartRunsAsPods(t *testing.T) {
	env := lab(t)
	first := awaitLeader(t, env, "")
	ran := 0
	for command := range notes(t, env) {
		shell := exec.CommandContext(t.Context(), "sh", "-ec", command)
		tools := filepath.Dir(env.Cluster.Program(binaries.APIServer)) // kubectl and helm of this version, beside the server
		shell.Env = append(os.Environ(), "KUBECONFIG="+env.Cluster.Kubeconfig(), "PATH="+tools+":"+os.Getenv("PATH"))
		said, err := shell.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, said)
		}
		if strings.Contains(command, "holderIdentity") && !strings.HasPrefix(string(said), first) {
			t.Errorf("%s prints %q, want the leader %s", command, said, first)
		}
		ran++
	}
	if ran != 5 {
		t.Errorf("the notes have %d commands, want 5", ran)
	}
	p, err := get(t.Context(), env, release.Namespace, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := kill(t.Context(), env, p); err != nil {
		t.Fatal(err)
	}
	awaitLeader(t, env, first)
	eventuallyPod(t, env, release.Namespace, first, func(p *corev1.Pod) error {
		if status := p.Status.ContainerStatuses[0]; status.RestartCount == 0 || !status.Ready {
			return fmt.Errorf("%s: %d restarts, ready: %t", first, status.RestartCount, status.Ready)
		}
		return nil
	})
}

// TestAPortForwardReachesTheLeader: kubectl tutti, without an address, finds the pod that leads, and its kubelet and containerd
// carry what is asked and answered: a short answer, and a capture of the cluster.
func TestAPortForwardReachesTheLeader(t *testing.T) {
	env := lab(t)
	awaitLeader(t, env, "")
	plugin, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) string {
		text, err := harness.RunCommand(t.Context(), plugin, append(args, "--kubeconfig", env.Cluster.Kubeconfig())...)
		if err != nil {
			t.Fatalf("kubectl tutti %s: %v", strings.Join(args, " "), err)
		}
		return text
	}
	file := filepath.Join(t.TempDir(), "now.tutti")
	ask("capture", "-f", file)
	live, read := ask("get", "nodes"), ask("what-if", "--drain", "real-0", "--from", file)
	for _, m := range env.Cluster.Machines() {
		if !strings.Contains(live, m.Name()) {
			t.Errorf("get nodes does not name %s:\n%s", m.Name(), live)
		}
	}
	if !strings.Contains(read, "drained: real-0") {
		t.Errorf("the capture is not of this cluster:\n%s", read)
	}
}

// TestAWrongArgumentIsInTheLogOfTheCrashLoop: a scheduler that does not start says why in its last line, and the replicas of
// before stay until the new ones are ready.
func TestAWrongArgumentIsInTheLogOfTheCrashLoop(t *testing.T) {
	env := lab(t)
	before := replicas(t, env)
	_, err := env.Cluster.Kubectl(t.Context(), "patch", "deployment", release.Deployment, "--namespace", release.Namespace, "--type=json",
		`--patch=[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--bind-deadline=soon"}]`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := env.Cluster.Kubectl(context.Background(), "rollout", "undo", "deployment", release.Deployment, "--namespace", release.Namespace)
		if err != nil {
			t.Error(err)
		}
	})
	env.Eventually(t, func() error {
		pods, err := env.Pods(t.Context(), release.Namespace, client.MatchingLabels{"app.kubernetes.io/name": release.Deployment})
		if err != nil {
			return err
		}
		for _, p := range pods {
			for _, status := range p.Status.ContainerStatuses {
				if status.State.Waiting == nil || status.State.Waiting.Reason != "CrashLoopBackOff" {
					continue
				}
				if text := logs(t, env, p.Namespace, p.Name, ""); !strings.Contains(text, "--bind-deadline") || !strings.Contains(text, "soon") {
					t.Errorf("the log does not name the argument: %q", text)
				}
				return nil
			}
		}
		return fmt.Errorf("no pod is in a crash loop")
	})
	if after := replicas(t, env); !slices.Equal(before, after) {
		t.Errorf("ready replicas %v, before %v", after, before)
	}
}

// notes yields the commands that the installed chart tells its user to run.
func notes(t *testing.T, env *harness.Env) iter.Seq[string] {
	t.Helper()
	text, err := env.Cluster.Helm(t.Context(), "get", "notes", release.Name, "--namespace", release.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			command := strings.TrimSpace(line)
			if (strings.HasPrefix(command, "kubectl ") || strings.HasPrefix(command, "helm ")) && !yield(command) {
				return
			}
		}
	}
}

// TestMetricsThroughTheService: an account that metrics.readers names reads the metrics of each replica that the Service has,
// with a token of the API server; another account may not, and a request without a token is not known.
func TestMetricsThroughTheService(t *testing.T) {
	env := lab(t)
	ns := env.Namespace(t)
	upgrade(t, env, "--set", "metrics.service.enabled=true",
		"--set-json", fmt.Sprintf(`metrics.readers=[{"kind":"ServiceAccount","name":"prometheus","namespace":%q}]`, ns))
	addresses := map[string]bool{}
	env.Eventually(t, func() error {
		slices, err := env.Clientset.DiscoveryV1().EndpointSlices(release.Namespace).List(t.Context(), metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + release.Deployment + "-metrics",
		})
		if err != nil {
			return err
		}
		clear(addresses) // of a pod that is gone by now
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				addresses[endpoint.Addresses[0]] = true
			}
		}
		if len(addresses) != 2 {
			return fmt.Errorf("the Service has %d addresses, want those of 2 replicas", len(addresses))
		}
		return nil
	})
	// Without metrics.certificate no client can verify the certificate.
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	read := func(address, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+":8443/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := insecure.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	token := func(account string) string {
		env.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}})
		made, err := env.Clientset.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made.Status.Token
	}
	reader, other := token("prometheus"), token("other")
	for address := range addresses {
		if code, text := read(address, reader); code != http.StatusOK || !strings.Contains(text, "tutti_") {
			t.Errorf("%s answers %d to a reader: %.200s", address, code, text)
		}
		if code, text := read(address, other); code != http.StatusForbidden {
			t.Errorf("%s answers %d to another account, want 403: %.200s", address, code, text)
		}
		if code, text := read(address, ""); code != http.StatusUnauthorized {
			t.Errorf("%s answers %d without a token, want 401: %.200s", address, code, text)
		}
	}
}

// upgrade upgrades the release with additional values, until the test ends.
func upgrade(t *testing.T, env *harness.Env, values ...string) {
	t.Helper()
	chart, err := release.Chart()
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{"upgrade", release.Name, chart, "--namespace", release.Namespace, "--reuse-values", "--wait"}, values...)
	if _, err := env.Cluster.Helm(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := env.Cluster.Helm(context.Background(), "rollback", release.Name, "--namespace", release.Namespace, "--wait"); err != nil {
			t.Error(err)
		}
	})
}

// awaitLeader waits until a pod other than this one holds the Lease of the scheduler, and returns its name.
func awaitLeader(t *testing.T, env *harness.Env, other string) (name string) {
	t.Helper()
	env.Eventually(t, func() error {
		lease := &coordinationv1.Lease{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: release.Namespace, Name: release.Deployment}, lease); err != nil {
			return err
		}
		name, _, _ = strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		if name == other {
			return fmt.Errorf("the Lease is held by %q", name)
		}
		return nil
	})
	return name
}

// replicas are the names of the scheduler's pods that are ready, sorted.
func replicas(t *testing.T, env *harness.Env) []string {
	t.Helper()
	pods, err := env.Pods(t.Context(), release.Namespace, client.MatchingLabels{"app.kubernetes.io/name": release.Deployment})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range pods {
		if slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Ready }) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// kill ends the first process of a pod's container with SIGKILL, on its node.
func kill(ctx context.Context, env *harness.Env, p *corev1.Pod) error {
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	for _, m := range env.Cluster.Machines() {
		if m.Name() == p.Spec.NodeName {
			return m.KillContainer(ctx, id)
		}
	}
	return fmt.Errorf("no machine is named %q", p.Spec.NodeName)
}
