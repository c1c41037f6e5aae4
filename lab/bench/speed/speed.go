// Package speed measures how long the scheduler takes to bind many gangs, beside how long the binds alone take: the same
// objects on a fresh control plane each, first bound by 64 workers that decide nothing, then by the scheduler. The
// second time over the first is what a scheduler costs, whatever the machine.
//
// It sees the scheduler as a process and its work as a watch does; it measures nothing inside.
package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/load"
	"github.com/tutti-sched/tutti/lab/bench/observe"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// Options say what to measure.
type Options struct {
	// Kubernetes is the version of the control plane; empty means the default one.
	Kubernetes string
	// Nodes, Pods and GangSize are the sizes; Pods is a multiple of GangSize.
	Nodes, Pods, GangSize int
	// Rounds is how often both measurements are taken.
	Rounds int
	// Workers is how many binds are under way at a time when there is no scheduler.
	Workers int
	// Program is the scheduler; empty means that of this repository. Args come after its usual arguments.
	Program string
	Args    []string
	// Timeout is for one measurement.
	Timeout time.Duration
	// SlowestStart is how long a gang may take from its first bind to its minimum.
	SlowestStart time.Duration
	// Dir keeps logs; empty keeps none.
	Dir string
	// Out receives progress.
	Out io.Writer
}

// Round is one measurement of both.
type Round struct {
	// Alone is the time from the first call to the last reply, without a scheduler.
	Alone time.Duration
	// FirstBind and LastBind are the times from the start of the scheduler's process.
	FirstBind, LastBind time.Duration
	// SlowestStart is the longest that a gang took from its first bind to its minimum.
	SlowestStart time.Duration
	// CPU is what the scheduler's process used until the last bind.
	CPU time.Duration
	// OthersAlone and OthersScheduled are the part of the processors, 0 to 1, that programs used which have nothing to do
	// with the measurement: how far it is to be trusted.
	OthersAlone, OthersScheduled float64
	// Writes is what the scheduler had written by then, by resource and subresource.
	Writes map[string]int
	// Audit is the state after the last bind.
	Audit *audit.Report
}

// Ratio is how much longer it takes with the scheduler.
func (r Round) Ratio() float64 { return float64(r.LastBind) / float64(r.Alone) }

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case o.Nodes < 1 || o.Pods < 1 || o.GangSize < 1 || o.Rounds < 1 || o.Workers < 1:
		return errors.New("nodes, pods, gang size, rounds and workers must be 1 or more")
	case o.Pods%o.GangSize != 0:
		return fmt.Errorf("%d pods do not make whole gangs of %d", o.Pods, o.GangSize)
	case o.Pods > o.Nodes*perNode:
		return fmt.Errorf("%d nodes have room for %d pods only", o.Nodes, o.Nodes*perNode)
	}
	return nil
}

// Run measures, round after round, and returns what it has when something fails.
func Run(ctx context.Context, options Options) ([]Round, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	if options.Program == "" {
		var err error
		if options.Program, err = harness.BuildScheduler(ctx, options.Out); err != nil {
			return nil, err
		}
	}
	var rounds []Round
	for i := range options.Rounds {
		round, err := options.round(ctx)
		if err != nil {
			return rounds, fmt.Errorf("round %d: %w", i+1, err)
		}
		rounds = append(rounds, round)
		fmt.Fprintf(options.Out, "round %d: alone %.2fs, scheduler %.2fs (first bind %.2fs, slowest start %.2fs, CPU %.2fs, writes %v; others %.0f %% and %.0f %%), ratio %.2f\n",
			i+1, round.Alone.Seconds(), round.LastBind.Seconds(), round.FirstBind.Seconds(),
			round.SlowestStart.Seconds(), round.CPU.Seconds(), round.Writes,
			100*round.OthersAlone, 100*round.OthersScheduled, round.Ratio())
		if err := options.judge(round); err != nil {
			return rounds, fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	return rounds, nil
}

// judge says what is wrong with a round.
func (o *Options) judge(round Round) error {
	if err := round.Audit.Err(); err != nil {
		return err
	}
	if round.SlowestStart > o.SlowestStart {
		return fmt.Errorf("a gang took %s from its first bind to its minimum, more than %s", round.SlowestStart, o.SlowestStart)
	}
	return nil
}

func (o *Options) round(ctx context.Context) (Round, error) {
	var round Round
	if err := o.alone(ctx, &round); err != nil {
		return round, fmt.Errorf("binding alone: %w", err)
	}
	if err := o.scheduled(ctx, &round); err != nil {
		return round, fmt.Errorf("with the scheduler: %w", err)
	}
	return round, nil
}

// stage is a fresh control plane with everything created.
type stage struct {
	cluster *cluster.Cluster
	client  *load.Client
	nodes   []*corev1.Node
	pods    []*corev1.Pod
}

// namespace is where the gangs are.
const namespace = "bench"

// start brings up etcd and kube-apiserver, nothing else, and creates the objects.
func (o *Options) start(ctx context.Context) (*stage, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Kubernetes: o.Kubernetes, Dir: o.Dir})
	if err != nil {
		return nil, err
	}
	s := &stage{cluster: c, nodes: nodes(o.Nodes)}
	if err := s.fill(ctx, root, o); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return s, nil
}

