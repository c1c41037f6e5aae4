package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// execute runs the command with arguments and returns what it printed.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := New()
	command.SetOut(&out)
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExplainConfigOfTheDefault(t *testing.T) {
	out, err := execute(t, "--explain-config")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"actions: allocate", "jobOrder      priority", "nodeFilter    predicates", "jobGate       gang"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestExplainConfigShowsWhatIsDisabled(t *testing.T) {
	out, err := execute(t, "--explain-config", "--config", configFile(t, `
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: priority
    enableJobOrder: false
- plugins:
  - name: predicates
  - name: nodeorder
    arguments: {leastrequested.weight: "0", mostrequested.weight: 5}
`))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "jobOrder      -") || !strings.Contains(out, "taskOrder     priority") {
		t.Errorf("priority still orders jobs, or no longer tasks:\n%s", out)
	}
}

func TestBadConfigurationsSayWhereAndWhatWasMeant(t *testing.T) {
	for name, c := range map[string]struct{ text, line, says string }{
		"action":   {"actions: \"alocate\"\ntiers: [{plugins: [{name: gang}]}]\n", ":1:", "allocate"},
		"foreign":  {"actions: \"allocate, enqueue\"\ntiers: [{plugins: [{name: gang}]}]\n", ":1:", "is Volcano's: take it out"},
		"plugin":   {"actions: allocate\ntiers:\n- plugins:\n  - name: gagn\n", ":4:", "gang"},
		"key":      {"actions: allocate\ntier: []\n", ":2:", "tiers"},
		"argument": {"actions: allocate\ntiers:\n- plugins:\n  - name: nodeorder\n    arguments:\n      leastrequsted.weight: 1\n", ":6:", "leastrequested.weight"},
		"type":     {"actions: allocate\ntiers:\n- plugins:\n  - name: nodeorder\n    arguments:\n      leastrequested.weight: much\n", ":6:", "whole number"},
		"nothing":  {"apiVersion: config.tutti.dev/v1alpha1\nactions: allocate\ntiers:\n- plugins:\n  - name: nodeorder\n    disable: [nodeScore]\n", ":5:", "takes part in nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := execute(t, "--explain-config", "--config", configFile(t, c.text))
			if err == nil || !strings.Contains(err.Error(), "scheduler.yaml"+c.line) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one at %s that says %q", err, c.line, c.says)
			}
		})
	}
}

func TestExplainConfigOfAName(t *testing.T) {
	out, err := execute(t, "--explain-config", "preempt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"action preempt: evicts", "victims\n    own or all, unless given: own", "budget\n    whole number of looks at nodes"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, err := execute(t, "--explain-config", "preemt"); err == nil || !strings.Contains(err.Error(), `"preemt"`) {
		t.Errorf("an unknown name: %v", err)
	}
	for _, args := range [][]string{{"preempt"}, {"--explain-config", "preempt", "gang"}, {"--explain-config", "--config-map=a/b"}} {
		if out, err := execute(t, args...); err == nil {
			t.Errorf("%q: no error, but\n%s", args, out)
		}
	}
}

func TestAConfigurationHasOneSource(t *testing.T) {
	for want, args := range map[string][]string{
		"give one of them":               {"--config=x.yaml", "--config-map=a/b"},
		"NAMESPACE/NAME":                 {"--config-map=a"},
		"give that, too":                 {"--config-map-override=b"},
		"x.yaml: no such file or direct": {"--explain-config", "--config=x.yaml"},
	} {
		if _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q in it", args, err, want)
		}
	}
}

// TestATextIsChecked: as the scheduler would read it, with all that is wrong in all texts, and without a cluster.
func TestATextIsChecked(t *testing.T) {
	const fine = "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
	if out, err := execute(t, "--check-config="+fine); err != nil || !strings.Contains(out, "the configuration is fine") {
		t.Errorf("%v: %s", err, out)
	}
	_, err := execute(t, "--check-config="+strings.Replace(fine, "allocate", "alocate", 1), "--check-config="+strings.Replace(fine, "gang", "gnag", 1))
	for _, want := range []string{
		`scheduler.yaml:1: unknown action "alocate"; did you mean "allocate"?`, `override/scheduler.yaml:3: unknown plugin "gnag"; did you mean "gang"?`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestBadFlagsAreRefusedTogether(t *testing.T) {
	_, err := execute(t, "--step-limit=1ms", "--scheduler-name=default-scheduler", "--scheduler-name=Not A Name")
	for _, want := range []string{"--step-limit 1ms", "kube-scheduler's", `"Not A Name"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that mentions %s", err, want)
		}
	}
}

// TestRemovedFlagsSayWhatToWrite: a removed flag is refused by name, and help does not show it.
func TestRemovedFlagsSayWhatToWrite(t *testing.T) {
	help, err := execute(t, "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--schedule-period=5s", "--bind-workers=64", "--schedule-period", "--bind-workers"} {
		name, _, _ := strings.Cut(flag, "=")
		if _, err := execute(t, flag); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "leave it out") {
			t.Errorf("%s: %v", flag, err)
		}
		if strings.Contains(help, name) {
			t.Errorf("help shows %s", name)
		}
	}
}

func TestNoClusterIsAClearError(t *testing.T) {
	_, err := execute(t, "--kubeconfig", filepath.Join(t.TempDir(), "none"))
	if err == nil || !strings.Contains(err.Error(), "kubeconfig") {
		t.Errorf("error %v", err)
	}
}
