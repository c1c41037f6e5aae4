package app

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/telemetry"
)

// TestAnUpgradeOfTheAPIServerIsMeasured: a process that began beside another version, or when device taint rules or queues were
// not served, says that it needs a restart, and no more when the server is as it was. A server that does not answer changes
// nothing.
func TestAnUpgradeOfTheAPIServerIsMeasured(t *testing.T) {
	var minor, rules, queues atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case minor.Load() == 0:
			http.Error(w, "down", http.StatusServiceUnavailable)
		case r.URL.Path == "/version":
			fmt.Fprintf(w, `{"gitVersion":"v1.%d.0"}`, minor.Load())
		case strings.HasSuffix(r.URL.Path, "/devicetaintrules"):
			fmt.Fprint(w, `{"kind":"DeviceTaintRuleList","apiVersion":"resource.k8s.io/v1"}`)
		case strings.HasPrefix(r.URL.Path, "/apis/resource.k8s.io/") && rules.Load() > 0:
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"devicetaintrules","kind":"DeviceTaintRule"}]}`)
		case strings.HasSuffix(r.URL.Path, "/queues") && queues.Load() > 0:
			fmt.Fprint(w, `{"kind":"QueueList","apiVersion":"scheduling.tutti.dev/v1alpha1"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := versioned.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	measured, err := telemetry.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{pods: client, client: groups, measured: measured, served: kube.Served{Version: "1.36"}}
	for _, step := range []struct{ minor, rules, queues, version, taints int64 }{
		{36, 0, 0, 0, 0}, {37, 0, 1, 1, 0}, {0, 0, 1, 1, 0}, {37, 1, 0, 1, 1}, {36, 0, 1, 0, 0}, {36, 0, 0, 0, 0},
	} {
		minor.Store(step.minor)
		rules.Store(step.rules)
		queues.Store(step.queues)
		p.compareServer(t.Context())
		want := map[string]float64{"version": float64(step.version), "device-taint-rules": float64(step.taints), "queues": float64(step.queues)}
		if got := restartsNeeded(t, registry); !maps.Equal(got, want) {
			t.Errorf("the server is of 1.%d and serves rules: %d: got %v, want %v", step.minor, step.rules, got, want)
		}
	}
}

// restartsNeeded returns the values of the metric by cause.
func restartsNeeded(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != string(metrics.RestartNeeded) {
			continue
		}
		for _, metric := range family.GetMetric() {
			values[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return values
}
