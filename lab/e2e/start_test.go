package e2e

import (
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/lab/cluster"
)

func TestFailedStartSaysWhy(t *testing.T) {
	t.Parallel()
	dir, version := t.TempDir(), env.Cluster.Version()
	c, err := cluster.Start(t.Context(), cluster.Options{Kubernetes: version, Dir: dir, Out: t.Output(), APIServerArgs: []string{"--nonsense"}})
	if err == nil {
		c.Stop()
		t.Fatal("a server with an unknown flag starts")
	}
	for _, want := range []string{"kube-apiserver did not become ready", "unknown flag: --nonsense"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	// What the failed start held is free again.
	c, err = cluster.Start(t.Context(), cluster.Options{Kubernetes: version, Dir: dir, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if _, err := cluster.Start(t.Context(), cluster.Options{Kubernetes: version, Dir: dir, Out: t.Output()}); err == nil {
		t.Error("two clusters share a folder")
	}
	if out, err := c.Kubectl(t.Context(), "get", "namespaces"); err != nil || !strings.Contains(out, "default") {
		t.Errorf("namespaces: %q, %v", out, err)
	}
}
