package connect

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/tutti-sched/tutti/internal/debugapi"
)

// scheduler is an endpoint that accepts one token.
func scheduler(t *testing.T) *httptest.Server {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch request.Header.Get("Authorization") {
		case "Bearer good", "Bearer of-account":
		case "Bearer poor":
			http.Error(w, "user poor cannot", http.StatusForbidden)
			return
		default:
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		if request.URL.Path != debugapi.PathNodes {
			http.NotFound(w, request)
			return
		}
		if err := json.NewEncoder(w).Encode(debugapi.Nodes{Leading: true, Nodes: []debugapi.Node{{Name: "n1"}}}); err != nil {
			t.Error(err)
		}
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

// apiServer has a Lease, the pod that holds it, and forwards its port to an address. It supports the older of the two
// protocols.
func apiServer(t *testing.T, holder, address string, port int32) *rest.Config {
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/coordination.k8s.io/v1/namespaces/tutti-system/leases/tutti-scheduler", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, &coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
		})
	})
	mux.HandleFunc("/api/v1/namespaces/tutti-system/pods/scheduler-1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "tutti-system", Name: "scheduler-1"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
				{Name: "health", ContainerPort: 1}, {Name: "metrics", ContainerPort: port},
			}}}},
		})
	})
	mux.HandleFunc("/api/v1/namespaces/tutti-system/pods/scheduler-1/portforward", func(w http.ResponseWriter, request *http.Request) {
		serveForward(t, w, request, address, port)
	})
	mux.HandleFunc("/api/v1/namespaces/ops/serviceaccounts/asker/token", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, &authenticationv1.TokenRequest{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
			Status:   authenticationv1.TokenRequestStatus{Token: "of-account"},
		})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		answer(w, &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404,
		})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, BearerToken: "good"}
}

// serveForward is a kubelet's part of a port-forward of that port.
func serveForward(t *testing.T, w http.ResponseWriter, request *http.Request, address string, port int32) {
	if !httpstream.IsUpgradeRequest(request) || request.Method != http.MethodPost {
		http.Error(w, "the older protocol alone", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(request, w, []string{"portforward.k8s.io"}); err != nil {
		t.Error(err)
		return
	}
	streams := make(chan httpstream.Stream, 10)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, request, func(s httpstream.Stream, replied <-chan struct{}) error {
		streams <- s
		return nil
	})
	if connection == nil {
		t.Error("no connection was made of the request")
		return
	}
	defer connection.Close()
	for {
		select {
		case <-connection.CloseChan():
			return
		case stream := <-streams:
			if asked := stream.Headers().Get(corev1.PortHeader); asked != strconv.Itoa(int(port)) {
				t.Errorf("port %s of the pod was asked for, want %d", asked, port)
			}
			if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				stream.Close()
				continue
			}
			go join(stream, address)
		}
	}
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

func TestAsksThePodThatLeads(t *testing.T) {
	address := scheduler(t).Listener.Addr().String()
	config := apiServer(t, "scheduler-1_4711", address, 9443)
	endpoint, err := Connect(t.Context(), config, Options{Namespace: "tutti-system", Lease: "tutti-scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close()
	var nodes debugapi.Nodes
	for range 2 {
		if err := endpoint.Get(t.Context(), debugapi.PathNodes, &nodes); err != nil {
			t.Fatal(err)
		}
	}
	if len(nodes.Nodes) != 1 || nodes.Nodes[0].Name != "n1" || !nodes.Leading {
		t.Errorf("%+v", nodes)
	}
	if err := endpoint.Get(t.Context(), debugapi.PathCycles, &nodes); err == nil || !strings.Contains(err.Error(), "older than this command") {
		t.Errorf("an unknown path: %v", err)
	}
}

func TestSaysWhyThereIsNoWay(t *testing.T) {
	for name, c := range map[string]struct {
		holder  string
		options Options
		config  func(*rest.Config)
		want    string
	}{
		"no lease":      {"scheduler-1_1", Options{Namespace: "other", Lease: "tutti-scheduler"}, nil, "no Lease tutti-scheduler in namespace other"},
		"no leader":     {"", Options{Namespace: "tutti-system", Lease: "tutti-scheduler"}, nil, "no scheduler holds the Lease"},
		"no pod":        {"laptop_1", Options{Namespace: "tutti-system", Lease: "tutti-scheduler"}, nil, `"laptop", which is no pod`},
		"no token":      {"scheduler-1_1", Options{Server: "https://x"}, func(c *rest.Config) { c.BearerToken = "" }, "has no token"},
		"no scheme":     {"", Options{Server: "10.0.0.7:8443"}, nil, "begin with https://"},
		"in the clear":  {"", Options{Server: "http://10.0.0.7:8443"}, nil, "begin with https://"},
		"bad account":   {"scheduler-1_1", Options{Server: "https://x", Account: "asker"}, nil, "say NAMESPACE/NAME"},
		"wrong account": {"scheduler-1_1", Options{Server: "https://x", Account: "ops/reader"}, nil, "token of ServiceAccount ops/reader"},
	} {
		t.Run(name, func(t *testing.T) {
			config := apiServer(t, c.holder, "", 1)
			if c.config != nil {
				c.config(config)
			}
			_, err := Connect(t.Context(), config, c.options)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestAsksAServerThatIsGiven(t *testing.T) {
	s := scheduler(t)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	text, err := certutil.EncodeCertificates(s.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options Options
		// want is part of the error; empty when there is none.
		want string
	}{
		"its authority":    {Options{Authority: authority}, ""},
		"unchecked":        {Options{Insecure: true}, ""},
		"unknown":          {Options{}, "--certificate-authority"},
		"forged token":     {Options{Authority: authority, Token: "forged"}, "does not know who you are"},
		"poor token":       {Options{Authority: authority, Token: "poor"}, "tutti-scheduler-inspect"},
		"token of account": {Options{Authority: authority, Account: "ops/asker"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Server = s.URL
			endpoint, err := Connect(t.Context(), apiServer(t, "", "", 1), c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer endpoint.Close()
			var nodes debugapi.Nodes
			err = endpoint.Get(t.Context(), debugapi.PathNodes, &nodes)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
