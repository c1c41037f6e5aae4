package app

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tutti-sched/tutti/internal/debugapi"
)

// How long the API server's answers about tokens and rights are cached, and how long a request for one may take.
const (
	tokenFor   = time.Minute
	grantedFor = 5 * time.Minute
	deniedFor  = 30 * time.Second
	reviewFor  = 10 * time.Second
)

// newAuthHandler makes the filter in front of the endpoint. It lets a request through when the API server knows its token, and
// the user of the token may do what the request asks for. The token must be for the API server itself, as Prometheus' is, or,
// for what is below /debug, for the scheduler alone: a scheduler that was taken over receives no token there that is good for
// anything else. controller-runtime has a filter, too, which knows no audiences and answers 500 to an unknown token.
func newAuthHandler(config *rest.Config, client *http.Client) (server.Filter, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the limiter is in front
	tokens, err := authenticationv1.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("client for token reviews: %w", err)
	}
	rights, err := authorizationv1.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("client for access reviews: %w", err)
	}
	again := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 3}
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserver.AnonymousAuthConfig{Enabled: false}, CacheTTL: tokenFor,
		TokenAccessReviewClient: tokens, TokenAccessReviewTimeout: reviewFor, WebhookRetryBackoff: again,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	may, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: rights, AllowCacheTTL: grantedFor, DenyCacheTTL: deniedFor, WebhookRetryBackoff: again,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("authorization: %w", err)
	}
	limiter := newReviewLimiter()
	return func(log logr.Logger, behind http.Handler) (http.Handler, error) {
		return &authHandler{log: log, limiter: limiter, authenticator: who, authorizer: may, next: behind}, nil
	}, nil
}

// authHandler is in front of one path.
type authHandler struct {
	log           logr.Logger
	limiter       *reviewLimiter
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	next          http.Handler
}

// bearerToken returns the token of a request, empty when it has none.
func bearerToken(request *http.Request) string {
	words := strings.Fields(request.Header.Get("Authorization"))
	if len(words) != 2 || !strings.EqualFold(words[0], "Bearer") {
		return ""
	}
	return words[1]
}

// authenticate returns the user of the token; ok reports whether there is one. Without a token nothing is asked: the
// authenticator would also look where WebSockets have theirs.
func (d *authHandler) authenticate(request *http.Request, token string) (known *authenticator.Response, ok bool) {
	if token == "" {
		return nil, false
	}
	known, ok, err := d.authenticator.AuthenticateRequest(request)
	if err != nil {
		d.log.V(2).Info("A request could not be authenticated", "reason", err.Error())
	}
	return known, ok && err == nil
}

// ServeHTTP answers 401 to a request of an unknown user, 403 to one that its user may not make, 429 to one too many with a token
// that was not let through before, and 500 when the API server does not say whether the user may make it.
func (d *authHandler) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	unknown := "no bearer token that the API server knows"
	if strings.HasPrefix(request.URL.Path, "/debug/") {
		request = request.WithContext(authenticator.WithAudiences(request.Context(), authenticator.Audiences{debugapi.Audience}))
		unknown = fmt.Sprintf("no bearer token that the API server knows for the audience %q; a kubectl tutti of this version sends one",
			debugapi.Audience)
	}
	token := bearerToken(request)
	if token != "" && !d.limiter.allow(request, token) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests with tokens that were not let through before", http.StatusTooManyRequests)
		return
	}
	known, ok := d.authenticate(request, token)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, unknown, http.StatusUnauthorized)
		return
	}
	name := known.User.GetName()
	verb := strings.ToLower(request.Method)
	decision, reason, err := d.authorizer.Authorize(request.Context(), authorizer.AttributesRecord{
		User: known.User, Verb: verb, Path: request.URL.Path,
	})
	switch {
	case err != nil:
		d.log.Error(err, "The API server does not say whether a request is allowed", "user", name)
		http.Error(w, "the API server does not say whether this is allowed", http.StatusInternalServerError)
	case decision != authorizer.DecisionAllow:
		d.log.V(2).Info("A request is not allowed", "user", name, "reason", reason)
		http.Error(w, fmt.Sprintf("user %q cannot %s path %q", name, verb, request.URL.Path), http.StatusForbidden)
	default:
		d.limiter.passed(token)
		d.next.ServeHTTP(w, request)
	}
}
