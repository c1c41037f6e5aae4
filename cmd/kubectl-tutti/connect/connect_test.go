package connect

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/tutti-sched/tutti/internal/debugapi"
)

// scheduler is an endpoint that accepts one token, and shows the certificate of example.com. received has all that it was sent.
func scheduler(t *testing.T) (endpoint *httptest.Server, received func() []string) {
	var mu sync.Mutex
	var all []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		mu.Lock()
		all = append(all, fmt.Sprint(request.Header))
		mu.Unlock()
		switch request.Header.Get("Authorization") {
		case "Bearer of-account", "Bearer given":
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
		if err := json.NewEncoder(w).Encode(debugapi.NodeList{ListMeta: debugapi.ListMeta{Leading: true}, Items: []debugapi.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}}); err != nil {
			t.Error(err)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // bad certificates are intended here
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// certificate is one that a scheduler makes for itself, and that is good for addresses, too.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	text, key, err := certutil.GenerateSelfSignedCertKey(debugapi.ServerName, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(text, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func pemOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	text, err := certutil.EncodeCertificates(s.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// apiServer has a Lease, which was renewed at that time if any is given, the pod that holds it, the certificate that it has
// published, and forwards its port to an address. It supports the older of the two protocols.
func apiServer(t *testing.T, holder, address string, port int32, published string, renewed ...time.Time) *rest.Config {
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/coordination.k8s.io/v1/namespaces/tutti-system/leases/tutti-scheduler", func(w http.ResponseWriter, _ *http.Request) {
		lease := &coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}
		for _, at := range renewed {
			lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = new(metav1.NewMicroTime(at)), new(int32(15))
		}
		answer(w, lease)
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
	mux.HandleFunc("/api/v1/namespaces/tutti-system/configmaps/"+debugapi.ConfigMap, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{debugapi.CertificateKey: published},
		})
	})
	mux.HandleFunc("/api/v1/namespaces/tutti-system/serviceaccounts/"+debugapi.Account+"/token", func(w http.ResponseWriter, request *http.Request) {
		var asked authenticationv1.TokenRequest
		body, err := io.ReadAll(request.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &asked)
		}
		if err != nil {
			t.Error(err)
			return
		}
		if !slices.Equal(asked.Spec.Audiences, []string{debugapi.Audience}) || *asked.Spec.ExpirationSeconds != tokenSeconds {
			t.Errorf("a token is requested for %+v", asked.Spec)
		}
		asked.Status.Token = "of-account"
		answer(w, &asked)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		answer(w, &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404,
		})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, BearerToken: usersToken}
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

// usersToken is the user's own credential. It goes to the API server alone.
const usersToken = "of-the-user"

