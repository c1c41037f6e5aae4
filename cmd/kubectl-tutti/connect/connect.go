// Package connect connects to the scheduler's own endpoint and gets its documents: by a given address, or by a port-forward
// through the API server to the leading pod. It does not interpret the documents.
package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options are the connection settings.
type Options struct {
	// Server is the address of the scheduler's endpoint, such as https://10.0.0.7:8443; empty makes a port-forward.
	Server string
	// Authority is a file with the CA certificates for Server; Insecure skips the check.
	Authority string
	Insecure  bool
	// Token is the bearer token; empty means the kubeconfig's.
	Token string
	// Account is a ServiceAccount, namespace/name, for which a token is requested from the API server; empty for none.
	Account string
	// Namespace is the scheduler's, and Lease the name of its Lease, for the port-forward.
	Namespace string
	Lease     string
}

// tokenSeconds is the lifetime of a requested token: the API server's minimum.
const tokenSeconds = 600

// Client is an open connection to the scheduler. Close ends it.
type Client struct {
	url    string
	what   string
	client *http.Client
	close  func()
}

// Connect opens the connection. config is the user's access to the API server, and is not changed.
func Connect(ctx context.Context, config *rest.Config, options Options) (*Client, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if options.Server != "" && !strings.HasPrefix(options.Server, "https://") { // else the token would be sent in plain text
		return nil, fmt.Errorf("--server %q: begin with https://", options.Server)
	}
	access, err := credentials(ctx, client, config, options)
	if err != nil {
		return nil, err
	}
	e := &Client{url: strings.TrimRight(options.Server, "/"), what: options.Server, close: func() {}}
	if options.Server == "" {
		// The connection goes through the API server to the pod that the Lease names, whose certificate is self-signed.
		access.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
		forwarded, err := forward(ctx, client, config, options)
		if err != nil {
			return nil, err
		}
		e.url, e.what, e.close = "https://"+forwarded.address, "pod "+forwarded.pod, forwarded.close
	}
	access.Host = e.url
	if e.client, err = rest.HTTPClientFor(access); err != nil {
		e.close()
		return nil, fmt.Errorf("client for the scheduler: %w", err)
	}
	return e, nil
}

// Close ends the port-forward.
func (e *Client) Close() {
	e.client.CloseIdleConnections()
	e.close()
}

// credentials returns the credentials and the trusted certificates.
func credentials(ctx context.Context, client kubernetes.Interface, config *rest.Config, options Options) (*rest.Config, error) {
	access := &rest.Config{
		TLSClientConfig: rest.TLSClientConfig{CAFile: options.Authority, Insecure: options.Insecure}, Timeout: 30 * time.Second,
		UserAgent: config.UserAgent,
	}
	switch {
	case options.Token != "":
		access.BearerToken = options.Token
	case options.Account != "":
		token, err := tokenOf(ctx, client, options.Account)
		if err != nil {
			return nil, err
		}
		access.BearerToken = token
	case config.BearerToken != "" || config.BearerTokenFile != "":
		access.BearerToken, access.BearerTokenFile = config.BearerToken, config.BearerTokenFile
	case config.ExecProvider != nil:
		access.ExecProvider = config.ExecProvider
	case config.AuthProvider != nil:
		access.AuthProvider, access.AuthConfigPersister = config.AuthProvider, config.AuthConfigPersister
	default:
		return nil, errors.New("your kubeconfig has no token, only a certificate or a password, which the scheduler cannot check; " +
			"say --account NAMESPACE/NAME to ask as a ServiceAccount, or --token")
	}
	return access, nil
}

func tokenOf(ctx context.Context, client kubernetes.Interface, account string) (string, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || namespace == "" || name == "" {
		return "", fmt.Errorf("--account %q: say NAMESPACE/NAME", account)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s: %w", account, err)
	}
	return answer.Status.Token, nil
}

// Get reads the document at a path into one of the types of internal/debugapi.
func (e *Client) Get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	if err != nil {
		return fmt.Errorf("ask the scheduler: %w", err)
	}
	answer, err := e.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the scheduler (%s): %w%s", e.what, err, connectHint(err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("ask the scheduler (%s): %w", e.what, err)
	}
	said := strings.TrimSpace(string(text))
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return fmt.Errorf("the scheduler (%s) does not know who you are: %s", e.what, said)
	case http.StatusForbidden:
		return fmt.Errorf("the scheduler (%s) does not let you: %s; the ClusterRole tutti-scheduler-inspect of the chart does", e.what, said)
	case http.StatusNotFound:
		return fmt.Errorf("the scheduler (%s) does not know %s: it is older than this command", e.what, path)
	default:
		return fmt.Errorf("the scheduler (%s) answers %s: %s", e.what, answer.Status, said)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("answer of the scheduler (%s): %w", e.what, err)
	}
	return nil
}

// connectHint returns a hint for a TLS error.
func connectHint(err error) string {
	if strings.Contains(err.Error(), "x509:") {
		return "; its certificate is not signed by a known authority: set --certificate-authority, or --insecure-skip-tls-verify"
	}
	return ""
}
