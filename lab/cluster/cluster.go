package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/node"
	"github.com/tutti-sched/tutti/lab/process"
)

// Options say what the cluster is made of. The zero value is etcd and kube-apiserver of the default version.
type Options struct {
	// Kubernetes is the version, such as 1.35.4; empty means binaries.DefaultKubernetes.
	Kubernetes string
	// ControllerManager runs kube-controller-manager, with all its usual controllers but the two that judge nodes by
	// their kubelet's heartbeat. Without it there are no Jobs, no Deployments, no garbage collection, namespaces never
	// finish terminating, and pods need no ServiceAccount.
	ControllerManager bool
	// Scheduler runs kube-scheduler under its own name, default-scheduler.
	Scheduler bool
	// Kwok runs kwok. Without it pods stay Pending after they are bound, and deleted ones that were bound stay too,
	// unless they are deleted with no grace period.
	Kwok bool
	// RealNodes is how many nodes with a kubelet and a container runtime it has, named real-0, real-1 and so on, beside those that
	// CreateNodes makes (lab/node). Nodes are then judged by their heartbeats, and pods reach Services and the API server.
	RealNodes int
	// JobsRun keeps pods of batch Jobs running that have a command of their own, such as a sleep; without it all succeed after
	// a second.
	JobsRun bool
	// APIServerArgs, ControllerManagerArgs and SchedulerArgs come after the usual ones; the last of a kind wins.
	APIServerArgs, ControllerManagerArgs, SchedulerArgs []string
	// SchedulerConfig is the file of kube-scheduler's configuration; empty means its defaults with no client limits.
	// It is used as it is, so it must name a kubeconfig, for which Kubeconfig's path under Dir is known beforehand.
	SchedulerConfig string
	// Dir receives logs, keys and kubeconfigs, and is left behind (without the data) when the cluster stops. What an
	// earlier cluster left there is removed first; two cannot use it at the same time. Empty means a folder that goes with the
	// cluster.
	Dir string
	// Out receives progress; nil means nowhere.
	Out io.Writer
}

// Cluster is a running control plane. Its methods may be called from any goroutine.
type Cluster struct {
	options  Options
	programs *binaries.Set
	dir      string   // logs, keys, kubeconfigs
	dirLock  *os.File // held while the cluster uses dir
	scratch  *scratch
	ports    ports
	config   *rest.Config
	network  *node.Network // nil without real nodes
	machines []*node.Machine

	mu        sync.Mutex
	processes []*process.Process // in the order they were started
	stopped   bool
}

// Start builds what is missing and starts a cluster. It returns when every part says it is ready. If one does not, all
// are ended, and the error carries the end of its log.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Out == nil {
		options.Out = io.Discard
	}
	names := []string{binaries.Etcd, binaries.APIServer, binaries.Kubectl}
	for name, wanted := range map[string]bool{
		binaries.ControllerManager: options.ControllerManager,
		binaries.Scheduler:         options.Scheduler,
		binaries.Kwok:              options.Kwok,
	} {
		if wanted {
			names = append(names, name)
		}
	}
	programs, err := binaries.Ensure(ctx, options.Kubernetes, options.Out, names...)
	if err != nil {
		return nil, fmt.Errorf("programs: %w", err)
	}
	c := &Cluster{options: options, programs: programs}
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("cluster of Kubernetes %s: %w", programs.Kubernetes, err)
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// start brings the parts up, one after another where they need each other.
func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.scratch, err = newScratch(scratchBase()); err != nil {
		return err
	}
	if err := c.prepareDir(); err != nil {
		return err
	}
	if c.ports, err = freePorts(); err != nil {
		return err
	}
	if c.options.RealNodes > 0 {
		if c.network, err = node.NewNetwork(ctx); err != nil {
			return err
		}
	}
	if err := c.writeCredentials(); err != nil {
		return err
	}
	fmt.Fprintf(c.options.Out, "starting Kubernetes %s (logs in %s)\n", c.programs.Kubernetes, filepath.Join(c.dir, "logs"))
	for _, part := range []part{c.etcd(), c.apiServer()} {
		if err := c.run(ctx, part); err != nil {
			return err
		}
	}
	if err := c.writeKubeconfig(); err != nil {
		return err
	}
	if err := c.waitForNamespace(ctx, "default"); err != nil {
		return err
	}
	var others []part
	if c.options.ControllerManager {
		others = append(others, c.controllerManager())
	}
	if c.options.Scheduler {
		others = append(others, c.scheduler())
	}
	if c.options.Kwok {
		others = append(others, c.kwok())
	}
	for _, part := range others {
		if err := c.run(ctx, part); err != nil {
			return err
		}
	}
	if err := c.startMachines(ctx); err != nil {
		return err
	}
	fmt.Fprintf(c.options.Out, "ready at %s\n", c.config.Host)
	return nil
}

