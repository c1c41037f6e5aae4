// Package memory measures what a scheduler's process holds of the machine's memory in a large cluster at rest: nodes, and
// pods that run on them in gangs of its own, placed there by the measurement and not by the scheduler.
package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/bench/load"
	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/process"
)

// Goal is the most that Tutti's process should hold at rest, in bytes, with 5,000 nodes and 50,000 pods.
const Goal = 400 << 20

// AtRest is how long the memory must usually not have become less: longer than the two minutes after which Go's runtime
// collects garbage at the latest in a process that has nothing to do.
const AtRest = 130 * time.Second

// Options say what to measure.
type Options struct {
	// Kubernetes is the version of the control plane; empty means the default one.
	Kubernetes string
	// Contenders are the schedulers.
	Contenders []stage.SchedulerUnderTest
	// Nodes, Pods and GangSize are the sizes.
	Nodes, Pods, GangSize int
	// Workers is how many requests of the measurement are under way at a time.
	Workers int
	// Program is Tutti's scheduler; empty means that of this repository.
	Program string
	// Settle is how long the memory must not have become less before it counts as settled.
	Settle time.Duration
	// Timeout is for one contender, from when its control plane is there.
	Timeout time.Duration
	// Out receives progress.
	Out io.Writer
}

// Run is what was measured of one scheduler.
type Run struct {
	Contender stage.SchedulerUnderTest
	// Settled is what the process holds after the garbage of its start is gone, Peak the most it held until then, in bytes.
	Settled, Peak int64
	// After is how long after the start of the process that was.
	After time.Duration
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case o.Nodes < 1 || o.Pods < 1 || o.GangSize < 1 || o.Workers < 1:
		return errors.New("nodes, pods, gang size and workers must be 1 or more")
	case o.Pods%o.GangSize != 0:
		return fmt.Errorf("%d pods do not make whole gangs of %d", o.Pods, o.GangSize)
	}
	return errors.Join(stage.Room(o.Nodes, o.Pods), stage.Schedulers(o.Contenders))
}

// Measure measures one scheduler after another and returns what it has when something fails.
func Measure(ctx context.Context, options Options) ([]Run, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	var err error
	if options.Program, err = stage.Program(ctx, options.Program, options.Contenders, options.Out); err != nil {
		return nil, err
	}
	var runs []Run
	for _, contender := range options.Contenders {
		run, err := options.measure(ctx, contender)
		if err != nil {
			return runs, fmt.Errorf("%s: %w", contender, err)
		}
		runs = append(runs, run)
		fmt.Fprintf(options.Out, "memory of %s: %s settled after %s, peak %s\n", contender, megabytes(run.Settled),
			run.After.Round(time.Second), megabytes(run.Peak))
	}
	return runs, nil
}

func (o *Options) measure(ctx context.Context, contender stage.SchedulerUnderTest) (run Run, err error) {
	s, err := stage.Start(ctx, stage.Options{
		Kubernetes: o.Kubernetes, Contender: contender, Nodes: o.Nodes, Workers: o.Workers, Program: o.Program, Out: o.Out,
	})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := o.fill(ctx, s); err != nil {
		return run, err
	}
	fmt.Fprintf(o.Out, "%d pods run on %d nodes\n", o.Pods, o.Nodes)
	start := time.Now()
	scheduler, err := s.Scheduler(ctx)
	if err != nil {
		return run, err
	}
	run, err = o.settle(ctx, scheduler.Process)
	run.Contender, run.After = contender, time.Since(start)
	return run, err
}

// fill lets pods run on nodes.
func (o *Options) fill(ctx context.Context, s *stage.Bench) error {
	gangs := stage.Gangs{Prefix: "gang", Count: o.Pods / o.GangSize, Size: o.GangSize}
	pods, err := s.CreateGangs(ctx, gangs, func(i int, pod *corev1.Pod) { pod.Spec.NodeName = s.Nodes[i%len(s.Nodes)].Name })
	if err != nil {
		return err
	}
	return load.Each(ctx, s.Client, pods, func(ctx context.Context, _ int, pod *corev1.Pod) error {
		now := metav1.Now()
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
		if _, err := s.Client.Core.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("run pod %s: %w", pod.Name, err)
		}
		return nil
	})
}

// settle waits until the process gives no more memory back. Its runtime does so slowly.
func (o *Options) settle(ctx context.Context, scheduler *process.Process) (Run, error) {
	var run Run
	least, since := int64(0), time.Now()
	err := wait.PollUntilContextCancel(ctx, time.Second, false, func(context.Context) (bool, error) {
		memory, err := stage.MemoryOf(scheduler.PID())
		if err != nil {
			return false, fmt.Errorf("%w\n%w", err, scheduler.Failure())
		}
		run.Settled, run.Peak = memory.Now, memory.Peak
		if least == 0 || memory.Now < least*99/100 || memory.Now > least*105/100 {
			least, since = memory.Now, time.Now()
		}
		return time.Since(since) >= o.Settle, nil
	})
	if err != nil {
		return run, fmt.Errorf("memory has not settled: %w", err)
	}
	return run, nil
}

// Name is what the measurement is called, by its sizes.
func (o *Options) Name() string { return fmt.Sprintf("%d pods on %d nodes, at rest", o.Pods, o.Nodes) }

// Markdown is the part of a page about these runs.
func (o *Options) Markdown(kubernetes string, runs []Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n    cd lab && go run ./cmd/lab bench memory --nodes %d --pods %d --gang-size %d\n\n",
		o.Name(), o.Nodes, o.Pods, o.GangSize)
	fmt.Fprintf(&b, "Kubernetes %s; %s.\n\n", kubernetes, page.Machine())
	b.WriteString("| scheduler | settled | goal | met | peak | settled after |\n|---|---:|---:|---|---:|---:|\n")
	for _, run := range runs {
		goal, met := "", ""
		if run.Contender == stage.Tutti && o.Nodes == 5000 && o.Pods == 50_000 {
			goal, met = "≤ "+megabytes(Goal), page.Met(run.Settled <= Goal)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", run.Contender, megabytes(run.Settled), goal, met, megabytes(run.Peak),
			run.After.Round(time.Second))
	}
	return b.String()
}

// megabytes are those of 1,048,576 bytes.
func megabytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
