package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
)

// helms returns the programs of helm to test with: the lab's own and, where HELMS=all says so, helm 3 and helm 4 as released,
// each of a module of its own, which takes minutes to build.
func helms(t *testing.T, c *cluster.Cluster) map[string]func(args ...string) (string, error) {
	t.Helper()
	all := map[string]func(args ...string) (string, error){
		"of the lab": func(args ...string) (string, error) { return c.Helm(t.Context(), args...) },
	}
	if os.Getenv("HELMS") != "all" {
		return all
	}
	for name, pkg := range map[string]string{"helm3": "helm.sh/helm/v3/cmd/helm", "helm4": "helm.sh/helm/v4/cmd/helm"} {
		path, err := binaries.BuildOf(t.Context(), t.Output(), "helm/modules/"+name, pkg)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = func(args ...string) (string, error) { return c.RunTool(t.Context(), path, args...) }
	}
	return all
}

// TestConfigurationOutlivesUpgrades: what an operator has changed in the cluster, and a pause, are there after an upgrade that
// changes the values, and after a rollback, and the scheduler goes by them; the new default is there as well, and no field has
// two owners. An upgrade with a configuration that the program refuses changes nothing, and says why.
func TestConfigurationOutlivesUpgrades(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Kubernetes: env.Cluster.Version(), ControllerManager: true, Scheduler: true, Kwok: true, Dir: t.TempDir(), Out: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	lab, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNodes(t.Context(), cluster.Nodes("helm", 2, map[string]string{"cpu": "8", "memory": "16Gi"})...); err != nil {
		t.Fatal(err)
	}
	program, err := binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler)
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	said, stop, err := release.PlayCheck(t.Context(), c, program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for name, helm := range helms(t, c) {
		t.Run(name, func(t *testing.T) {
			h := &helmed{t: t, lab: lab, helm: helm, plugin: plugin, program: program, said: said}
			h.outlive()
		})
	}
}

// helmed is one release, and the scheduler that runs as it is installed.
type helmed struct {
	t               *testing.T
	lab             *harness.Env
	helm            func(args ...string) (string, error)
	plugin, program string
	said            func() string
	endpoint        string
}

// Texts of the configuration: two of the chart, and the operator's.
const (
	chartsFirst  = "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
	chartsSecond = "actions: allocate, preempt\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
	operators    = "actions: allocate, backfill\ntiers:\n- plugins: [{name: priority}, {name: gang}, {name: predicates}]\n"
)

func (h *helmed) outlive() {
	t := h.t
	if err := h.upgrade(chartsFirst); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := h.helm("uninstall", release.Name, "--namespace", release.Namespace, "--wait"); err != nil {
			t.Error(err)
		}
	})
	installed, err := release.Read(t.Context(), h.lab.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	h.endpoint = freeAddress(t)
	scheduler, err := installed.Start(t.Context(), h.lab.Cluster, "tutti-scheduler", h.program, "--metrics-bind-address="+h.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(scheduler.Kill)
	h.wants("installed", chartsFirst, "", false)

	// As kubectl edit writes it, and by the verb.
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"scheduler.yaml": operators}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.lab.Cluster.Kubectl(t.Context(), "patch", "configmap", "tutti-scheduler-override", "--namespace", release.Namespace,
		"--field-manager=kubectl-edit", "--patch", string(patch)); err != nil {
		t.Fatal(err)
	}
	h.kubectlTutti("pause")
	h.wants("edited and paused", chartsFirst, operators, true)

	if err := h.upgrade(chartsSecond); err != nil {
		t.Fatal(err)
	}
	h.wants("upgraded", chartsSecond, operators, true)
	if err := h.upgrade(strings.Replace(chartsSecond, "{name: predicates}", "{name: predicates, arguments: {no.such: 1}}", 1)); err == nil {
		t.Error("an upgrade to a configuration that the scheduler refuses has succeeded")
	}
	if said := h.said(); !strings.Contains(said, `scheduler.yaml:3`) || !strings.Contains(said, `no.such`) {
		t.Errorf("the check said\n%s", said)
	}
	h.wants("refused", chartsSecond, operators, true)
	if _, err := h.helm("rollback", release.Name, "1", "--namespace", release.Namespace, "--wait", "--timeout", release.Timeout); err != nil {
		t.Fatal(err)
	}
	h.wants("rolled back", chartsFirst, operators, true)
	h.kubectlTutti("resume")
	h.wants("resumed", chartsFirst, operators, false)
	h.ownedOnce()
}

