package openb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/load"
	"github.com/tutti-sched/tutti/lab/bench/observe"
	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// Options say how to run.
type Options struct {
	// Data is the folder of the traces.
	Data string
	// Demand is what is asked for, as a part of the GPUs there are.
	Demand float64
	// Seed shuffles the traces; 0 keeps the order of arrival.
	Seed uint64
	// Kubernetes is the version of the control plane; empty means the default one.
	Kubernetes string
	// Program is the scheduler; empty means that of this repository. Args come after its usual arguments.
	Program string
	Args    []string
	// Quiet is how long nothing must have changed at the end; Timeout is the longest the scheduler may take to get there.
	Quiet, Timeout time.Duration
	// Dir keeps logs; empty keeps none.
	Dir string
	// Out receives progress.
	Out io.Writer
}

// Result is what a run came to.
type Result struct {
	Workload *Workload
	// Kubernetes is the version of the control plane.
	Kubernetes string
	// FirstBind, LastBind and Rest are times from the start of the scheduler's process: the first and last bind that a
	// watch saw, and the last change of anything.
	FirstBind, LastBind, Rest time.Duration
	// SlowestStart is the longest that a gang took from its first bind to its minimum.
	SlowestStart time.Duration
	// Binds is how many pods were bound.
	Binds int
	Audit *audit.Report
}

// workers is how many objects are created at a time.
const workers = 64

// Run composes the workload, creates it in a fresh control plane, lets the scheduler work, and audits what it left. An
// error is about the run; what the audit found is in the result.
func Run(ctx context.Context, options Options) (result *Result, err error) {
	trace, err := Load(options.Data)
	if err != nil {
		return nil, err
	}
	workload, err := Compose(trace, options.Demand, options.Seed)
	if err != nil {
		return nil, err
	}
	if options.Program == "" {
		if options.Program, err = binaries.Build(ctx, options.Out, binaries.TuttiScheduler); err != nil {
			return nil, err
		}
	}
	// Nothing has to run, so no kubelet is simulated: a bound pod stays as it is.
	c, err := cluster.Start(ctx, cluster.Options{Kubernetes: options.Kubernetes, Dir: options.Dir, Out: options.Out})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	client, err := load.NewClient(c.Config(), workers)
	if err != nil {
		return nil, err
	}
	if err := workload.create(ctx, c, client, options.Out); err != nil {
		return nil, err
	}
	result = &Result{Workload: workload, Kubernetes: c.Version()}
	if err := result.measure(ctx, c, client, options); err != nil {
		return nil, err
	}
	state, err := audit.Read(ctx, c.Config())
	if err != nil {
		return nil, err
	}
	result.Audit = audit.Audit(state, harness.SchedulerName)
	return result, nil
}

// create makes all objects before there is a scheduler.
func (w *Workload) create(ctx context.Context, c *cluster.Cluster, client *load.Client, out io.Writer) error {
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	if err := c.ApplyCRDs(ctx, filepath.Join(root, "config", "crd", "bases")); err != nil {
		return err
	}
	start := time.Now()
	if err := client.Namespace(ctx, namespace); err != nil {
		return err
	}
	if err := client.CreateNodes(ctx, w.nodes()); err != nil {
		return err
	}
	if err := client.CreateGroups(ctx, w.groups()); err != nil {
		return err
	}
	if _, err := client.CreatePods(ctx, w.pods()); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d nodes, %d gangs, %d pods created after %s\n",
		len(w.Nodes), len(w.Gangs), w.Pods, time.Since(start).Round(100*time.Millisecond))
	return nil
}

// measure runs the scheduler until all is at rest, then ends it.
func (r *Result) measure(ctx context.Context, c *cluster.Cluster, client *load.Client, options Options) error {
	ctx, cancel := context.WithTimeout(ctx, options.Timeout)
	defer cancel()
	minimum := map[string]int{}
	for _, gang := range r.Workload.Gangs {
		minimum[gang.Name] = gang.Size
	}
	watched, err := observe.Start(ctx, client, observe.Options{Namespace: namespace, Gangs: minimum, Thorough: true})
	if err != nil {
		return err
	}
	start := time.Now()
	scheduler, err := harness.StartScheduler(ctx, c, harness.SchedulerOptions{
		Path: options.Program, Args: options.Args, NotReady: true,
	})
	if err != nil {
		return err
	}
	defer scheduler.Kill()
	if err := watched.WaitSettled(ctx, options.Quiet); err != nil {
		return fmt.Errorf("%w\n%w", err, scheduler.Failure())
	}
	if err := alive(scheduler); err != nil {
		return err
	}
	var last time.Time
	r.Binds, last = watched.Bound()
	r.LastBind, r.Rest = last.Sub(start), watched.LastChange().Sub(start)
	r.FirstBind = r.LastBind
	for _, gang := range watched.Gangs() {
		if gang.Bound == 0 {
			continue
		}
		r.FirstBind = min(r.FirstBind, gang.First.Sub(start))
		r.SlowestStart = max(r.SlowestStart, gang.Started.Sub(gang.First))
	}
	return nil
}

// alive says so when the scheduler has ended on its own: what is at rest then proves nothing.
func alive(scheduler *harness.Scheduler) error {
	select {
	case <-scheduler.Done():
		return fmt.Errorf("the scheduler has ended: %w", scheduler.Failure())
	default:
		return nil
	}
}

// Save writes the report into its part of a page.
func (r *Result) Save(file, command string) error {
	var text strings.Builder
	r.Write(&text, command)
	return page.WritePart(file, "openb", text.String())
}