// TestAsksThePodThatLeads through a port-forward, and sends it nothing but the token of the ServiceAccount.
func TestAsksThePodThatLeads(t *testing.T) {
	s, received := scheduler(t)
	config := apiServer(t, "scheduler-1_4711", s.Listener.Addr().String(), 9443, pemOf(t, s))
	endpoint, err := Connect(t.Context(), config, Options{Namespace: "tutti-system", Lease: "tutti-scheduler"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close()
	var nodes debugapi.NodeList
	for range 2 {
		if err := endpoint.Get(t.Context(), debugapi.PathNodes, "", &nodes); err != nil {
			t.Fatal(err)
		}
	}
	if len(nodes.Items) != 1 || nodes.Items[0].Name != "n1" || !nodes.Leading {
		t.Errorf("%+v", nodes)
	}
	if err := endpoint.Get(t.Context(), debugapi.PathCycles, "", &nodes); err == nil || !strings.Contains(err.Error(), "older than this command") {
		t.Errorf("an unknown path: %v", err)
	}
	for _, request := range received() {
		if strings.Contains(request, usersToken) || !strings.Contains(request, "Bearer of-account") {
			t.Errorf("the scheduler was sent %s", request)
		}
	}
}

// TestSendsNothingToAnImpostor: what shows another certificate than the one that the leader has written receives no token,
// whatever the flags say of --scheduler-server's.
func TestSendsNothingToAnImpostor(t *testing.T) {
	leader, _ := scheduler(t)
	impostor, received := scheduler(t)
	config := apiServer(t, "scheduler-1_4711", impostor.Listener.Addr().String(), 9443, pemOf(t, leader))
	for name, options := range map[string]Options{
		"port-forward":               {Insecure: true},
		"port-forward, an authority": {Authority: file(t, pemOf(t, impostor))},
		"an address":                 {Server: impostor.URL},
	} {
		options.Namespace, options.Lease = "tutti-system", "tutti-scheduler"
		endpoint, err := Connect(t.Context(), config, options, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		defer endpoint.Close()
		err = endpoint.Get(t.Context(), debugapi.PathNodes, "", &debugapi.NodeList{})
		if err == nil || !strings.Contains(err.Error(), "has written to its ConfigMap") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if got := received(); len(got) > 0 {
		t.Errorf("it was sent %v", got)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSaysWhyThereIsNoWay(t *testing.T) {
	for name, c := range map[string]struct {
		holder  string
		options Options
		want    string
	}{
		"no lease":       {"scheduler-1_1", Options{Namespace: "other"}, "no Lease tutti-scheduler in namespace other"},
		"no election":    {"scheduler-1_1", Options{Namespace: "other"}, "(leaderElection.enabled=false) has none, and takes --scheduler-server"},
		"no leader":      {"", Options{}, "no scheduler holds the Lease"},
		"no pod":         {"laptop_1", Options{}, `"laptop", which is no pod`},
		"no scheme":      {"", Options{Server: "10.0.0.7:8443"}, "begin with https://"},
		"in the clear":   {"", Options{Server: "http://10.0.0.7:8443"}, "begin with https://"},
		"no certificate": {"", Options{Server: "https://x"}, "it is empty: no scheduler that leads has written its certificate yet"},
		"older chart":    {"", Options{Server: "https://x", Namespace: "other"}, "an older version, use the kubectl tutti of that version"},
		"no account":     {"", Options{Server: "https://x", Namespace: "other", Insecure: true}, "token of ServiceAccount other/tutti-scheduler-inspect"},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Namespace, c.options.Lease = cmp.Or(c.options.Namespace, "tutti-system"), "tutti-scheduler"
			_, err := Connect(t.Context(), apiServer(t, c.holder, "", 1, ""), c.options, time.Now())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestSaysWhoLedLast where the pod is gone that holds the Lease, and the Lease has expired: it does not say that one leads.
func TestSaysWhoLedLast(t *testing.T) {
	for want, renewed := range map[string]time.Time{
		"no scheduler leads: the Lease tutti-system/tutti-scheduler was renewed last at 2026-01-05T09:00:00Z, by scheduler-0": time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC),
		`the scheduler that leads is "scheduler-0", which is no pod`:                                                          time.Now().Add(time.Hour),
	} {
		config := apiServer(t, "scheduler-0_1", "", 1, "", renewed)
		_, err := Connect(t.Context(), config, Options{Namespace: "tutti-system", Lease: "tutti-scheduler"}, time.Now())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestAsksAServerThatIsGiven(t *testing.T) {
	s, received := scheduler(t)
	for name, c := range map[string]struct {
		options Options
		// want is part of the error; empty when there is none.
		want string
	}{
		"its ConfigMap": {Options{}, ""},
		"its authority": {Options{Authority: file(t, pemOf(t, s))}, ""},
		"unchecked":     {Options{Insecure: true}, ""},
		"given token":   {Options{Token: "given"}, ""},
		"forged token":  {Options{Token: "forged"}, "does not accept the token: who?"},
		"poor token":    {Options{Token: "poor"}, "tutti-scheduler-inspect"},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Server, c.options.Namespace = s.URL, "tutti-system"
			endpoint, err := Connect(t.Context(), apiServer(t, "", "", 1, pemOf(t, s)), c.options, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			defer endpoint.Close()
			var nodes debugapi.NodeList
			err = endpoint.Get(t.Context(), debugapi.PathNodes, "", &nodes)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if sent := strings.Join(received(), "\n"); strings.Contains(sent, usersToken) {
		t.Errorf("the scheduler was sent %s", sent)
	}
}

// TestRepeatsWhatCameTooEarly: an answer 429 says when to make the request again.
func TestRepeatsWhatCameTooEarly(t *testing.T) {
	for name, c := range map[string]struct {
		busy, want int // requests answered 429, and requests made
		header     string
		fails      bool
	}{
		"twice":          {busy: 2, want: 3, header: "0"},
		"always":         {busy: 1000, want: 11, header: "0", fails: true},
		"without a time": {busy: 1, want: 1, fails: true},
		"in an hour":     {busy: 1, want: 1, header: "3600", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			made := 0
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if made++; made > c.busy {
					io.WriteString(w, `{"leading":true}`)
					return
				}
				w.Header().Set("Retry-After", c.header)
				http.Error(w, "too many", http.StatusTooManyRequests)
			}))
			defer s.Close()
			endpoint, err := Connect(t.Context(), &rest.Config{}, Options{Server: s.URL, Insecure: true, Token: "t"}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var nodes debugapi.NodeList
			if err := endpoint.Get(t.Context(), debugapi.PathNodes, "", &nodes); (err != nil) != c.fails || made != c.want {
				t.Errorf("%d requests, error %v; want %d, and an error: %v", made, err, c.want, c.fails)
			}
		})
	}
}
