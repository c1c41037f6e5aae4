package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

type name struct{ Namespace, Name string }

func (n name) String() string { return n.Namespace + "/" + n.Name }

// lines logs in a format and returns what was written.
func lines(t *testing.T, args ...string) []string {
	t.Helper()
	var f Flags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	f.Apply(&out)
	t.Cleanup(klog.ClearLogger)
	log := klog.FromContext(t.Context())
	log.Info("Plain", "pod", name{"a", "b"}, "took", 3*time.Second, "nodes", []string{"n1", "n2"})
	log.V(1).Info("Decision")
	log.V(2).Info("Cycle")
	log.Error(errors.New("no"), "Failed", "n", 7)
	klog.Flush()
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func TestJSON(t *testing.T) {
	got := lines(t, "--logging-format=json", "-v=1")
	if len(got) != 3 {
		t.Fatalf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i, want := range []map[string]any{
		{"msg": "Plain", "v": 0.0, "pod": "a/b", "took": "3s", "nodes": "[n1 n2]"},
		{"msg": "Decision", "v": 1.0},
		{"msg": "Failed", "level": "error", "err": "no", "n": 7.0},
	} {
		var line map[string]any
		if err := json.Unmarshal([]byte(got[i]), &line); err != nil {
			t.Fatalf("%s: %v", got[i], err)
		}
		for key, value := range want {
			if shown := line[key]; shown != value && fmt.Sprint(shown) != value {
				t.Errorf("%s: %s is %v, want %v", got[i], key, shown, value)
			}
		}
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["ts"])); err != nil || !strings.Contains(fmt.Sprint(line["caller"]), "logging_test.go:") {
			t.Errorf("%s: no time, or no place: %v", got[i], err)
		}
	}
}

func TestAnUnknownFormatIsRefused(t *testing.T) {
	f := Flags{format: "xml"}
	if err := f.Validate(); err == nil || !strings.Contains(err.Error(), `--logging-format "xml": must be text or json`) {
		t.Errorf("error %v", err)
	}
}
