package release

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestLocalArgs(t *testing.T) {
	dir := t.TempDir()
	r := &Release{
		Args: []string{
			"--config=/etc/tutti/scheduler.yaml", "--scheduler-name=tutti", "--leader-elect=true",
			"--health-probe-bind-address=:8081", "--metrics-bind-address=:8080", "--v=3",
		},
		mounts: []mount{{path: "/etc/tutti", data: map[string]string{"scheduler.yaml": "actions: allocate\n"}}},
	}
	got, err := r.localArgs(dir, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "scheduler.yaml")
	want := []string{
		"--config=" + file, "--scheduler-name=tutti", "--leader-elect=true",
		"--health-probe-bind-address=127.0.0.1:1", "--metrics-bind-address=127.0.0.1:0", "--v=3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "actions: allocate\n" {
		t.Errorf("the mounted file: %q, %v", text, err)
	}
}

func TestLocalArgsOfAMissingKey(t *testing.T) {
	r := &Release{Args: []string{"--config=/etc/tutti/other.yaml"}, mounts: []mount{{path: "/etc/tutti"}}}
	if _, err := r.localArgs(t.TempDir(), "127.0.0.1:1"); err == nil {
		t.Error("a file that the config map does not have is no error")
	}
}
