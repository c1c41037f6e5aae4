package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/process"
)

// schedulerConfiguration is the built-in one, but for the time after which a gang gets a reservation, and the level of the racks.
//
//go:embed scheduler.yaml
var schedulerConfiguration []byte

// namespace is where the demo's jobs are.
const namespace = "demo"

// Options say how the demo runs.
type Options struct {
	// Kubernetes is the version of the cluster; empty means the lab's default.
	Kubernetes string
	// Keep leaves the cluster up after the verdict, until the context ends.
	Keep bool
	// Torch has a PyTorchJob run, too, where the nodes are real. Its image is large.
	Torch bool
	// Out receives the show.
	Out io.Writer
}

// Run runs the demo. Its error says what did not go as it should, nil that everything did.
func Run(ctx context.Context, options Options) error {
	s := &demo{screen: newScreen(options.Out), options: options, nodes: environment()}
	s.board = newBoard(racksOf(s.nodes), s.screen.say)
	s.screen.title("Tutti: a job starts as a whole or not at all")
	program, err := s.build(ctx)
	if err != nil {
		return err
	}
	s.cluster, err = cluster.Start(ctx, s.clusterOptions())
	if err != nil {
		return err
	}
	defer s.cluster.Stop()
	if err := s.prepare(ctx, program); err != nil {
		return err
	}
	changes, unfollow, err := follow(ctx, s.cluster.Config(), namespace)
	if err != nil {
		return err
	}
	defer unfollow()
	s.changes = changes
	if err := s.play(ctx); err != nil {
		return err
	}
	verdict := s.verdict(ctx)
	if options.Keep {
		s.keep(ctx)
	}
	return verdict
}

// demo is one run of the demo.
type demo struct {
	options   Options
	screen    *output
	nodes     []*corev1.Node
	cluster   *cluster.Cluster
	client    client.Client
	scheduler *process.Process
	// endpoint is where the scheduler serves what kubectl tutti asks it for.
	endpoint string
	board    *progress
	changes  <-chan change
}

// build makes the programs: those of the control plane that are missing, and the scheduler.
func (s *demo) build(ctx context.Context) (string, error) {
	s.screen.say("programs", "building those that are missing (the first time that takes a while)")
	if _, err := binaries.Ensure(ctx, s.options.Kubernetes, s.screen.writer("programs")); err != nil {
		return "", fmt.Errorf("programs: %w", err)
	}
	return binaries.Build(ctx, s.screen.writer("programs"), binaries.TuttiScheduler)
}

func (s *demo) clusterOptions() cluster.Options {
	options := cluster.Options{
		Kubernetes:        s.options.Kubernetes,
		ControllerManager: true, Scheduler: true, Kwok: true,
		Out: s.screen.writer("cluster"),
	}
	if root, err := binaries.Root(); err == nil {
		options.Dir = filepath.Join(root, "build", "demo")
	}
	return options
}

// prepare makes the cluster what an operator would have: nodes, the chart, a scheduler that leads.
func (s *demo) prepare(ctx context.Context, program string) error {
	if err := s.cluster.CreateNodes(ctx, s.nodes...); err != nil {
		return err
	}
	s.screen.say("nodes", "8 with 8 GPUs each, 4 in rack a and 4 in rack b; 4 with 16 CPUs and no GPU; 1 with 16 CPUs, 8 of them isolated")
	if err := s.install(ctx); err != nil {
		return err
	}
	if err := s.run(ctx, program); err != nil {
		return err
	}
	env, err := harness.NewEnv(s.cluster)
	if err != nil {
		return err
	}
	s.client = env.Client
	if err := s.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	return nil
}

func (s *demo) install(ctx context.Context) error {
	chart, err := release.Chart()
	if err != nil {
		return err
	}
	configuration := filepath.Join(s.cluster.Dir(), "scheduler.yaml")
	if err := os.WriteFile(configuration, schedulerConfiguration, 0o600); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	s.screen.say("chart", "helm upgrade --install %s charts/tutti -n %s --create-namespace --wait --set global.imageRegistry=%s --set isolcpu.enabled=true --set-file config=scheduler.yaml",
		release.Name, release.Namespace, release.Registry)
	s.screen.say("", "(the built-in configuration, but that a gang gets a reservation after two seconds, not ten minutes, and that racks are a level)")
	stop := s.screen.heartbeat("chart", "waiting for its pods")
	defer stop()
	return release.Install(ctx, s.cluster, chart, "--set", "isolcpu.enabled=true", "--set-file", "config="+configuration)
}

// run starts the real scheduler beside the pods of the chart, and waits until it leads.
func (s *demo) run(ctx context.Context, program string) error {
	installed, err := release.Read(ctx, s.cluster)
	if err != nil {
		return err
	}
	s.screen.say("chart", "%d pods of the Deployment are ready; on these nodes no container runs, so they do nothing",
		installed.Ready)
	s.screen.say("scheduler", "the real one runs beside them, as %s", installed.User())
	for _, arg := range installed.Args {
		s.screen.say("", "  %s", arg)
	}
	s.screen.say("", "(the chart's arguments; file: the live ConfigMap; the ports are replaced by free ones)")
	if s.endpoint, err = cluster.FreeAddress(); err != nil {
		return err
	}
	s.scheduler, err = installed.Start(ctx, s.cluster, "tutti-scheduler", program, "--metrics-bind-address="+s.endpoint)
	if err != nil {
		return err
	}
	clientset, err := s.cluster.Client()
	if err != nil {
		return err
	}
	leases := clientset.CoordinationV1().Leases(release.Namespace)
	holder := ""
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, cluster.Patience, true, func(ctx context.Context) (bool, error) {
		lease, err := leases.Get(ctx, release.Deployment, metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		return holder != "", nil
	})
	if err != nil {
		return fmt.Errorf("no scheduler took the lease: %w\n%w", err, s.scheduler.Failure())
	}
	s.screen.say("scheduler", "ready, and holds the Lease as %s", holder)
	return nil
}

// keep leaves the cluster up until the context ends.
func (s *demo) keep(ctx context.Context) {
	path := filepath.Dir(s.cluster.Program(binaries.Kubectl))
	if root, err := binaries.Root(); err == nil {
		path = filepath.Join(root, "bin") + ":" + path
	}
	fmt.Fprintf(s.options.Out, `
The cluster stays up. In another shell, after "make build", which makes kubectl tutti:

  export KUBECONFIG=%[1]s
  export PATH=%[2]s:$PATH
  kubectl get tpg,pods -n %[3]s -o wide
  kubectl describe tpg too-big -n %[3]s
  kubectl tutti why too-big -n %[3]s --scheduler-server https://%[4]s   # the scheduler is no pod here
  kubectl tutti get nodes --scheduler-server https://%[4]s

The scheduler's log is %[5]s
Ctrl-C ends it, and so does the end of any of its processes.
`, s.cluster.Kubeconfig(), path, namespace, s.endpoint, s.scheduler.LogFile())
	if err := s.cluster.Wait(ctx); err != nil {
		s.screen.say("cluster", "%v", err)
	}
}

// errInterrupted is why a demo ends that its user has interrupted.
var errInterrupted = errors.New("interrupted")