func (s *stage) fill(ctx context.Context, root string, o *Options) error {
	err := s.cluster.ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases"))
	if err != nil {
		return err
	}
	if s.client, err = load.NewClient(s.cluster.Config(), o.Workers); err != nil {
		return err
	}
	if err := s.client.Namespace(ctx, namespace); err != nil {
		return err
	}
	if err := s.client.CreateNodes(ctx, s.nodes); err != nil {
		return err
	}
	groups, pods := gangs(o.Pods/o.GangSize, o.GangSize)
	if err := s.client.CreateGroups(ctx, groups); err != nil {
		return err
	}
	s.pods, err = s.client.CreatePods(ctx, pods)
	return err
}

// alone measures the binds themselves.
func (o *Options) alone(ctx context.Context, round *Round) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	s, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.cluster.Stop()) }()
	targets := make([]string, len(s.pods))
	for i := range targets {
		targets[i] = s.nodes[i%len(s.nodes)].Name
	}
	before, err := used()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := s.client.Bind(ctx, s.pods, targets); err != nil {
		return err
	}
	round.Alone = time.Since(start)
	after, err := used()
	round.OthersAlone = others(before, after)
	return err
}

// scheduled measures the scheduler.
func (o *Options) scheduled(ctx context.Context, round *Round) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	s, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.cluster.Stop()) }()
	minimum := map[string]int{}
	for _, pod := range s.pods {
		minimum[pod.Labels[v1alpha1.LabelPodGroup]]++
	}
	watched, err := observe.Start(ctx, s.client, observe.Options{Namespace: namespace, Gangs: minimum})
	if err != nil {
		return err
	}
	written, err := observe.Writes(ctx, s.client.Core)
	if err != nil {
		return err
	}
	before, err := used()
	if err != nil {
		return err
	}
	start := time.Now()
	scheduler, err := harness.StartScheduler(ctx, s.cluster, harness.SchedulerOptions{
		Path: o.Program, Args: o.Args, NotReady: true,
	})
	if err != nil {
		return err
	}
	if err := watched.WaitBound(ctx, len(s.pods)); err != nil {
		return fmt.Errorf("%w\n%w", err, scheduler.Failure())
	}
	after, err := used()
	if err != nil {
		return err
	}
	round.OthersScheduled = others(before, after)
	if round.CPU, err = cpuTime(scheduler.PID()); err != nil {
		return err
	}
	round.times(watched, start)
	if round.Writes, err = observe.Writes(ctx, s.client.Core); err != nil {
		return err
	}
	for name, count := range written {
		if round.Writes[name] -= count; round.Writes[name] == 0 {
			delete(round.Writes, name)
		}
	}
	if round.Audit, err = s.audit(ctx); err != nil {
		return fmt.Errorf("%w\n%w", err, scheduler.Failure())
	}
	return nil
}

// times takes down what was seen.
func (r *Round) times(watched *observe.Observer, start time.Time) {
	_, last := watched.Bound()
	r.LastBind = last.Sub(start)
	r.FirstBind = r.LastBind
	for _, gang := range watched.Gangs() {
		r.FirstBind = min(r.FirstBind, gang.First.Sub(start))
		r.SlowestStart = max(r.SlowestStart, gang.Started.Sub(gang.First))
	}
}
