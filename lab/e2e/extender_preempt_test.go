package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/tutti-sched/tutti/lab/harness"
)

// guardian is an HTTP extender that decides in evictions alone: no pod is to be evicted from the nodes that it guards.
type guardian struct {
	t      *testing.T
	guards []string

	mu    sync.Mutex
	asked []string
}

func (g *guardian) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderPreemptionArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil || args.Pod == nil || r.URL.Path != "/preempt" {
		g.t.Errorf("extender: %s asks %+v, %v", r.URL.Path, args, err)
	}
	g.mu.Lock()
	g.asked = append(g.asked, fmt.Sprint(slices.Sorted(maps.Keys(args.NodeNameToMetaVictims))))
	g.mu.Unlock()
	left := maps.Clone(args.NodeNameToMetaVictims)
	maps.DeleteFunc(left, func(node string, _ *extenderv1.MetaVictims) bool { return slices.Contains(g.guards, node) })
	if err := json.NewEncoder(w).Encode(extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: left}); err != nil {
		g.t.Errorf("extender: %v", err)
	}
}

// TestAnExtenderKeepsVictimsOnItsNodes: a gang of two needs two of four full nodes, and an extender rules out two of them.
func TestAnExtenderKeepsVictimsOnItsNodes(t *testing.T) {
	g := &guardian{t: t, guards: []string{"guarded-0", "guarded-2"}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := fmt.Sprintf("apiVersion: config.tutti.dev/v1alpha1\nactions: \"allocate, preempt\"\ntiers:\n- plugins:\n"+
		"  - {name: priority}\n  - {name: gang}\n  - {name: predicates}\n  - name: extender\n    arguments:\n      extenders:\n"+
		"      - {urlPrefix: %q, preemptVerb: preempt, nodeCacheCapable: true}\n", server.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newArena(t, "guarded", 4)
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + config}})
	for i := range 4 {
		name := fmt.Sprintf("low-%d", i)
		env.Create(t, env.Pod(a.ns, name, harness.Requests(map[string]string{"cpu": "4"}),
			func(p *corev1.Pod) { p.Spec.PriorityClassName = a.low }))
	}
	a.bound("low", 4)
	a.gang("high", a.high, 2, 2)
	a.bound("high", 2)
	pods, err := env.Pods(t.Context(), a.ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if guarded := slices.Contains(g.guards, pod.Spec.NodeName); guarded != strings.HasPrefix(pod.Name, "low") {
			t.Errorf("pod %s is on %s; the extender keeps %v", pod.Name, pod.Spec.NodeName, g.guards)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := fmt.Sprint([]string{"guarded-1", "guarded-3"}); len(g.asked) == 0 || g.asked[len(g.asked)-1] != last {
		t.Errorf("the extender was asked about %v, want %s at last", g.asked, last)
	}
}
