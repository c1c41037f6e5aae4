package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tutti-sched/tutti/internal/debugapi"
)

// judge is an API server that knows tokens: "good" and "poor" are for itself, "inspect" and "stranger" for the scheduler. The
// users "good" and "inspect" may get everything that the endpoint serves and post
// questions, the others nothing.
type judge struct {
	*httptest.Server
	// reviews counts the reviews of tokens.
	reviews atomic.Int64
}

func newJudge(t *testing.T) *judge {
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	s := &judge{}
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, request *http.Request) {
		s.reviews.Add(1)
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		audience := map[string]string{"good": "", "poor": "", "inspect": debugapi.Audience, "stranger": debugapi.Audience}
		of, known := audience[review.Spec.Token]
		if asked := strings.Join(review.Spec.Audiences, ","); known && of == asked {
			review.Status.Authenticated, review.Status.User.Username, review.Status.Audiences = true, review.Spec.Token, review.Spec.Audiences
		}
		answer(w, review)
	})
	mux.HandleFunc("/apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, request *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = (review.Spec.User == "good" || review.Spec.User == "inspect") && asked != nil &&
			asked.Verb == map[bool]string{false: "get", true: "post"}[asked.Path == debugapi.PathAsk]
		answer(w, review)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// serve runs the endpoint and returns its address, its own certificate, and who judges the requests.
func serve(t *testing.T, o *options) (address string, own *tls.Certificate, judge *judge) {
	t.Helper()
	o.metricsAddress = "127.0.0.1:0"
	own, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	judge = newJudge(t)
	s, err := server.NewServer(o.endpoint(debugapi.Source{
		Nodes: func(context.Context) (*debugapi.NodeList, error) {
			return &debugapi.NodeList{Items: []debugapi.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}}, nil
		},
		Ask: func(_ context.Context, question *debugapi.Question) (*debugapi.Answer, error) {
			return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d changes", len(question.Changes)), 7)
		},
		Cycles: func() *debugapi.CycleList { return &debugapi.CycleList{Total: 7} },
		Config: func() *debugapi.ConfigList { return debugapi.NewConfigList(debugapi.Config{Source: "built in"}, true) },
	}, own), &rest.Config{Host: judge.URL}, http.DefaultClient)
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
	return bound.GetBindAddr(), own, judge
}

// ask returns what the endpoint answers to a request.
func ask(t *testing.T, method, url, token string) (status int, text string, shown *tls.ConnectionState) {
	t.Helper()
	return send(t, method, url, token, "")
}

// send is ask with a document.
func send(t *testing.T, method, url, token, document string) (status int, text string, shown *tls.ConnectionState) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(document))
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
// that may not get the path. The path is what the API server is asked about. Below /debug only a token for the scheduler is
// known, for the metrics only one for the API server.
func TestEndpointServesThoseWhoMay(t *testing.T) {
	address, _, _ := serve(t, &options{})
	const yes, unknown, no = http.StatusOK, http.StatusUnauthorized, http.StatusForbidden
	for path, want := range map[string]string{
		"/metrics": "go_goroutines", debugapi.PathNodes: `"name":"n1"`, debugapi.PathCycles: `"total":7`,
		debugapi.PathConfig: `"source":"built in"`,
	} {
		for token, of := range map[string]struct{ metrics, debug int }{
			"": {unknown, unknown}, "forged": {unknown, unknown}, "poor": {no, unknown}, "good": {yes, unknown},
			"stranger": {unknown, no}, "inspect": {unknown, yes},
		} {
			status := of.debug
			if path == "/metrics" {
				status = of.metrics
			}
			got, text, _ := ask(t, http.MethodGet, "https://"+address+path, token)
			if got != status {
				t.Errorf("%s with the token %q: status %d, want %d", path, token, got, status)
			}
			if strings.Contains(text, want) != (status == yes) {
				t.Errorf("%s with the token %q: %.200s", path, token, text)
			}
			if status == unknown && path != "/metrics" && !strings.Contains(text, `for the audience "tutti-scheduler"; a kubectl tutti of this version`) {
				t.Errorf("%s with the token %q does not say what to do: %s", path, token, text)
			}
		}
	}
	if status, _, _ := ask(t, http.MethodPost, "https://"+address+debugapi.PathNodes, "inspect"); status != no {
		t.Errorf("POST: status %d", status) // the API server was asked for another verb
	}
	for token, want := range map[string]int{"": unknown, "forged": unknown, "good": unknown, "stranger": no, "inspect": http.StatusTooManyRequests} {
		status, text, _ := send(t, http.MethodPost, "https://"+address+debugapi.PathAsk, token, `{"changes": [{}]}`)
		if status != want || (want == http.StatusTooManyRequests) != strings.Contains(text, "1 changes") {
			t.Errorf("a question with the token %q: status %d, want %d: %s", token, status, want, text)
		}
	}
	if status, _, _ := ask(t, http.MethodGet, "https://"+address+debugapi.PathAsk, "inspect"); status != no {
		t.Errorf("GET of the path of questions: status %d", status)
	}
	if status, text, _ := send(t, http.MethodPost, "https://"+address+debugapi.PathAsk, "inspect", `{"change": []}`); status != http.StatusBadRequest {
		t.Errorf("a question that cannot be read: status %d: %s", status, text)
	}
	if status, _, _ := ask(t, http.MethodGet, "http://"+address+"/metrics", "good"); status != http.StatusBadRequest {
		t.Errorf("without TLS: status %d", status)
	}
}

