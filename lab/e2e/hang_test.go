package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// hangs is the configuration of a scheduler with the plugin of lab/hang.
const hangs = "actions: allocate\ntiers:\n- plugins: [{name: priority}, {name: gang}, {name: hang}]\n- plugins: [{name: predicates}, {name: nodeorder}]\n"

// TestAHangingPluginHandsOver: the leader's plugin does not return for one pod. The leader says which function it is in, writes
// nothing more and ends, and the next one binds this pod and another one.
func TestAHangingPluginHandsOver(t *testing.T) {
	const limit = 5 * time.Second
	env.Nodes(t, cluster.Nodes("hang", 1, map[string]string{"cpu": "4"})...)
	ns := env.Namespace(t)
	path, err := binaries.Build(t.Context(), os.Stderr, binaries.HangingScheduler)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(hangs), 0o600); err != nil {
		t.Fatal(err)
	}
	elected := []string{"--leader-elect=true", "--leader-elect-namespace=" + ns}
	first := env.Scheduler(t, harness.SchedulerOptions{
		Name: "hang-first", Path: path, Args: append([]string{"--config=" + file, "--step-limit=" + limit.String()}, elected...),
	})
	env.Create(t, env.Pod(ns, "before"))
	env.Eventually(t, func() error { return boundOf(t, ns, "before", 1) })
	env.Scheduler(t, harness.SchedulerOptions{Name: "hang-second", Args: elected})

	began := time.Now()
	env.Create(t, env.Pod(ns, "marked", harness.PodLabels(map[string]string{"lab.tutti.dev/hang": ""})), env.Pod(ns, "other"))
	env.Eventually(t, func() error { return boundOf(t, ns, "other", 1) })
	takings{time.Since(began)}.check(t, "the first bind after the leader hangs, with the limit of a step and the 15 s of the Lease",
		limit+leaseHolds+5*time.Second)
	env.Eventually(t, func() error { return boundOf(t, ns, "marked", 1) })
	select {
	case <-first.Done():
	case <-time.NewTimer(patience).C:
		t.Fatal("the process that hangs has not ended")
	}
	log, err := os.ReadFile(first.LogFile())
	if err != nil || !strings.Contains(string(log), "The loop hangs") || !strings.Contains(string(log), "plugin.ValidateJob") {
		t.Errorf("the log names no plugin: %v\n%s", err, log)
	}
}
