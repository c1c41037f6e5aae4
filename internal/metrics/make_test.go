package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestGaugeAppearsWithItsFirstValue: a gauge whose value is not known is not scraped, so that absent() finds it missing. A
// counter without labels is there from the start.
func TestGaugeAppearsWithItsFirstValue(t *testing.T) {
	set := Make(Agent())
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(set)
	scraped := func(name Name) bool {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == string(name) {
				return true
			}
		}
		return false
	}
	if scraped(AgentHeldCPUs) {
		t.Errorf("%s is there before its first value", AgentHeldCPUs)
	}
	if !scraped(AgentDrift) {
		t.Errorf("%s is not there from the start", AgentDrift)
	}
	set.Show(AgentHeldCPUs, 0)
	if !scraped(AgentHeldCPUs) {
		t.Errorf("%s is not there after its first value", AgentHeldCPUs)
	}
}
