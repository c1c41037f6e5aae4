package extender

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/pkg/framework"
)

// extenderClient is one extender and the connection to it. It lives as long as the configuration.
//
// Invariant: only the session's goroutine uses the fields that change. Binds, which run on others, read options and client.
type extenderClient struct {
	options Options
	name    string
	client  *http.Client
	// timer measures the calls; nil measures none.
	timer atomic.Pointer[framework.CallTimer]

	// failures counts its consecutive errors, so that only the first and the last are logged.
	failures int
	// backoffUntil is until when it is not called, because a call about pods of one kind timed out; the other pods get
	// backoff as the error.
	backoffUntil time.Time
	backoff      error
	currentPod   requestKey
	// suspectPods are the kinds of calls that timed out while others were pending, and until when the others go first: a pod
	// that an extender never answers about must not delay all others.
	suspectPods map[requestKey]time.Time
}

const (
	// cycleBudget is for how long the calls of a cycle may have taken when another one is made, of all extenders and verbs together;
	// see framework.Budget. The first one has its whole httpTimeout: an extender that needs more than the budget for each answer
	// would never give one.
	cycleBudget = 5 * time.Second
	// maxTimeout is the longest httpTimeout.
	maxTimeout = 30 * time.Second
)

// backoffPeriod is for how long an extender is not called after a timeout: a call blocks the session, and all jobs.
const backoffPeriod = 5 * time.Second

func newRemote(options Options) (*extenderClient, error) {
	r := &extenderClient{options: options, name: name(options.URLPrefix), suspectPods: map[requestKey]time.Time{}}
	if r.options.Timeout == 0 {
		r.options.Timeout = defaultTimeout
	}
	if r.options.MaxResponseBytes == 0 {
		r.options.MaxResponseBytes = defaultResponse
	}
	secure, err := options.TLS.config()
	if err != nil {
		return nil, fmt.Errorf("extender %s: %w", r.name, err)
	}
	r.client = &http.Client{
		Transport: utilnet.SetTransportDefaults(&http.Transport{
			TLSClientConfig: secure, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
		}),
		CheckRedirect: noRedirect,
	}
	return r, nil
}

// noRedirect refuses redirects, which would send pods, nodes and credentials to another server.
func noRedirect(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	if next.URL.Host != first.Host || next.URL.Scheme != first.Scheme {
		return errors.New("it redirects to another host, which is not followed")
	}
	if len(before) >= 3 {
		return errors.New("it redirects again and again")
	}
	return nil
}

// config returns nil when there is nothing to set.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure}
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("caFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("caFile %s holds no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		read := func() (tls.Certificate, error) { return tls.LoadX509KeyPair(t.CertFile, t.KeyFile) }
		if _, err := read(); err != nil {
			return nil, fmt.Errorf("certFile and keyFile: %w", err)
		}
		// Read again for each connection: certificates are renewed at run time.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate, err := read()
			return &certificate, err
		}
	}
	return config, nil
}

// isInterested reports whether the extender is called for a pod at all: it manages a resource in the requests or limits of a
// container, or has no managed resources.
func (r *extenderClient) isInterested(pod *corev1.Pod) bool {
	if len(r.options.ManagedResources) == 0 {
		return true
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for _, managed := range r.options.ManagedResources {
				_, requested := containers[i].Resources.Requests[managed.Name]
				_, limited := containers[i].Resources.Limits[managed.Name]
				if requested || limited {
					return true
				}
			}
		}
	}
	return false
}

