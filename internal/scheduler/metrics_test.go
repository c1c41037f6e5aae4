package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/telemetry"
)

// newMeasuredWorld returns a world whose loop is measured, and what sums up a metric: counts and gauges as they are, of
// histograms how often something was observed.
func newMeasuredWorld(t *testing.T) (w *world, sum func(name metrics.Name, labels ...string) float64) {
	t.Helper()
	w = newWorld(t)
	registry := prometheus.NewRegistry()
	m, err := telemetry.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	w.loop.options.Metrics = m
	if err := registry.Register(telemetry.NewState(atOnce{w.loop}, w.clock)); err != nil {
		t.Fatal(err)
	}
	return w, func(name metrics.Name, labels ...string) (sum float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != string(name) {
				continue
			}
			for _, metric := range family.GetMetric() {
				var has []string
				for _, pair := range metric.GetLabel() {
					has = append(has, pair.GetName()+"="+pair.GetValue())
				}
				if slices.ContainsFunc(labels, func(label string) bool { return !slices.Contains(has, label) }) {
					continue
				}
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
		return sum
	}
}

// expectMetrics compares what was measured: metric, and labels as key=value, in one line each, and the value.
func expectMetrics(t *testing.T, sum func(metrics.Name, ...string) float64, want map[string]float64) {
	t.Helper()
	for line, value := range want {
		words := strings.Fields(line)
		if got := sum(metrics.Name(words[0]), words[1:]...); got != value {
			t.Errorf("%s is %v, want %v", line, got, value)
		}
	}
}

func TestWhatIsMeasured(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	w.node("n1", "4")
	w.gang("mpi", 3, 2)
	w.gang("big", 5, 5)
	w.gang("lost", 1, 2)
	w.play(t.Context(), time.Second)
	for _, pod := range w.pods {
		if !pod.CreationTimestamp.IsZero() {
			t.Fatal("pods of these tests have no age")
		}
	}
	expectMetrics(t, sum, map[string]float64{
		"tutti_leading": 1, "tutti_cycle_failing": 0,
		"tutti_decisions_total kind=bind": 3, "tutti_decisions_total kind=evict": 0,
		"tutti_outcomes_total outcome=Bound": 3, "tutti_bind_duration_seconds": 3, "tutti_gang_wait_seconds": 1,
		"tutti_waiting_jobs": 2, "tutti_waiting_jobs reason=NotEnoughMembers": 1, "tutti_waiting_jobs reason=InsufficientResources": 1,
		"tutti_api_calls_total kind=Bind code=ok": 3, "tutti_api_calls_total kind=GroupStatus code=ok": 3,
		"tutti_api_calls_total kind=Event code=ok": sum(metrics.APICalls, "kind=Event"), "tutti_api_calls_inflight": 0,
		"tutti_api_calls_queue_length": 0, "tutti_api_calls_paused_seconds_total": 0, "tutti_events_dropped_total": 0,
	})
	if n := sum(metrics.ActionSeconds, "action=allocate"); n == 0 || n > sum(metrics.CycleSeconds) {
		t.Errorf("allocate was measured %v times in %v cycles", n, sum(metrics.CycleSeconds))
	}
	if n := sum(metrics.PluginSeconds, "plugin=gang", "point=jobGate"); n != 1 {
		t.Errorf("the gang plugin was measured %v times, want once in the first sixteen cycles", n)
	}
	w.loop.options.Verify = false // which looks afresh each time
	w.play(t.Context(), 2*time.Minute)
	before := sum(metrics.Refusals)
	w.play(t.Context(), 10*time.Minute)
	if after := sum(metrics.Refusals); before == 0 || after != before {
		t.Errorf("%v refusals have become %v of an unchanged cluster", before, after)
	}
}

func TestEvictionsAreMeasuredByCause(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	w.node("n1", "8")
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name == "mpi-1" {
			return apierrors.NewForbidden(corev1.Resource("pods"), call.Pod.Name, errors.New("not today"))
		}
		return nil
	}
	w.gang("mpi", 3, 3)
	w.play(t.Context(), 40*time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_evictions_total cause=undo": 2, "tutti_evictions_total": 2, "tutti_gang_wait_seconds": 0,
	})
	if sum(metrics.APICalls, "kind=Bind", "code=403") == 0 || sum(metrics.APICalls, "kind=Undo", "code=ok") != 2 {
		t.Error("calls are not counted by kind and code")
	}
	if sum(metrics.Outcomes, "outcome=BindFailed") == 0 {
		t.Error("no bind is counted that failed")
	}
}

// TestFirstPanicCanBeAlertedTo: the counts of whatever may panic are there before it does.
func TestFirstPanicCanBeAlertedTo(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	m, err := telemetry.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	w.loop.options.Metrics = m
	w.loop.reconfigure(w.loop.profile, w.clock.Now())
	values := 0
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == string(metrics.Quarantined) {
			values = len(family.GetMetric())
		}
	}
	names := w.loop.profile.Names()
	others := []string{"engine", "cluster", partInspection, partOutcomes, partReports, partReservations, partStarts}
	if len(names) < 3 || values != len(names)+len(others) {
		t.Errorf("%d counts of panics, want one for each of %v and %v", values, names, others)
	}
}
