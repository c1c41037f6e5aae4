package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	logs "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

func parse(t *testing.T, args ...string) (*Flags, *pflag.FlagSet) {
	t.Helper()
	var f Flags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(flags, "0 little, 9 much")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f, flags
}

// TestJSON: a line has the keys that docs/operations.md names.
func TestJSON(t *testing.T) {
	f, _ := parse(t, "--logging-format=json", "-v=1")
	var out bytes.Buffer
	if err := logs.ValidateAndApplyWithOptions(&f.LoggingConfiguration, &logs.LoggingOptions{ErrorStream: &out}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := logs.ResetForTest(nil); err != nil {
			t.Error(err)
		}
	})
	log := klog.FromContext(t.Context())
	log.V(1).Info("Decision", "pod", klog.KRef("a", "b"))
	log.V(2).Info("Cycle")
	log.Error(errors.New("no"), "Failed", "n", 7)
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != 2 {
		t.Fatalf("%d lines:\n%s", len(got), &out)
	}
	for i, want := range []map[string]any{
		{"msg": "Decision", "v": 1.0, "pod": map[string]any{"namespace": "a", "name": "b"}},
		{"msg": "Failed", "err": "no", "n": 7.0},
	} {
		var line map[string]any
		if err := json.Unmarshal([]byte(got[i]), &line); err != nil {
			t.Fatalf("%s: %v", got[i], err)
		}
		for key, value := range want {
			if fmt.Sprint(line[key]) != fmt.Sprint(value) {
				t.Errorf("%s: %s is %v, want %v", got[i], key, line[key], value)
			}
		}
		if _, isNumber := line["ts"].(float64); !isNumber || !strings.Contains(fmt.Sprint(line["caller"]), "logging/logging_test.go:") {
			t.Errorf("%s: no time in milliseconds, or no place", got[i])
		}
	}
}

func TestWhatIsInvalidIsRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--logging-format=xml":                             `logging.format: Invalid value: "xml": Unsupported log format`,
		"--logging-format=json --vmodule=scheduler=4":      "logging.vmodule: Forbidden: Only supported for text log format",
		"--logging-format=json --log-json-split-stream":    "LoggingAlphaOptions is disabled",
		"--logging-format=text --vmodule=scheduler=4 -v=1": "",
	} {
		f, _ := parse(t, strings.Fields(args)...)
		if err := f.Validate(); want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestHelp: a flag that is refused without a feature gate that the programs do not have is not in the help.
func TestHelp(t *testing.T) {
	_, flags := parse(t)
	help := flags.FlagUsages()
	if !strings.Contains(help, "log verbosity: 0 little, 9 much") || strings.Contains(help, "lpha") {
		t.Errorf("help:\n%s", help)
	}
}
