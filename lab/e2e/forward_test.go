package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// kubelet is a node's part of port-forwards: whatever pod and port they are for, they lead to the address.
func kubelet(t *testing.T, address string) *httptest.Server {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if !strings.HasPrefix(request.URL.Path, "/portForward/") {
			http.NotFound(w, request)
			return
		}
		if _, err := httpstream.Handshake(request, w, []string{"portforward.k8s.io"}); err != nil {
			t.Error(err)
			return
		}
		streams := make(chan httpstream.Stream, 10)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, request, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if connection == nil {
			t.Error("the request for a port-forward became no connection")
			return
		}
		defer connection.Close()
		for {
			select {
			case <-connection.CloseChan():
				return
			case stream := <-streams:
				if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
					stream.Close()
				} else {
					go join(stream, address)
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func join(stream httpstream.Stream, address string) {
	defer stream.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, stream) }()
	_, _ = io.Copy(stream, to)
}

// operator makes an account with the chart's roles for operators, for a scheduler in that namespace, and returns its kubeconfig.
func operator(t *testing.T, namespace string) string {
	t.Helper()
	const name = "operator"
	about := metav1.ObjectMeta{Namespace: namespace, Name: name}
	env.Create(t, &corev1.ServiceAccount{ObjectMeta: about})
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}
	for _, object := range render(t, "--show-only", "templates/inspect.yaml") {
		switch kind := object.GetKind(); {
		case kind == "Role":
			var role rbacv1.Role
			convert(t, object, &role)
			env.Create(t, &rbacv1.Role{ObjectMeta: about, Rules: role.Rules}, &rbacv1.RoleBinding{
				ObjectMeta: about, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name},
			})
		case kind == "ClusterRole" && object.GetName() == "tutti-scheduler-inspect":
			var role rbacv1.ClusterRole
			convert(t, object, &role)
			mine := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Rules: role.Rules}
			binding := &rbacv1.ClusterRoleBinding{
				ObjectMeta: mine.ObjectMeta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: mine.Name},
			}
			env.Create(t, mine, binding)
			t.Cleanup(func() {
				_ = env.Client.Delete(context.WithoutCancel(t.Context()), binding)
				_ = env.Client.Delete(context.WithoutCancel(t.Context()), mine)
			})
		}
	}
	kubeconfig, err := env.Cluster.KubeconfigFor(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestAsksTheLeaderThroughTheAPIServer: with the chart's roles for operators, and no address, kubectl tutti finds the pod that leads
// and reaches it by a port-forward.
func TestAsksTheLeaderThroughTheAPIServer(t *testing.T) {
	scheduler := env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--scheduler-name=tutti-forward"}})
	port := kubelet(t, strings.TrimPrefix(scheduler.URL, "https://")).Listener.Addr().(*net.TCPAddr).Port
	env.Nodes(t, cluster.Node("forward-0", map[string]string{"cpu": "4"}, func(node *corev1.Node) {
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	}))
	ns := env.Namespace(t)
	env.Create(t, env.Pod(ns, "leader", harness.OnNode("forward-0"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8443}}
	}), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tutti-scheduler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("leader_4711")},
	})
	kubeconfig := operator(t, ns)
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, patience, func() error {
		text, err := harness.RunCommand(t.Context(), program, "nodes", "forward-0", "-o", "json", "--kubeconfig", kubeconfig,
			"--scheduler-namespace", ns)
		if err != nil {
			return err
		}
		var nodes debugapi.Nodes
		if err := json.Unmarshal([]byte(text), &nodes); err != nil {
			return err
		}
		return saysAll(text, nil, `"cpu": "4"`)
	})
}
