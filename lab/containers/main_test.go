// Package containers tests what only real nodes show: the images of `make image` as the chart runs them, containers that a
// kubelet starts and ends, an MPI program, CPUs that the kernel isolates. The nodes are those of lab/node; all tests share them.
//
// Without root, or where this machine lacks something else, each test is skipped and says what is missing; with NODES=required,
// as `make nodes` has it, it fails.
package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
)

// nodes is how many real nodes there are; the last one is quiet, the one with an isolated CPU.
const (
	nodes = 3
	quiet = release.IsolatedNode
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // what controller-runtime has to say while it installs CRDs is in our errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stopped := context.AfterFunc(ctx, func() {
		end()
		os.Exit(1)
	})
	code := m.Run()
	stopped()
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// shared is the cluster of all tests, once one of them has asked for it.
var shared struct {
	sync.Mutex
	env    *harness.Env
	failed error
}

// lab returns the cluster with real nodes and the release in it. Where this machine cannot have them, the test is skipped.
func lab(t *testing.T) *harness.Env {
	t.Helper()
	if missing := node.Missing(); len(missing) > 0 {
		if os.Getenv("NODES") == "required" {
			t.Fatalf("real nodes need %s", strings.Join(missing, ", "))
		}
		t.Skipf("real nodes need %s", strings.Join(missing, ", "))
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.env == nil && shared.failed == nil {
		shared.env, shared.failed = start(context.Background())
	}
	if shared.failed != nil {
		t.Fatal(shared.failed)
	}
	return shared.env
}

func end() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.env == nil {
		return nil
	}
	return shared.env.Cluster.Stop()
}

// start starts the cluster and installs the chart in it, with the images of `make image`, as its install page says: two replicas
// of the scheduler, and the agent on the node that has its label.
func start(ctx context.Context) (*harness.Env, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Kubernetes: os.Getenv("K8S"), ControllerManager: true, Scheduler: true, Kwok: true, RealNodes: nodes,
		// A node that is silent is given up after this time, and after 50 s by default.
		ControllerManagerArgs: []string{"--node-monitor-grace-period=20s"},
		Dir:                   filepath.Join(root, "build", "containers"), Out: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	if err := release.InstallOnNodes(ctx, c, isolatedCPUs(), os.Stderr); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return harness.NewEnv(c)
}
