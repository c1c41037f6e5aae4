package debugapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// The paths of the documents. They are what roles name under nonResourceURLs.
const (
	PathNodes  = "/debug/nodes"
	PathQueues = "/debug/queues"
	PathCycles = "/debug/cycles"
	PathConfig = "/debug/config"
	// PathTopology is that of the domains of all levels.
	PathTopology = "/debug/topology"
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
	// Nodes, Queues and Topologies return an error when the context ends before the loop has had time.
	Nodes      func(context.Context) (*Nodes, error)
	Queues     func(context.Context) (*Queues, error)
	Topologies func(context.Context) (*Topologies, error)
	Cycles     func() *Cycles
	Config     func() *Config
	// Refusals returns an error as Nodes does.
	Refusals func(ctx context.Context, namespace, name string) (*Refusals, error)
}

// Handlers returns what serves the documents, by path.
func (s Source) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		PathNodes:    document(func(ctx context.Context, _ url.Values) (*Nodes, error) { return s.Nodes(ctx) }),
		PathQueues:   document(func(ctx context.Context, _ url.Values) (*Queues, error) { return s.Queues(ctx) }),
		PathTopology: document(func(ctx context.Context, _ url.Values) (*Topologies, error) { return s.Topologies(ctx) }),
		PathCycles:   document(func(context.Context, url.Values) (*Cycles, error) { return s.Cycles(), nil }),
		PathConfig:   document(func(context.Context, url.Values) (*Config, error) { return s.Config(), nil }),
		PathRefusals: document(func(ctx context.Context, asked url.Values) (*Refusals, error) {
			return s.Refusals(ctx, asked.Get("namespace"), asked.Get("name"))
		}),
	}
}

func document[T any](get func(context.Context, url.Values) (*T, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
			return
		}
		ctx, cancel := context.WithTimeout(request.Context(), patience)
		defer cancel()
		answer, err := get(ctx, request.URL.Query())
		if err != nil {
			http.Error(w, "the scheduler is busy: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		text, err := json.Marshal(answer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(text) // the client may have gone
	})
}
