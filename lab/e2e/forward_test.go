package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/version"
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

// inspectable makes what the chart has for kubectl tutti, for a scheduler in that namespace: the ConfigMap for its certificate,
// and the account with the right to what it shows.
func inspectable(t *testing.T, namespace string) {
	t.Helper()
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: debugapi.ConfigMap}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: debugapi.Account}})
	for _, object := range render(t, "--show-only", "templates/inspect.yaml") {
		if object.GetKind() != "ClusterRole" || object.GetName() != "tutti-scheduler-inspect" {
			continue
		}
		var role rbacv1.ClusterRole
		convert(t, object, &role)
		mine := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Rules: role.Rules}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: mine.ObjectMeta, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: debugapi.Account}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: object.GetKind(), Name: mine.Name},
		}
		env.Create(t, mine, binding)
		t.Cleanup(func() {
			_ = env.Client.Delete(context.WithoutCancel(t.Context()), binding)
			_ = env.Client.Delete(context.WithoutCancel(t.Context()), mine)
		})
	}
}

// operator makes an account with the chart's Role for operators, for a scheduler in that namespace, and returns its kubeconfig.
func operator(t *testing.T, namespace string) string {
	t.Helper()
	const name = "operator"
	about := metav1.ObjectMeta{Namespace: namespace, Name: name}
	env.Create(t, &corev1.ServiceAccount{ObjectMeta: about})
	for _, object := range render(t, "--show-only", "templates/inspect.yaml") {
		if object.GetKind() != "Role" {
			continue
		}
		var role rbacv1.Role
		convert(t, object, &role)
		env.Create(t, &rbacv1.Role{ObjectMeta: about, Rules: role.Rules}, &rbacv1.RoleBinding{
			ObjectMeta: about, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: object.GetKind(), Name: name},
		})
	}
	kubeconfig, err := env.Cluster.KubeconfigFor(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// leaderAt makes a node, a pod on it that holds the Lease, and lets port-forwards to the pod lead to an address.
func leaderAt(t *testing.T, namespace, node, address string) {
	t.Helper()
	port := kubelet(t, address).Listener.Addr().(*net.TCPAddr).Port
	env.Nodes(t, cluster.Node(node, map[string]string{"cpu": "4"}, func(node *corev1.Node) {
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	}))
	env.Create(t, env.Pod(namespace, "leader", harness.OnNode(node), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8443}}
	}), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tutti-scheduler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("leader_4711")},
	})
}

// TestAsksTheLeaderThroughTheAPIServer: with the chart's Role for operators, and no address, kubectl tutti finds the pod that
// leads, reaches it by a port-forward, and checks the certificate that it has published.
func TestAsksTheLeaderThroughTheAPIServer(t *testing.T) {
	ns := env.Namespace(t)
	inspectable(t, ns)
	scheduler := env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--scheduler-name=tutti-forward", "--leader-elect-namespace=" + ns}})
	leaderAt(t, ns, "forward-0", strings.TrimPrefix(scheduler.URL, "https://"))
	kubeconfig := operator(t, ns)
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error {
		text, err := harness.RunCommand(t.Context(), program, "get", "nodes", "forward-0", "-o", "json", "--kubeconfig", kubeconfig,
			"--scheduler-namespace", ns)
		if err != nil {
			return err
		}
		var nodes debugapi.NodeList
		if err := json.Unmarshal([]byte(text), &nodes); err != nil {
			return err
		}
		return saysAll(text, nil, `"cpu": "4"`)
	})
	text, err := harness.RunCommand(t.Context(), program, "version", "--kubeconfig", kubeconfig, "--scheduler-namespace", ns)
	if err := saysAll(text, err, "kubectl tutti: "+version.Number(), "scheduler:     "+version.Number()); err != nil {
		t.Error(err)
	}
}

// TestAStolenSchedulerReceivesNothingOfUse: what kubectl tutti sends to who has taken over the leading scheduler, its certificate
// included, is one token, and the API server knows it for nothing.
func TestAStolenSchedulerReceivesNothingOfUse(t *testing.T) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey(debugapi.ServerName, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan http.Header, 10)
	thief := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		received <- request.Header
		fmt.Fprint(w, "{}")
	}))
	thief.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	thief.StartTLS()
	t.Cleanup(thief.Close)
	ns := env.Namespace(t)
	inspectable(t, ns)
	leaderAt(t, ns, "stolen-0", thief.Listener.Addr().String())
	if _, err := env.Clientset.CoreV1().ConfigMaps(ns).Update(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: debugapi.ConfigMap}, Data: map[string]string{debugapi.CertificateKey: string(certificate)},
	}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := operator(t, ns)
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error {
		_, err := harness.RunCommand(t.Context(), program, "get", "nodes", "-o", "json", "--kubeconfig", kubeconfig, "--scheduler-namespace", ns)
		if len(received) > 0 {
			return nil // what is answered is no list, which is an error of its own
		}
		return err
	})
	header := <-received
	token, isBearer := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	if !isBearer {
		t.Fatalf("it received %v", header)
	}
	access := rest.AnonymousClientConfig(env.Cluster.Config())
	access.BearerToken = token
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the API server answers the token: %v", err)
	}
	operators, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range operators.AuthInfos {
		if user.Token == "" || strings.Contains(fmt.Sprint(header), user.Token) {
			t.Errorf("the operator's token was sent, or there is none: %v", header)
		}
	}
}
