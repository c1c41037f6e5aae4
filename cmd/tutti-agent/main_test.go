package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("NODE_NAME", "")
	var out bytes.Buffer
	command := newCommand()
	command.SetOut(&out)
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

// sysfs writes a machine with four CPUs, the last two isolated, and returns its root.
func sysfs(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"online": "0-3\n", "isolated": "2-3\n"} {
		directory := filepath.Join(root, "devices/system/cpu")
		if err := os.MkdirAll(directory, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDiscover(t *testing.T) {
	static := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(static, []byte("kind: KubeletConfiguration\ncpuManagerPolicy: static\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t, "discover", "--sysfs-root", sysfs(t), "--kubelet-state", static, "--mode", "excluded")
	if err != nil {
		t.Fatal(err)
	}
	var found struct{ Topology isolated.Topology }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	top := found.Topology
	if top.Isolated != isolated.NewCPUSet(2, 3) || top.Mode != isolated.Excluded || top.Source != "isolcpus" ||
		len(top.Problems) != 1 || !strings.Contains(top.Problems[0], "cpuManagerPolicy=static") {
		t.Errorf("found %+v", top)
	}
	out, err = execute(t, "discover", "--sysfs-root", sysfs(t), "--kubelet-state=", "--isolated-override", "1,3,9")
	if err != nil || !strings.Contains(out, `"isolated": "1,3"`) || !strings.Contains(out, "isolated CPUs 9 are not online") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestWrongFlagsAreAllNamed(t *testing.T) {
	_, err := execute(t, "--mode", "both", "--isolated-override", "3-1")
	for _, want := range []string{"--node-name or $NODE_NAME", `--mode "both"`, `--isolated-override: CPU list "3-1"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err = execute(t, "discover", "--mode", "both"); err == nil {
		t.Error("discover takes any mode")
	}
	if _, err = execute(t, "discover", "--sysfs-root", t.TempDir()); err == nil || !strings.Contains(err.Error(), "online") {
		t.Errorf("no machine: %v", err)
	}
}

// TestEndpoints: the endpoints are served while the work runs, and both end together.
func TestEndpoints(t *testing.T) {
	o := &options{nodeName: "n1", sysfsRoot: sysfs(t)}
	registry := prometheus.NewRegistry()
	works, err := o.wire(fake.NewClientset(), registry)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := errors.New("the work ended")
	err = serveBeside(t.Context(), listener, handler(works, registry), func(context.Context) error {
		for path, want := range map[string]string{
			"/healthz": "ok", "/readyz": "could not be read", "/metrics": "isolcpu_enforcement_drift_total 0",
		} {
			response, err := http.Get("http://" + listener.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || !strings.Contains(string(body), want) || (response.StatusCode == http.StatusOK) == (path == "/readyz") {
				t.Errorf("%s: %s, %v: %s", path, response.Status, err, body)
			}
		}
		return ended
	})
	if !errors.Is(err, ended) || strings.Contains(err.Error(), "server") {
		t.Errorf("error %v", err)
	}
	if _, err := http.Get("http://" + listener.Addr().String() + "/healthz"); err == nil {
		t.Error("still served")
	}
}
