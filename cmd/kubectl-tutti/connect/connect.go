// Package connect connects to the scheduler's own endpoint and gets its documents: by a given address, or by a port-forward
// through the API server to the leading pod. It does not interpret the documents.
//
// The user's own credentials go to the API server alone. What the scheduler receives is a token of a ServiceAccount, for the
// scheduler's audience and for ten minutes, and only after it has shown the certificate that it has written to its ConfigMap.
package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/internal/debugapi"
)

// Options are the connection settings.
type Options struct {
	// Server is the address of the scheduler's endpoint, such as https://10.0.0.7:8443; empty makes a port-forward.
	Server string
	// Authority is a file with the CA certificates for Server; Insecure skips the check. Without both, the certificate must be
	// the one in the scheduler's ConfigMap. A port-forward uses neither.
	Authority string
	Insecure  bool
	// Token is the bearer token; empty means one of the scheduler's ServiceAccount, which the API server is asked for.
	Token string
	// Namespace is the scheduler's, and Lease the name of its Lease.
	Namespace string
	Lease     string
}

// tokenSeconds is the lifetime of a requested token: the API server's minimum.
const tokenSeconds = 600

// Client is an open connection to the scheduler. Close ends it.
type Client struct {
	what   string
	http   *http.Client
	client rest.Interface
	close  func()
}

// Connect opens the connection. config is the user's access to the API server, and is not changed. The Lease has expired when its
// time is over at now.
func Connect(ctx context.Context, config *rest.Config, options Options, now time.Time) (*Client, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	e := &Client{what: options.Server, close: func() {}}
	switch {
	case options.Server == "":
		options.Authority, options.Insecure = "", false
		address, err := e.forward(ctx, client, config, options, now)
		if err != nil {
			return nil, err
		}
		options.Server = "https://" + address
	case !strings.HasPrefix(options.Server, "https://"): // else the token would be sent in plain text
		return nil, fmt.Errorf("--scheduler-server %q: begin with https://", options.Server)
	}
	if err := e.open(ctx, client, options); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// open makes the client for the scheduler at options.Server. No credentials of the API server's client are in it.
func (e *Client) open(ctx context.Context, client kubernetes.Interface, options Options) error {
	access := &rest.Config{Host: options.Server, BearerToken: options.Token, Timeout: 30 * time.Second, UserAgent: "kubectl-tutti"}
	access.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	access.Wrap(func(inner http.RoundTripper) http.RoundTripper { return notForLong{inner} })
	var err error
	if access.TLSClientConfig, err = trust(ctx, client, options); err != nil {
		return err
	}
	if access.BearerToken == "" {
		if access.BearerToken, err = token(ctx, client, options.Namespace); err != nil {
			return err
		}
	}
	if e.http, err = rest.HTTPClientFor(access); err == nil {
		e.client, err = rest.UnversionedRESTClientForConfigAndClient(access, e.http)
	}
	if err != nil {
		return fmt.Errorf("client for the scheduler: %w", err)
	}
	return nil
}

// token requests a token of the scheduler's ServiceAccount for its operators, which no server but the scheduler accepts.
func token(ctx context.Context, client kubernetes.Interface, namespace string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{debugapi.Audience}, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, debugapi.Account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w%s", namespace, debugapi.Account, err, hint(err))
	}
	return answer.Status.Token, nil
}

// trust returns how the scheduler's certificate is checked.
func trust(ctx context.Context, client kubernetes.Interface, options Options) (rest.TLSClientConfig, error) {
	if options.Authority != "" || options.Insecure {
		return rest.TLSClientConfig{CAFile: options.Authority, Insecure: options.Insecure}, nil
	}
	published, err := client.CoreV1().ConfigMaps(options.Namespace).Get(ctx, debugapi.ConfigMap, metav1.GetOptions{})
	if err == nil && published.Data[debugapi.CertificateKey] == "" {
		err = errors.New("it is empty: no scheduler that leads has written its certificate yet")
	}
	if err != nil {
		return rest.TLSClientConfig{}, fmt.Errorf("certificate of the scheduler, in ConfigMap %s/%s: %w%s",
			options.Namespace, debugapi.ConfigMap, err, hint(err))
	}
	return rest.TLSClientConfig{CAData: []byte(published.Data[debugapi.CertificateKey]), ServerName: debugapi.ServerName}, nil
}

// hint says what to do about an error of the API server; empty for most.
func hint(err error) string {
	if apierrors.IsNotFound(err) {
		return "; where the scheduler is of an older version, use the kubectl tutti of that version; where it runs elsewhere, say " +
			"--scheduler-namespace"
	}
	return rights(err)
}

// Close ends the port-forward.
func (e *Client) Close() {
	e.http.CloseIdleConnections()
	e.close()
}

// Get reads the document at a path into one of the types of internal/debugapi. accept is the header of that name, empty for the
// list. What comes too early is asked again, after the time that the answer says, ten times at most: the scheduler limits the
// requests of one address, and all port-forwards to it have the same.
func (e *Client) Get(ctx context.Context, path, accept string, into any) error {
	return e.send(ctx, e.client.Get(), path, accept, into)
}

// Post sends a document to a path, and reads the answer as Get does.
func (e *Client) Post(ctx context.Context, path, accept string, document, into any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	return e.send(ctx, e.client.Post().SetHeader("Content-Type", "application/json").Body(text), path, accept, into)
}

func (e *Client) send(ctx context.Context, request *rest.Request, path, accept string, into any) error {
	text, err := request.RequestURI(path).SetHeader("Accept", cmp.Or(accept, "application/json")).DoRaw(ctx)
	said := strings.TrimSpace(string(text))
	switch refused, isAnswer := errors.AsType[*apierrors.StatusError](err); {
	case err == nil:
	case !isAnswer && strings.Contains(err.Error(), "x509:"):
		return fmt.Errorf("ask the scheduler (%s): %w; it is not the certificate that the scheduler that leads has written to its ConfigMap, or not of "+
			"--scheduler-certificate-authority: where another replica has just begun to lead, try again", e.what, err)
	case !isAnswer:
		return fmt.Errorf("ask the scheduler (%s): %w", e.what, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the scheduler (%s) does not accept the token: %s", e.what, said)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the scheduler (%s) refuses: %s; %w", e.what, said, errRefused)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the scheduler (%s) does not know %s: it is older than this command", e.what, path)
	default:
		code := int(refused.ErrStatus.Code)
		return fmt.Errorf("the scheduler (%s) answers %d %s: %s", e.what, code, http.StatusText(code), said)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("answer of the scheduler (%s): %w", e.what, err)
	}
	return nil
}

// maxRetryAfter is the longest time, in seconds, that an answer may say to wait. client-go sets no limit.
const maxRetryAfter = 10

// notForLong takes a longer time out of an answer, so that it is returned as the error that it is.
type notForLong struct{ http.RoundTripper }

func (n notForLong) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := n.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > maxRetryAfter {
		answer.Header.Del("Retry-After")
	}
	return answer, nil
}

// errRefused is part of what is said of a token without the right to get a path.
var errRefused = errors.New("the ClusterRole tutti-scheduler-inspect of the chart gives that right")

// LacksRight reports whether an error of Connect or Get says that the user lacks a right.
func LacksRight(err error) bool { return apierrors.IsForbidden(err) || errors.Is(err, errRefused) }
