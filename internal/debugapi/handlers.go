package debugapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The paths of the documents. They are what roles name under nonResourceURLs.
const (
	PathNodes  = "/debug/nodes"
	PathQueues = "/debug/queues"
	PathCycles = "/debug/cycles"
	PathConfig = "/debug/config"
	// PathDomains is that of the domains of all levels.
	PathDomains = "/debug/domains"
	// PathRefusals wants the parameters namespace and name.
	PathRefusals = "/debug/refusals"
)

// How a client is authenticated, and how it knows that it talks to the scheduler that leads.
const (
	// Audience is the one that a token for these paths must be for. The API server refuses such a token, so that who receives it
	// can do nothing else with it.
	Audience = "tutti-scheduler"
	// Account is the ServiceAccount, in the scheduler's namespace, that may get these paths.
	Account = "tutti-scheduler-inspect"
	// ConfigMap, in the same namespace, has the certificate of the scheduler that leads, as PEM text under CertificateKey.
	// ServerName is the name to ask for: to a client that asks for it, a scheduler shows that certificate.
	ConfigMap      = "tutti-scheduler-certificate"
	CertificateKey = "ca.crt"
	ServerName     = "debug.tutti.dev"
)

// patience is how long a request waits for a loop that is busy.
const patience = 10 * time.Second

// Source answers with documents. Its functions are called by many goroutines at the same time and must not be nil; what they
// return is never changed.
type Source struct {
	// Nodes, Queues, Domains and Refusals return an error when the context ends before the loop has had time.
	Nodes    func(context.Context) (*NodeList, error)
	Queues   func(context.Context) (*QueueList, error)
	Domains  func(context.Context) (*DomainList, error)
	Cycles   func() *CycleList
	Config   func() *ConfigList
	Refusals func(ctx context.Context, namespace, name string) (*RefusalList, error)
}

// Handlers returns what serves the documents, by path.
func (s Source) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		PathNodes:   handler(func(ctx context.Context, _ url.Values) (document, error) { return s.Nodes(ctx) }),
		PathQueues:  handler(func(ctx context.Context, _ url.Values) (document, error) { return s.Queues(ctx) }),
		PathDomains: handler(func(ctx context.Context, _ url.Values) (document, error) { return s.Domains(ctx) }),
		PathCycles:  handler(func(context.Context, url.Values) (document, error) { return s.Cycles(), nil }),
		PathConfig:  handler(func(context.Context, url.Values) (document, error) { return s.Config(), nil }),
		PathRefusals: handler(func(ctx context.Context, asked url.Values) (document, error) {
			return s.Refusals(ctx, asked.Get("namespace"), asked.Get("name"))
		}),
	}
}

// document is a list that is served, as itself or as the table of its columns.
type document interface{ Table() *Table }

// handler serves a list, or its table where the request accepts one as the API server's clients say it: as=Table.
func handler(get func(context.Context, url.Values) (document, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
			return
		}
		ctx, cancel := context.WithTimeout(request.Context(), patience)
		defer cancel()
		list, err := get(ctx, request.URL.Query())
		if err != nil {
			http.Error(w, "the scheduler is busy: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		var answer any = list
		if strings.Contains(request.Header.Get("Accept"), "as=Table") {
			table := list.Table()
			if request.URL.Query().Get("includeObject") == string(metav1.IncludeObject) {
				err = table.include()
			}
			answer = table
		}
		text, errText := json.Marshal(answer)
		if err = errors.Join(err, errText); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(text) // the client may have gone
	})
}
