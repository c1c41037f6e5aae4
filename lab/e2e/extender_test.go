package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// extender is a small HTTP extender: it bars one node, prefers another, and binds through the API server.
type extender struct {
	t              *testing.T
	barred, wanted string

	mu     sync.Mutex
	broken bool
	bound  []string
	asked  int
}

func (e *extender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.fails() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var answer any
	var err error
	switch r.URL.Path {
	case "/gpu/filter":
		answer, err = e.filter(r)
	case "/gpu/prioritize":
		answer = extenderv1.HostPriorityList{{Host: e.wanted, Score: 10}}
	case "/gpu/bind":
		answer, err = e.bind(r)
	default:
		err = fmt.Errorf("unexpected path %s", r.URL.Path)
	}
	if err == nil {
		err = json.NewEncoder(w).Encode(answer)
	}
	if err != nil {
		e.t.Errorf("extender: %v", err)
	}
}

func (e *extender) fails() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken
}

func (e *extender) filter(r *http.Request) (*extenderv1.ExtenderFilterResult, error) {
	e.mu.Lock()
	e.asked++
	e.mu.Unlock()
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		return nil, err
	}
	if args.Pod == nil || args.Pod.Annotations["example.com/model"] != "large" || args.NodeNames == nil {
		return nil, fmt.Errorf("asked about %+v", args)
	}
	left := slices.DeleteFunc(*args.NodeNames, func(name string) bool { return name == e.barred })
	return &extenderv1.ExtenderFilterResult{
		NodeNames: &left, FailedNodes: extenderv1.FailedNodesMap{e.barred: "too few shares"},
	}, nil
}

func (e *extender) bind(r *http.Request) (*extenderv1.ExtenderBindingResult, error) {
	var args extenderv1.ExtenderBindingArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		return nil, err
	}
	err := env.Clientset.CoreV1().Pods(args.PodNamespace).Bind(r.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: args.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		return &extenderv1.ExtenderBindingResult{Error: err.Error()}, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bound = append(e.bound, args.PodName)
	return &extenderv1.ExtenderBindingResult{}, nil
}

const extenderConfig = `apiVersion: config.tutti.dev/v1alpha1
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
  - name: extender
    arguments:
      extenders:
      - urlPrefix: %s/gpu
        filterVerb: filter
        prioritizeVerb: prioritize
        bindVerb: bind
        weight: 10
        nodeCacheCapable: true
        managedResources:
        - name: example.com/share
          ignoredByScheduler: true
`

// TestExtenderFiltersPrefersAndBinds: while the extender fails the gang waits and says why; as soon as it answers, the gang
// starts where it says, bound by it, although nothing in the cluster has changed. No node offers the share that the pods
// ask for: counting it is the extender's affair.
func TestExtenderFiltersPrefersAndBinds(t *testing.T) {
	e := &extender{t: t, barred: "ext-0", wanted: "ext-2", broken: true}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, extenderConfig, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	env.Nodes(t, cluster.Nodes("ext", 3, map[string]string{"cpu": "4"})...)
	ns := env.Namespace(t)
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + config}})
	gang := group(ns, "mpi", 3)
	env.Create(t, gang)
	env.Create(t, members(ns, "mpi", "", 3, harness.Requests(map[string]string{"cpu": "1", "example.com/share": "2"}),
		harness.PodAnnotations(map[string]string{"example.com/model": "large"}))...)
	env.Eventually(t, func() error { // while the machine is slow the answer may have taken too long
		if err := waits(t, gang, "NodesFiltered"); err != nil {
			return err
		}
		message := meta.FindStatusCondition(gang.Status.Conditions, v1alpha1.ConditionScheduled).Message
		if want := "extender " + server.URL + "/gpu: filter: it answers 503 Service Unavailable"; !strings.Contains(message, want) {
			return fmt.Errorf("the gang waits for %q, want %q in it", message, want)
		}
		return nil
	})

	e.mu.Lock()
	e.broken = false
	e.mu.Unlock()
	env.Eventually(t, func() error { return boundOf(t, ns, "mpi", 3) })
	pods, err := env.Pods(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != e.wanted {
			t.Errorf("pod %s is on %s, want %s", pod.Name, pod.Spec.NodeName, e.wanted)
		}
	}
	env.Eventually(t, func() error { return inGroupPhase(t, gang, v1alpha1.PodGroupRunning) })
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.Sort(e.bound)
	if want := []string{"mpi-0", "mpi-1", "mpi-2"}; !slices.Equal(e.bound, want) || e.asked != 1 {
		t.Errorf("the extender has bound %v and filtered %d times, want %v and once for the gang", e.bound, e.asked, want)
	}
}
