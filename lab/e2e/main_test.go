// Package e2e runs Tutti in a real cluster: a real API server, controller manager and kube-scheduler, with kwok in
// place of kubelets. All tests share one cluster; each has a namespace and nodes of its own.
//
// The version of Kubernetes is that of the environment variable K8S, so that `make e2e K8S=1.35.4` tries another.
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// env is the cluster that all tests share.
var env *harness.Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // what controller-runtime has to say while it installs CRDs is in our errors
	os.Exit(withCluster(m))
}

// withCluster runs the tests between the start and the end of the cluster.
func withCluster(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := startCluster(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Stop()
	// An interrupted run ends here, and the cluster with it.
	finished := context.AfterFunc(ctx, func() {
		c.Stop()
		os.Exit(1)
	})
	defer finished()
	if env, err = harness.NewEnv(c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// startCluster starts the cluster with everything, Tutti's custom resources included. Its folder is build/e2e, or another one in
// build that the environment variable LOGS names: two processes cannot share one.
func startCluster(ctx context.Context) (*cluster.Cluster, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Kubernetes:        os.Getenv("K8S"),
		ControllerManager: true, Scheduler: true, Kwok: true,
		Dir: filepath.Join(root, "build", cmp.Or(os.Getenv("LOGS"), "e2e")),
		Out: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	if err := c.ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases")); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}