// prepareDir makes the folder of the cluster and empties it of what an earlier cluster left.
func (c *Cluster) prepareDir() error {
	if c.options.Dir == "" {
		c.dir = filepath.Join(c.scratch.dir, "cluster")
	} else {
		dir, err := filepath.Abs(c.options.Dir)
		if err != nil {
			return fmt.Errorf("folder of the cluster: %w", err)
		}
		c.dir = dir
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("folder of the cluster: %w", err)
	}
	var err error
	if c.dirLock, err = lockFile(filepath.Join(c.dir, ".lock"), syscall.LOCK_NB); err != nil {
		return fmt.Errorf("folder %s is that of another running cluster: %w", c.dir, err)
	}
	for _, name := range []string{"logs", "keys", "kubeconfig"} {
		if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
			return fmt.Errorf("folder of the cluster: %w", err)
		}
		if err := os.MkdirAll(filepath.Join(c.dir, name), 0o755); err != nil {
			return fmt.Errorf("folder of the cluster: %w", err)
		}
	}
	return nil
}

// Stop ends every process of the cluster and removes its data. It does not wait for anyone's grace period. To stop a
// stopped cluster does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	var failed error
	for _, m := range c.machines {
		if m != nil { // one that did not start
			m.Stop()
		}
	}
	if c.network != nil {
		failed = c.network.Close(context.Background())
	}
	c.machines, c.network = nil, nil
	// The last started first, so that no process complains about a server that has ended.
	for _, p := range slices.Backward(c.processes) {
		p.Kill()
	}
	c.processes = nil
	if c.dirLock != nil {
		c.dirLock.Close()
	}
	if c.scratch == nil {
		return failed
	}
	return errors.Join(failed, c.scratch.remove())
}

// Wait returns when ctx is over (nil) or when a process of the cluster has ended on its own (why).
func (c *Cluster) Wait(ctx context.Context) error {
	c.mu.Lock()
	running := slices.Clone(c.processes)
	c.mu.Unlock()
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan *process.Process)
	for _, p := range running {
		go func() {
			select {
			case <-p.Done():
				select {
				case ended <- p:
				case <-over.Done():
				}
			case <-over.Done():
			}
		}()
	}
	select {
	case <-ctx.Done():
		return nil
	case p := <-ended:
		return p.Failure()
	}
}

// Run starts one more program that ends with the cluster, such as the scheduler under test. Its log goes to the
// cluster's folder. The caller finds out when it is ready, and may end it earlier.
func (c *Cluster) Run(name, path string, args ...string) (*process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("start %s: the cluster has been stopped", name)
	}
	p, err := process.Start(process.Spec{Name: name, Path: path, Args: args, Log: c.LogFile(name)})
	if err != nil {
		return nil, err
	}
	c.processes = append(c.processes, p)
	return p, nil
}

// Version is the Kubernetes version, without a v.
func (c *Cluster) Version() string { return c.programs.Kubernetes }

// Dir is the folder with the cluster's logs, keys and kubeconfigs.
func (c *Cluster) Dir() string { return c.dir }

// LogFile is where the output of the named process goes.
func (c *Cluster) LogFile(name string) string { return filepath.Join(c.dir, "logs", name+".log") }

// Program is the file of a program that the cluster was started with, such as binaries.Kubectl.
func (c *Cluster) Program(name string) string { return c.programs.Path(name) }