// TestAFloodOfTokensCostsFewReviews, and does not keep out who was let in before.
func TestAFloodOfTokensCostsFewReviews(t *testing.T) {
	address, _, judge := serve(t, &options{})
	url := "https://" + address + "/metrics"
	if status, text, _ := ask(t, http.MethodGet, url, "good"); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	refused := 0
	for i := range 3 * addressBurst {
		switch status, text, _ := ask(t, http.MethodGet, url, fmt.Sprint("random-", i)); status {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusUnauthorized:
		default:
			t.Errorf("a random token: status %d: %s", status, text)
		}
	}
	if refused == 0 || judge.reviews.Load()+int64(refused) != 1+3*addressBurst {
		t.Errorf("%d reviews, %d requests were refused before", judge.reviews.Load(), refused)
	}
	if status, text, _ := ask(t, http.MethodGet, url, "good"); status != http.StatusOK {
		t.Errorf("who was let in before: status %d: %s", status, text)
	}
}

// TestOneAddressDoesNotUseUpWhatOthersMayAsk, but all of them together do; what was let through once is asked for as often as it
// comes.
func TestOneAddressDoesNotUseUpWhatOthersMayAsk(t *testing.T) {
	l := newReviewLimiter()
	from := func(address string) *http.Request { return &http.Request{RemoteAddr: address + ":4711"} }
	allowed := func(address string, n int) (count int) {
		for range n {
			if l.allow(from(address), "unknown") {
				count++
			}
		}
		return count
	}
	if n := allowed("10.0.0.1", 1000); n < addressBurst || n > 2*addressBurst-1 {
		t.Errorf("one address: %d reviews", n)
	}
	if !l.allow(from("10.0.0.2"), "unknown") {
		t.Error("another address is refused")
	}
	total := 0
	for i := range 200 {
		total += allowed(fmt.Sprintf("10.0.1.%d", i), addressBurst)
	}
	if total > 2*overallBurst {
		t.Errorf("all addresses: %d reviews", total)
	}
	if l.allow(from("10.0.0.3"), "first") {
		t.Error("there is no limit over all")
	}
	l.passed("known")
	if !l.allow(from("10.0.0.1"), "known") {
		t.Error("a token that was let through is refused")
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
	address, own, _ := serve(t, o)
	_, _, shown := ask(t, http.MethodGet, "https://"+address+"/metrics", "")
	block, _ := pem.Decode(certificate)
	if string(shown.PeerCertificates[0].Raw) != string(block.Bytes) {
		t.Errorf("it shows the certificate of %v", shown.PeerCertificates[0].DNSNames)
	}
	assertShows(t, address, own) // to kubectl tutti
	address, own, _ = serve(t, &options{})
	_, _, made := ask(t, http.MethodGet, "https://"+address+"/metrics", "")
	if string(made.PeerCertificates[0].Raw) != string(own.Certificate[0]) || made.Version != tls.VersionTLS13 {
		t.Errorf("without a folder: version %x of %v", made.Version, made.PeerCertificates[0].DNSNames)
	}
	assertShows(t, address, own)
}

// assertShows wants a client that trusts this certificate alone, and asks for the name of the debug documents, to be served.
func assertShows(t *testing.T, address string, own *tls.Certificate) {
	t.Helper()
	leaf, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: debugapi.ServerName})
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
}

// TestTheLeaderPublishesItsCertificate: nothing before it is elected; then until it is written.
func TestTheLeaderPublishesItsCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, err := selfSigned()
		if err != nil {
			t.Fatal(err)
		}
		const namespace = "tutti-system"
		client := fake.NewClientset()
		p := &process{certificate: own, published: client.CoreV1().ConfigMaps(namespace)}
		elected, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- p.publish(t.Context(), elected) }()
		synctest.Wait()
		if n := len(client.Actions()); n > 0 {
			t.Errorf("%d requests before it is elected", n)
		}
		close(elected)
		synctest.Wait() // there is no ConfigMap yet
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: debugapi.ConfigMap}}
		if _, err := p.published.Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		published, err := p.published.Get(t.Context(), debugapi.ConfigMap, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode([]byte(published.Data[debugapi.CertificateKey]))
		if block == nil || string(block.Bytes) != string(own.Certificate[0]) {
			t.Errorf("published: %v", published.Data)
		}
	})
}

// TestWhereTheCertificateIsPublished: in the scheduler's namespace, and nowhere without one.
func TestWhereTheCertificateIsPublished(t *testing.T) {
	for name, c := range map[string]struct {
		o    options
		want bool
	}{
		"the chart's":                   {options{leaderElect: true, leaderNamespace: "a"}, true},
		"without an election":           {options{leaderNamespace: "a"}, true},
		"beside a cluster":              {options{leaderElect: true, kubeconfig: "k"}, true},
		"beside a cluster, no election": {options{kubeconfig: "k"}, false},
		"no endpoint":                   {options{leaderElect: true, leaderNamespace: "a", metricsAddress: "0"}, false},
		"outside, no election":          {options{}, false},
	} {
		p := &process{}
		if err := c.o.certify(p, &rest.Config{}); err != nil || (p.published != nil) != c.want {
			t.Errorf("%s: %v, published %v, want %v", name, err, p.published != nil, c.want)
		}
	}
}
