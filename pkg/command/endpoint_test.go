package command

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tutti-sched/tutti/internal/debugapi"
)

// judge is an API server that knows two tokens: "good" of a user that may get everything that the endpoint serves, "poor" of a
// user that may get nothing.
func judge(t *testing.T) *httptest.Server {
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, request *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		if token := review.Spec.Token; token == "good" || token == "poor" {
			review.Status.Authenticated, review.Status.User.Username = true, token
		}
		answer(w, review)
	})
	mux.HandleFunc("/apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, request *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "good" && asked != nil && asked.Verb == "get"
		answer(w, review)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// serve runs the endpoint and returns its address.
func serve(t *testing.T, o *options) (address string) {
	t.Helper()
	o.metricsAddress = "127.0.0.1:0"
	s, err := server.NewServer(o.endpoint(debugapi.Source{
		Nodes: func(context.Context) (*debugapi.Nodes, error) {
			return &debugapi.Nodes{Nodes: []debugapi.Node{{Name: "n1"}}}, nil
		},
		Cycles: func() *debugapi.Cycles { return &debugapi.Cycles{Total: 7} },
		Config: func() *debugapi.Config { return &debugapi.Config{Source: "built in"} },
	}), &rest.Config{Host: judge(t).URL}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	bound, ok := s.(interface{ GetBindAddr() string })
	if !ok {
		t.Fatal("the server does not tell where it listens")
	}
	for bound.GetBindAddr() == "" {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.NewTimer(time.Millisecond).C:
		}
	}
	return bound.GetBindAddr()
}

// ask returns what the endpoint answers to a request.
func ask(t *testing.T, method, url, token string) (status int, text string, shown *tls.ConnectionState) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body), answer.TLS
}

// TestEndpointServesThoseWhoMay: a request gets nothing without a token that the API server knows, nor with the token of a user
// that may not get the path. The path is what the API server is asked about.
func TestEndpointServesThoseWhoMay(t *testing.T) {
	address := serve(t, &options{})
	for path, want := range map[string]string{
		"/metrics": "go_goroutines", debugapi.PathNodes: `"name":"n1"`, debugapi.PathCycles: `"total":7`,
		debugapi.PathConfig: `"source":"built in"`,
	} {
		for token, status := range map[string]int{
			"": http.StatusUnauthorized, "forged": http.StatusUnauthorized, "poor": http.StatusForbidden, "good": http.StatusOK,
		} {
			got, text, _ := ask(t, http.MethodGet, "https://"+address+path, token)
			if got != status {
				t.Errorf("%s with the token %q: status %d, want %d", path, token, got, status)
			}
			if strings.Contains(text, want) != (status == http.StatusOK) {
				t.Errorf("%s with the token %q: %.200s", path, token, text)
			}
		}
	}
	if status, _, _ := ask(t, http.MethodPost, "https://"+address+debugapi.PathNodes, "good"); status != http.StatusForbidden {
		t.Errorf("POST: status %d", status) // the API server was asked for another verb
	}
	if status, _, _ := ask(t, http.MethodGet, "http://"+address+"/metrics", "good"); status != http.StatusBadRequest {
		t.Errorf("without TLS: status %d", status)
	}
}

// TestEndpointShowsTheGivenCertificate instead of one that it makes.
func TestEndpointShowsTheGivenCertificate(t *testing.T) {
	dir := t.TempDir()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("given.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &options{certificates: dir, metricsAddress: ":8443"}
	if err := o.checkCertificates(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, certificateFile), certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.checkCertificates(); err != nil {
		t.Fatal(err)
	}
	_, _, shown := ask(t, http.MethodGet, "https://"+serve(t, o)+"/metrics", "")
	block, _ := pem.Decode(certificate)
	if string(shown.PeerCertificates[0].Raw) != string(block.Bytes) {
		t.Errorf("it shows the certificate of %v", shown.PeerCertificates[0].DNSNames)
	}
	_, _, made := ask(t, http.MethodGet, "https://"+serve(t, &options{})+"/metrics", "")
	if string(made.PeerCertificates[0].Raw) == string(block.Bytes) || made.Version != tls.VersionTLS13 {
		t.Errorf("without a folder: version %x of %v", made.Version, made.PeerCertificates[0].DNSNames)
	}
}
