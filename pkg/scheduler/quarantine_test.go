package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tutti-sched/tutti/pkg/commit"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// faulty panics over one job, or when a session opens, and counts how often.
type faulty struct {
	job    *string
	always *bool
	times  *int
}

func (faulty) Name() string { return "faulty" }

func (f faulty) ValidateJob(job *model.Job) *model.Refusal {
	if job.Key.Name == *f.job {
		*f.times++
		_ = job.Tasks[len(job.Tasks)]
	}
	return nil
}

func (f faulty) OpenSession(session *framework.Session) {
	if *f.always {
		*f.times++
		_ = session.Snapshot.Nodes[len(session.Snapshot.Nodes)]
	}
}

// measured returns the sum of a metric over its labels.
type measured func(name string) float64

func newFaultyWorld(t *testing.T) (*world, faulty, measured) {
	t.Helper()
	registry := prometheus.NewRegistry()
	w, f := newWorld(t), faulty{job: new(string), always: new(bool), times: new(int)}
	tier := framework.Tier{{New: func() framework.Plugin { return f }}}
	w.loop.profile.Tiers = append([]framework.Tier{tier}, w.loop.profile.Tiers...)
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	w.loop.options.Metrics = metrics
	w.node("n1", "8")
	return w, f, func(name string) (sum float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			for _, metric := range family.GetMetric() {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
		return sum
	}
}

func TestPanicQuarantinesOneJob(t *testing.T) {
	w, f, sum := newFaultyWorld(t)
	*f.job = "bad"
	w.gang("bad", 2, 2)
	w.gang("good", 2, 2)
	calls := w.play(t.Context(), 10*time.Second)
	if n := kinds(calls)[commit.CallBind]; n != 2 || w.condition("good").Status != "True" {
		t.Errorf("%d binds, the good gang is %+v", n, w.condition("good"))
	}
	c := w.condition("bad")
	if c == nil || c.Status != "False" || c.Reason != "Quarantined" || !strings.HasPrefix(c.Message, "faulty panicked: runtime error: index") {
		t.Errorf("condition %+v", c)
	}
	if *f.times < 3 || *f.times > 4 { // at 0, 1 s, 3 s and 7 s
		t.Errorf("tried %d times in ten seconds", *f.times)
	}
	if n := sum("tutti_quarantined_total"); n != float64(*f.times) {
		t.Errorf("%v panics counted of %d", n, *f.times)
	}
	*f.job = ""
	w.play(t.Context(), 10*time.Second)
	if c := w.condition("bad"); c.Status != "True" {
		t.Errorf("mended, and %+v", c)
	}
}

func TestPanicOfNobodyPutsCyclesOff(t *testing.T) {
	w, f, sum := newFaultyWorld(t)
	*f.always = true
	w.gang("good", 2, 2)
	for range 20 {
		w.play(t.Context(), 500*time.Millisecond)
		w.node("n1", "8") // something always happens
	}
	if *f.times < 3 || *f.times > 4 {
		t.Errorf("tried %d times in ten seconds", *f.times)
	}
	if c := w.condition("good"); c == nil || c.Reason != "CycleFailed" {
		t.Errorf("condition %+v", c)
	}
	if sum("tutti_cycle_failing") != 1 {
		t.Error("no metric says that cycles fail")
	}
	*f.always = false
	w.play(t.Context(), 10*time.Second)
	if c := w.condition("good"); c.Status != "True" || sum("tutti_cycle_failing") != 0 {
		t.Errorf("mended, and %+v", c)
	}
}
