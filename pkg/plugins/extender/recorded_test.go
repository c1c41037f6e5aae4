package extender

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// recorded is the requests and results of kube-scheduler 1.37.1's own extender client, for random extenders, pods and
// answers; the nodes are a, b and c. Importing that client would bring half of Kubernetes into the module.
type recorded struct {
	Capable bool
	Weight  int64
	Managed []ManagedResource
	Spec    corev1.PodSpec
	Status  int
	Answers map[string]string
	Said    said
}

// said is the results of one filter call, one prioritize call and one bind.
type said struct {
	// Passed are the nodes that passed. Resolvable are rejected nodes that eviction may open. Scores leave out zeros.
	Passed     []string
	Resolvable map[string]bool
	Scores     map[string]int64
	// Failed reports whether the filter call failed, Bound whether the bind succeeded.
	Failed, Bound bool
	// Calls are the requests to the extender.
	Calls []string
}

func TestAsKubeSchedulersOwnClient(t *testing.T) {
	text, err := os.ReadFile("testdata/kube-scheduler.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []recorded
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for i, c := range cases {
		s := serve(t, func(verb, _ string) (int, string) { return c.Status, c.Answers[verb] })
		if diff := cmp.Diff(c.Said, weSay(t, s, c)); diff != "" {
			t.Errorf("case %d: kube-scheduler - and we +:\n%s\nanswers %d %v", i, diff, c.Status, c.Answers)
		}
		s.Close()
	}
}

// on returns the case's options for a server.
func (c *recorded) on(s *server) Options {
	options := all(s)
	options.Weight, options.NodeCacheCapable, options.ManagedResources = c.Weight, c.Capable, c.Managed
	return options
}

// fixedView is the view of a snapshot that no session changes.
type fixedView struct {
	framework.View
	snapshot *model.Snapshot
}

func (v fixedView) Snapshot() *model.Snapshot { return v.snapshot }

func (v fixedView) EligibleNodes(*model.Task) []*model.Node { return v.snapshot.Nodes }

func weSay(t interface {
	Fatal(...any)
	Context() context.Context
}, s *server, c recorded,
) said {
	factory, err := New([]Options{c.on(s)})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, task := cluster("a", "b", "c"), task("p")
	task.Pod.Spec = c.Spec
	p := factory().(*plugin)
	p.OpenSession(fixedView{snapshot: snapshot})
	result := said{Resolvable: map[string]bool{}, Scores: map[string]int64{}}
	checks, refused := p.PreFilter(task, framework.ClusterWide)
	result.Failed = refused != nil
	for _, node := range snapshot.Nodes {
		refusal := refused
		for _, check := range checks {
			refusal = check(node)
		}
		switch {
		case refusal == nil:
			result.Passed = append(result.Passed, node.Name)
		case refusal.Evictable:
			result.Resolvable[node.Name] = true
		}
	}
	for _, score := range p.PreScore(task, framework.ClusterWide, snapshot.Nodes) {
		for _, name := range result.Passed {
			if points := score.Weight * score.Score(snapshot.Node(name)); points != 0 {
				result.Scores[name] = points
			}
		}
	}
	for _, binder := range p.PodBinders() {
		if p.BinderOf(task) == binder.BinderName() {
			refusal, err := binder.BindPod(t.Context(), task.PodRef, "a")
			result.Bound = err == nil && refusal == nil
		}
	}
	result.Calls = s.taken()
	return result
}