// ask is a call about pods of one kind within a session. It records failures and timeouts.
func ask[Answer any](r *extenderClient, c cycle, kind requestKey, verb string, question any) (Answer, error) {
	var none Answer
	if err := r.resting(c.now, kind); err != nil {
		return none, err
	}
	if !c.budget.Admit(kind, kind.namespace) {
		return none, later(verb)
	}
	timeout := c.budget.Timeout(r.options.Timeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var answer Answer
	var err error
	c.budget.Do(kind, kind.namespace, func() { answer, err = call[Answer](ctx, r, verb, question) })
	if errors.Is(err, context.DeadlineExceeded) && timeout < r.options.Timeout { // it might have answered in its own time
		c.budget.Cut(kind, kind.namespace)
		return none, later(verb)
	}
	r.observe(c.now, kind, verb, err)
	return answer, err
}

// later is the error of a call that is not made in this cycle.
func later(verb string) error {
	return fmt.Errorf("%s: not asked in this cycle, since other pods used its %s for calls of extenders; asked in a later one", verb, cycleBudget)
}

// resting returns why the extender is not called for such pods now, nil when it is.
func (r *extenderClient) resting(now time.Time, kind requestKey) error {
	if now.Before(r.backoffUntil) {
		if kind != r.currentPod {
			r.suspectPods[r.currentPod] = r.backoffUntil.Add(2 * (r.options.Timeout + backoffPeriod))
		}
		return r.backoff
	}
	if now.Before(r.suspectPods[kind]) {
		return r.backoff
	}
	delete(r.suspectPods, kind)
	return nil
}

func (r *extenderClient) observe(now time.Time, kind requestKey, verb string, err error) {
	switch {
	case err == nil && r.failures > 0:
		klog.Background().Info("Extender answers again", "extender", r.name, "failures", r.failures)
		r.failures = 0
	case err != nil:
		if r.failures == 0 {
			klog.Background().Info("Extender failed", "extender", r.name, "verb", verb, "reason", err.Error(),
				"ignorable", r.options.Ignorable)
		}
		r.failures++
	}
	if errors.Is(err, context.DeadlineExceeded) {
		r.backoffUntil, r.backoff, r.currentPod = now.Add(r.options.Timeout+backoffPeriod), err, kind
		maps.DeleteFunc(r.suspectPods, func(_ requestKey, until time.Time) bool { return !now.Before(until) })
	}
}

// call is exchange, measured.
func call[Answer any](ctx context.Context, r *extenderClient, verb string, question any) (Answer, error) {
	timer := r.timer.Load()
	if timer == nil {
		return exchange[Answer](ctx, r, verb, question)
	}
	began := timer.Now()
	answer, err := exchange[Answer](ctx, r, verb, question)
	result := "ok"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		result = "timeout"
	case err != nil:
		result = "error"
	}
	timer.Observe(r.name, verb, result, timer.Now().Sub(began))
	return answer, err
}

// exchange sends one request and reads one answer.
func exchange[Answer any](ctx context.Context, r *extenderClient, verb string, question any) (Answer, error) {
	var answer Answer
	body, err := json.Marshal(question)
	if err != nil {
		return answer, fmt.Errorf("%s: %w", verb, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	target := strings.TrimRight(r.options.URLPrefix, "/") + "/" + verb
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return answer, fmt.Errorf("%s: the request cannot be made", verb)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return answer, r.failed(ctx, verb, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s: it answers %d %s", verb, response.StatusCode, http.StatusText(response.StatusCode))
	}
	limited := &io.LimitedReader{R: response.Body, N: r.options.MaxResponseBytes + 1}
	switch err := json.NewDecoder(limited).Decode(&answer); {
	case limited.N == 0:
		return answer, fmt.Errorf("%s: its answer is longer than %d bytes (maxResponseBytes)", verb, r.options.MaxResponseBytes)
	case err != nil:
		return answer, r.failed(ctx, verb, err)
	}
	return answer, nil
}

// failure is an error with a text that stays the same while the reason does, since conditions show it: without our port and
// the URL. The cause shows whether the extender received the call.
type failure struct {
	text  string
	cause error
}

// Error returns the text.
func (f *failure) Error() string { return f.text }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.cause }

func (r *extenderClient) failed(ctx context.Context, verb string, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	var network *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		text = fmt.Sprintf("no answer within %s", r.options.Timeout)
	case errors.As(err, &network):
		text = fmt.Sprintf("%s: %s", network.Op, network.Err)
	}
	return &failure{text: verb + ": " + text, cause: err}
}