// upgrade installs the chart or upgrades the release, with that configuration.
func (h *helmed) upgrade(text string) error {
	file := filepath.Join(h.t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	_, err := h.helm(append([]string{
		"upgrade", release.Name, chartFolder(h.t), "--install", "--namespace", release.Namespace, "--create-namespace",
		"--wait", "--timeout", release.Timeout, "--set", "global.imageRegistry=" + release.Registry, "--set-file", "config=" + file,
	}, release.HoldCheck()...)...)
	return err
}

func (h *helmed) kubectlTutti(args ...string) string {
	h.t.Helper()
	out, err := h.lab.Cluster.RunTool(h.t.Context(), h.plugin, args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// wants fails unless the chart's object and the operator's have these texts, and the scheduler goes by them.
func (h *helmed) wants(when, charts, own string, paused bool) {
	h.t.Helper()
	base, override := h.configMap("tutti-scheduler"), h.configMap("tutti-scheduler-override")
	if got := base.Data["scheduler.yaml"]; strings.TrimSpace(got) != strings.TrimSpace(charts) {
		h.t.Errorf("%s: the chart's configuration is\n%s\nwant\n%s", when, got, charts)
	}
	if got := override.Data["scheduler.yaml"]; got != own || (override.Data["pause"] == "true") != paused {
		h.t.Errorf("%s: the operator's is %q, want paused %t and\n%s", when, override.Data, paused, own)
	}
	decides := charts
	if own != "" {
		decides = own
	}
	h.lab.Eventually(h.t, func() error {
		out, err := h.lab.Cluster.RunTool(h.t.Context(), h.plugin, "get", "config", "-o", "json",
			"--scheduler-server", "https://"+h.endpoint, "--scheduler-insecure-skip-tls-verify")
		if err != nil {
			return err
		}
		var list debugapi.ConfigList
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 1 {
			return fmt.Errorf("it shows %s: %w", out, err)
		}
		shown := &list.Items[0]
		if strings.TrimSpace(shown.Text) != strings.TrimSpace(decides) || (shown.Paused != "") != paused {
			return fmt.Errorf("%s: the scheduler runs with %q\n%s", when, shown.Paused, shown.Text)
		}
		return nil
	})
}

func (h *helmed) configMap(name string) *corev1.ConfigMap {
	h.t.Helper()
	var object corev1.ConfigMap
	if err := h.lab.Client.Get(h.t.Context(), client.ObjectKey{Namespace: release.Namespace, Name: name}, &object); err != nil {
		h.t.Fatal(err)
	}
	return &object
}

// ownedOnce fails where two managers own a key of the data of one object.
func (h *helmed) ownedOnce() {
	h.t.Helper()
	for _, name := range []string{"tutti-scheduler", "tutti-scheduler-override"} {
		owners := map[string][]string{}
		for _, entry := range h.configMap(name).ManagedFields {
			var fields struct {
				Data map[string]json.RawMessage `json:"f:data"`
			}
			if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
				h.t.Fatal(err)
			}
			for key := range fields.Data {
				if key != "." {
					owners[key] = append(owners[key], entry.Manager)
				}
			}
		}
		if len(owners) == 0 {
			h.t.Errorf("ConfigMap %s has no data that anyone owns", name)
		}
		for key, managers := range owners {
			if len(managers) != 1 {
				h.t.Errorf("ConfigMap %s: %s is owned by %q", name, key, managers)
			}
		}
	}
}
