package debugapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// PathJobs takes the parameters namespace and labelSelector; without them, it has all jobs.
	PathJobs = "/debug/jobs"
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

// Patience is how long a request waits for a loop that is busy.
const Patience = 10 * time.Second

// Source answers with documents. Its functions are called by many goroutines at the same time and must not be nil; what they
// return is never changed.
type Source struct {
	// Jobs, Nodes, Queues and Domains return an error when the context ends before the loop has had time; Jobs a BadRequest for a
	// wrong selector.
	Jobs    func(ctx context.Context, namespace, labelSelector string) (*JobList, error)
	Nodes   func(context.Context) (*NodeList, error)
	Queues  func(context.Context) (*QueueList, error)
	Domains func(context.Context) (*DomainList, error)
	Cycles  func() *CycleList
	Config  func() *ConfigList
	// Ask answers a question, with errors of apimachinery.
	Ask func(context.Context, *Question) (*Answer, error)
}

// Handlers returns what serves the documents, by path.
func (s Source) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		PathNodes:   handler(func(ctx context.Context, _ url.Values) (document, error) { return s.Nodes(ctx) }),
		PathQueues:  handler(func(ctx context.Context, _ url.Values) (document, error) { return s.Queues(ctx) }),
		PathDomains: handler(func(ctx context.Context, _ url.Values) (document, error) { return s.Domains(ctx) }),
		PathCycles:  handler(func(context.Context, url.Values) (document, error) { return s.Cycles(), nil }),
		PathConfig:  handler(func(context.Context, url.Values) (document, error) { return s.Config(), nil }),
		PathAsk:     asking(s.Ask),
		PathJobs: handler(func(ctx context.Context, asked url.Values) (document, error) {
			return s.Jobs(ctx, asked.Get("namespace"), asked.Get("labelSelector"))
		}),
	}
}

// maxQuestion is how many bytes a question has at most.
const maxQuestion = 1 << 20

// asking serves answers, or their tables, to questions.
func asking(ask func(context.Context, *Question) (*Answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST is served here", http.StatusMethodNotAllowed)
			return
		}
		var question Question
		decoder := json.NewDecoder(http.MaxBytesReader(w, request.Body, maxQuestion))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&question); err != nil {
			http.Error(w, "the question cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := ask(request.Context(), &question)
		if refused, is := errors.AsType[*apierrors.StatusError](err); is {
			status := refused.Status()
			if details := status.Details; details != nil && details.RetryAfterSeconds > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
			}
			http.Error(w, status.Message, int(status.Code))
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		write(w, request, answer)
	})
}

// document is a list that is served, as itself or as the table of its columns.
type document interface{ Table() *Table }

// Encode writes a list, or its table where accept asks for that as the API server's clients say it: as=Table. include puts
// the whole items into the table.
func Encode(list document, accept string, include bool) ([]byte, error) {
	if !strings.Contains(accept, "as=Table") {
		return json.Marshal(list)
	}
	table := list.Table()
	if include {
		if err := table.include(); err != nil {
			return nil, err
		}
	}
	return json.Marshal(table)
}

// handler serves a list, or its table.
func handler(get func(context.Context, url.Values) (document, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
			return
		}
		ctx, cancel := context.WithTimeout(request.Context(), Patience)
		defer cancel()
		asked := request.URL.Query()
		list, err := get(ctx, asked)
		switch {
		case apierrors.IsBadRequest(err):
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		case err != nil:
			http.Error(w, "the scheduler is busy: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		write(w, request, list)
	})
}

// write writes a document, or its table where the request says so.
func write(w http.ResponseWriter, request *http.Request, of document) {
	include := request.URL.Query().Get("includeObject") == string(metav1.IncludeObject)
	text, err := Encode(of, request.Header.Get("Accept"), include)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // the client may have gone
}
