package telemetry

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/metrics"
)

// surveyed is a loop that delivers one survey.
type surveyed struct{ survey *Survey }

func (l surveyed) Survey(deliver func(*Survey))  { deliver(l.survey) }
func (surveyed) Steps() (began, ended time.Time) { return began, ended }
func (surveyed) MailboxLength() int              { return 0 }

// TestALabelMayBeEmpty: a plugin may refuse a job with no code. That is one series, and no reason for a scrape to fail.
func TestALabelMayBeEmpty(t *testing.T) {
	survey := NewSurvey()
	survey.Add(1, metrics.WaitingJobs, "")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewState(surveyed{survey}, clock.RealClock{}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "tutti_waiting_jobs" {
			continue
		}
		if one := family.GetMetric(); len(one) != 1 || one[0].GetGauge().GetValue() != 1 || one[0].GetLabel()[0].GetValue() != "" {
			t.Errorf("got %v, want one job without a reason", one)
		}
		return
	}
	t.Error("no waiting job is shown")
}
