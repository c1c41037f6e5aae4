package release

import (
	"slices"
	"testing"
)

func TestLocalArgs(t *testing.T) {
	r := &Release{Args: []string{
		"--config-map=tutti-system/tutti-scheduler/scheduler.yaml", "--scheduler-name=tutti", "--leader-elect=true",
		"--health-probe-bind-address=:8081", "--metrics-bind-address=:8080", "--v=3",
	}}
	want := []string{
		"--config-map=tutti-system/tutti-scheduler/scheduler.yaml", "--scheduler-name=tutti", "--leader-elect=true",
		"--health-probe-bind-address=127.0.0.1:1", "--metrics-bind-address=127.0.0.1:0", "--v=3",
	}
	if got := r.localArgs("127.0.0.1:1"); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
