package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/generated/clientset/versioned"
)

// lists answers what a new leader asks for, and takes down what that was. The first so many of its answers are failures.
type lists struct {
	mu    sync.Mutex
	fail  int
	asked []string
}

func (l *lists) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	if version := request.URL.Query().Get("resourceVersion"); version != "" {
		what += " of version " + version
	}
	l.asked = append(l.asked, what)
	if l.fail > 0 {
		l.fail--
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	kind, version := "PodList", "v1"
	if what == "podgroups" {
		kind, version = "PodGroupList", "scheduling.tutti.dev/v1alpha1"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": []any{}})
}

func (l *lists) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

// heir is a process that has just got a Lease, and the API server that it asks.
func heir(t *testing.T, before *resourcelock.LeaderElectionRecord) (*process, *table, *lists) {
	t.Helper()
	table, lease := newTable()
	table.held = before
	lease.acquire(t)
	lists := &lists{}
	server := httptest.NewServer(lists)
	t.Cleanup(server.Close)
	pods, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := versioned.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return &process{lease: lease, pods: pods, client: groups, mailbox: scheduler.NewMailbox(), schedulerNames: []string{"tutti"}}, table, lists
}

// TestWhoInheritsReadsWhatTheLastLeaderWrote, from a quorum, until it has an answer; and not before the last leader's requests have
// come to their end.
func TestWhoInheritsReadsWhatTheLastLeaderWrote(t *testing.T) {
	p, table, lists := heir(t, &resourcelock.LeaderElectionRecord{HolderIdentity: "other"})
	ended := make(chan error, 1)
	go func() { ended <- p.waitForTakeover(t.Context()) }()
	for !table.clock.HasWaiters() && len(ended) == 0 {
		runtime.Gosched()
	}
	if asked := lists.seen(); len(asked) > 0 {
		t.Errorf("asked for %q while something may be under way", asked)
	}
	lists.mu.Lock()
	lists.fail = 1
	lists.mu.Unlock()
	table.clock.Step(leaseDuration + requestTimeout)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if asked := lists.seen(); !slices.Equal(asked, []string{"pods", "pods", "podgroups"}) {
		t.Errorf("asked for %q, want pods until there is an answer, then groups, and no version of either", asked)
	}
}

func TestWhoInheritsFromNobodyBeginsAtOnce(t *testing.T) {
	p, _, lists := heir(t, nil)
	if err := p.waitForTakeover(t.Context()); err != nil || len(lists.seen()) > 0 {
		t.Errorf("asked for %q, %v", lists.seen(), err)
	}
	p, _, lists = heir(t, &resourcelock.LeaderElectionRecord{}) // which was given up
	if err := p.waitForTakeover(t.Context()); err != nil || len(lists.seen()) != 2 {
		t.Errorf("asked for %q, %v", lists.seen(), err)
	}
}
