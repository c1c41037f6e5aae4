package extender

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file has what the other tests use: an extender with preset answers, and a small cluster.

// server answers each call with a preset answer and keeps the requests, "verb body" by "verb body".
type server struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
}

// serve starts a server. answer gets the verb and the body, and returns a status and a body.
func serve(t testing.TB, answer func(verb, body string) (int, string)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("request body: %v", err)
		}
		verb := strings.TrimPrefix(r.URL.Path, "/ext/")
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s as %q", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		s.mu.Lock()
		s.calls = append(s.calls, verb+" "+string(text))
		s.mu.Unlock()
		status, body := answer(verb, string(text))
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// says is a server that answers each verb with one text.
func says(t testing.TB, answers map[string]string) *server {
	return serve(t, func(verb, _ string) (int, string) { return http.StatusOK, answers[verb] })
}

func (s *server) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// count returns how many calls of a verb came since the last count.
func (s *server) count(verb string) int {
	n := 0
	for _, call := range s.taken() {
		if strings.HasPrefix(call, verb+" ") {
			n++
		}
	}
	return n
}

func (s *server) prefix() string { return s.URL + "/ext" }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// cluster is a few nodes of four cores.
func cluster(names ...string) *model.Snapshot {
	snapshot := &model.Snapshot{Now: start, Dimensions: model.NewDimensions()}
	var nodes []*model.Node
	for _, name := range names {
		room := model.Resources{4000, 8 << 30, 0, 110}
		nodes = append(nodes, model.NewNode(name, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, room))
	}
	snapshot.SetNodes(nodes)
	return snapshot
}

// task is a pod of one container that requests a core; requests are names and amounts of additional requests.
func task(name string, requests ...string) *model.Task {
	list := corev1.ResourceList{"cpu": resource.MustParse("1")}
	for i := 0; i < len(requests); i += 2 {
		list[corev1.ResourceName(requests[i])] = resource.MustParse(requests[i+1])
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list}}}},
	}
	return &model.Task{
		PodRef:  model.PodRef{Namespace: "ns", Name: name, UID: pod.UID},
		Request: model.Resources{1000, 0, 0, 1}, Shape: unique.Make("one core"), Pod: pod,
	}
}

// profile is the plugin with these extenders, and others before it.
func profile(t testing.TB, options []Options, before ...framework.Plugin) *engine.Profile {
	t.Helper()
	factory, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	var tier engine.Tier
	for _, plugin := range before {
		tier = append(tier, engine.TierPlugin{Factory: func() framework.Plugin { return plugin }})
	}
	return &engine.Profile{Tiers: []engine.Tier{append(tier, engine.TierPlugin{Factory: factory})}}
}

// barred is a plugin that rejects nodes, by name.
type barred []string

func (barred) Name() string { return "barred" }

func (b barred) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.NodeOnly {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(node *model.Node) *model.Refusal {
		if slices.Contains(b, node.Name) {
			return &model.Refusal{Code: model.NodesFiltered, Detail: "barred"}
		}
		return nil
	}}, nil
}

// choose opens a session and returns the node it would choose, or why there is none.
func choose(profile *engine.Profile, snapshot *model.Snapshot, task *model.Task) string {
	session := engine.Open(snapshot, profile, engine.Options{})
	defer session.Close()
	return chosen(session, task)
}

func chosen(session *engine.Session, task *model.Task) string {
	node, tally := session.Ask(session.Snapshot.Job(task.Job), model.Idle).BestOrWhy(task, nil)
	if node != nil {
		return node.Name
	}
	refusal := tally.Refusal(0, 0, "")
	return fmt.Sprintf("%s evictable=%t expires=%t", refusal, refusal.Evictable, !refusal.Until.IsZero())
}
