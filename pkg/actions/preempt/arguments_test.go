package preempt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestArguments(t *testing.T) {
	for text, want := range map[string]string{
		"":                "0 5m0s",
		"budgets=respect": "0 5m0s",
		"budgets=prefer":  "1 5m0s",
		"maxGrace=90s":    "0 1m30s",
		"evict=delete": `action preempt: argument evict must be left out, budgets: prefer deletes a pod whose eviction a ` +
			`PodDisruptionBudget forbids, not "delete"`,
		"budgets=prefers": `action preempt: argument budgets must be one of respect and prefer, not "prefers"; did you mean "prefer"?`,
		"budget=prefer":   `action preempt: argument budget must be a whole number between 1 and 1099511627776, not "prefer"`,
		"maxGrace=0":      `action preempt: argument maxGrace must not be shorter than 1s, not "0"`,
		"maxgrace=90s":    `action preempt: unknown argument "maxgrace"; did you mean "maxGrace"?`,
	} {
		values := map[string]string{}
		for _, word := range strings.Fields(text) {
			name, value, _ := strings.Cut(word, "=")
			values[name] = value
		}
		reader := config.NewArguments("action preempt", values).Reader()
		options := preempt.ReadArguments(reader)
		got := fmt.Sprint(int(options.Method), " ", options.MaxGrace)
		if err := reader.Finish(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if limit := preempt.New(preempt.Options{}).(interface{ MaxGrace() time.Duration }).MaxGrace(); limit != model.DefaultMaxGrace {
		t.Errorf("without arguments pods may take %s", limit)
	}
}
