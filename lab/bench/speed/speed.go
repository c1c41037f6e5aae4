// Package speed measures how long schedulers take to bind many gangs, beside how long the binds alone take: the same
// objects on a fresh control plane each, bound by workers that decide nothing, and by each scheduler in turn. The time of
// a scheduler over that of the binds is what the scheduler costs, whatever the machine.
//
// It sees a scheduler as a process and its work as a watch does; it measures nothing inside.
package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/load"
	"github.com/tutti-sched/tutti/lab/bench/observe"
	"github.com/tutti-sched/tutti/lab/bench/stage"
)

// Options say what to measure.
type Options struct {
	// Kubernetes is the version of the control plane; empty means the default one.
	Kubernetes string
	// Contenders are who binds, in this order in every round.
	Contenders []stage.SchedulerUnderTest
	// Nodes, Pods and GangSize are the sizes; Pods is a multiple of GangSize.
	Nodes, Pods, GangSize int
	// Rounds is how often all of them are measured, but for other schedulers where CompareRounds is less: they take long. 0 is
	// every round.
	Rounds, CompareRounds int
	// Workers is how many requests are under way at a time when there is no scheduler.
	Workers int
	// Program is Tutti's scheduler; empty means that of this repository. Args come after its usual arguments.
	Program string
	Args    []string
	// Timeout is for one measurement, from when its control plane is there.
	Timeout time.Duration
	// SlowestStart is how long a gang of Tutti's may take from its first bind to its minimum while other programs use little of the
	// processors.
	SlowestStart time.Duration
	// Profile is the file that receives where Tutti's scheduler spent its time; empty means none.
	Profile string
	// Dir keeps logs; empty keeps none.
	Dir string
	// Out receives progress.
	Out io.Writer
}

// Run is one measurement of one contender.
type Run struct {
	Contender stage.SchedulerUnderTest
	// FirstBind and LastBind are the times from the start of the scheduler's process, or of the floor's first list. Of the binds
	// alone they are from the first call to the first and last reply.
	FirstBind, LastBind time.Duration
	// SlowestStart is the longest that a gang took from its first bind to its minimum.
	SlowestStart time.Duration
	// CPU is what the scheduler's process used until the last bind, Memory the most that it held until then, in bytes.
	CPU    time.Duration
	Memory int64
	// Others is the part of the processors, 0 to 1, that programs used which have nothing to do with the measurement: how
	// far it is to be trusted.
	Others float64
	// Writes is what the scheduler had written by then, by resource and subresource.
	Writes map[string]int
	// Binds are when pods were bound, from the same start, in order.
	Binds []time.Duration
	// Phases are what the time to the first bind is made of, as the scheduler's log has it; only of Tutti.
	Phases []Phase
	// Audit is the state after the last bind; nil without a scheduler.
	Audit *audit.Report
}

// Round is one measurement of each contender.
type Round []Run

// Of is the run of a contender; ok is false when it was not measured.
func (r Round) Of(contender stage.SchedulerUnderTest) (run Run, ok bool) {
	i := slices.IndexFunc(r, func(run Run) bool { return run.Contender == contender })
	if i < 0 {
		return Run{}, false
	}
	return r[i], true
}

// Ratio is how much longer a run took than another of the same round; 0 when that was not measured.
func (r Round) Ratio(run Run, than stage.SchedulerUnderTest) float64 {
	other, ok := r.Of(than)
	if !ok {
		return 0
	}
	return float64(run.LastBind) / float64(other.LastBind)
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case o.Nodes < 1 || o.Pods < 1 || o.GangSize < 1 || o.Rounds < 1 || o.CompareRounds < 0 || o.Workers < 1:
		return errors.New("nodes, pods, gang size, rounds and workers must be 1 or more")
	case o.Pods%o.GangSize != 0:
		return fmt.Errorf("%d pods do not make whole gangs of %d", o.Pods, o.GangSize)
	case len(o.Contenders) == 0:
		return errors.New("there must be a contender")
	}
	return stage.Room(o.Nodes, o.Pods)
}

// Measure measures, round after round, and returns what it has when something fails.
func Measure(ctx context.Context, options Options) ([]Round, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	var err error
	if options.Program, err = stage.Program(ctx, options.Program, options.Contenders, options.Out); err != nil {
		return nil, err
	}
	var rounds []Round
	for i := range options.Rounds {
		var round Round
		for _, contender := range options.Contenders {
			if options.CompareRounds > 0 && i >= options.CompareRounds && contender != stage.Tutti && contender.Schedules() {
				continue
			}
			run, err := options.measure(ctx, contender)
			if err == nil {
				round = append(round, run)
				fmt.Fprintf(options.Out, "%s, round %d: %s\n", options.Name(), i+1, round.line(run))
				err = options.judge(run)
			}
			if err != nil {
				return rounds, fmt.Errorf("round %d: %s: %w", i+1, contender, err)
			}
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// line is a run in progress output.
func (r Round) line(run Run) string {
	return fmt.Sprintf("%s %.2fs, ratio %.2f (first bind %.2fs, slowest start %.2fs, CPU %.2fs, %d MB, writes %v, others %.0f %%)",
		run.Contender, run.LastBind.Seconds(), r.Ratio(run, stage.Alone), run.FirstBind.Seconds(), run.SlowestStart.Seconds(),
		run.CPU.Seconds(), run.Memory>>20, run.Writes, 100*run.Others)
}

// littleOthers is the part of the processors up to which other programs may use them while a run's times are judged.
const littleOthers = 0.1

// judge says what is wrong with a run of ours; what others do wrong is shown and no error, and so are times for which other
// programs had too much of the machine.
func (o *Options) judge(run Run) error {
	if run.Contender != stage.Tutti {
		return nil
	}
	if err := run.Audit.Err(); err != nil {
		return err
	}
	if run.SlowestStart > o.SlowestStart && run.Others <= littleOthers {
		return fmt.Errorf("a gang took %s from its first bind to its minimum, more than %s", run.SlowestStart, o.SlowestStart)
	}
	return nil
}

func (o *Options) gangs() stage.Gangs {
	return stage.Gangs{Prefix: "gang", Count: o.Pods / o.GangSize, Size: o.GangSize}
}

// measure measures one contender on a fresh control plane.
func (o *Options) measure(ctx context.Context, contender stage.SchedulerUnderTest) (run Run, err error) {
	address, args, err := o.profiled(contender)
	if err != nil {
		return run, err
	}
	s, err := stage.Start(ctx, stage.Options{
		Kubernetes: o.Kubernetes, Contender: contender, Nodes: o.Nodes, Workers: o.Workers, Program: o.Program, Args: args,
		Dir: o.Dir, Out: o.Out,
	})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	pods, err := s.CreateGangs(ctx, o.gangs(), nil)
	if err != nil {
		return run, err
	}
	run.Contender = contender
	switch contender {
	case stage.Alone:
		return run, o.alone(ctx, s, pods, &run)
	case stage.Floor:
		return run, o.floor(ctx, s, pods, &run)
	case stage.Tutti, stage.Kube, stage.KubeGangs:
	}
	return run, o.scheduled(ctx, s, pods, address, &run)
}

// alone measures the binds themselves.
func (o *Options) alone(ctx context.Context, s *stage.Bench, pods []*corev1.Pod, run *Run) error {
	targets := make([]string, len(pods))
	for i := range targets {
		targets[i] = s.Nodes[i%len(s.Nodes)].Name
	}
	before, err := stage.Used()
	if err != nil {
		return err
	}
	start := time.Now()
	bound, err := s.Client.Bind(ctx, pods, targets)
	if err != nil {
		return err
	}
	run.times(bound, start)
	after, err := stage.Used()
	run.Others = stage.Others(before, after)
	return err
}

// floor measures the binds with what comes before and after them: it lists, and has a watch of all pods beside the one that
// measures. It is not a process of its own: starting one is part of what a scheduler costs.
func (o *Options) floor(ctx context.Context, s *stage.Bench, pods []*corev1.Pod, run *Run) error {
	watched, err := observe.Start(ctx, s.Client, observe.Options{Namespace: stage.Namespace, Gangs: o.gangs().Minimum()})
	if err != nil {
		return err
	}
	client, err := load.NewClient(s.Cluster.Config(), o.Workers)
	if err != nil {
		return err
	}
	before, err := stage.Used()
	if err != nil {
		return err
	}
	start := time.Now()
	unbound, targets, err := client.List(ctx, stage.Namespace)
	if err != nil {
		return err
	}
	seen, err := observe.Start(ctx, client, observe.Options{Namespace: stage.Namespace, Gangs: o.gangs().Minimum(), Thorough: true})
	if err != nil {
		return err
	}
	if _, err := client.Bind(ctx, unbound, targets); err != nil {
		return err
	}
	if err := errors.Join(seen.WaitBound(ctx, len(pods)), watched.WaitBound(ctx, len(pods))); err != nil {
		return err
	}
	run.times(watched.Times(), start)
	after, err := stage.Used()
	run.Others = stage.Others(before, after)
	return err
}

// times takes down when pods were bound.
func (r *Run) times(bound []time.Time, start time.Time) {
	for _, at := range bound {
		r.Binds = append(r.Binds, at.Sub(start))
	}
	slices.Sort(r.Binds)
	if len(r.Binds) > 0 {
		r.FirstBind, r.LastBind = r.Binds[0], r.Binds[len(r.Binds)-1]
	}
}

// scheduled measures a scheduler, and takes a profile of it from an address, unless that is empty.
func (o *Options) scheduled(ctx context.Context, s *stage.Bench, pods []*corev1.Pod, address string, run *Run) error {
	watched, err := observe.Start(ctx, s.Client, observe.Options{Namespace: stage.Namespace, Gangs: o.gangs().Minimum()})
	if err != nil {
		return err
	}
	written, err := observe.Writes(ctx, s.Client.Core)
	if err != nil {
		return err
	}
	before, err := stage.Used()
	if err != nil {
		return err
	}
	start := time.Now()
	scheduler, err := s.Scheduler(ctx)
	if err != nil {
		return err
	}
	recorded := o.record(ctx, address)
	if err := watched.WaitBound(ctx, len(pods)); err != nil {
		return fmt.Errorf("%w\n%w", err, scheduler.Failure())
	}
	after, err := stage.Used()
	if err != nil {
		return err
	}
	run.Others = stage.Others(before, after)
	if run.CPU, err = stage.CPUTime(scheduler.PID()); err != nil {
		return err
	}
	memory, err := stage.MemoryOf(scheduler.PID())
	if err != nil {
		return err
	}
	run.Memory = memory.Peak
	run.times(watched.Times(), start)
	if run.Contender == stage.Tutti {
		if err := run.readPhases(scheduler.LogFile(), start); err != nil {
			return err
		}
	}
	for _, gang := range watched.Gangs() {
		run.SlowestStart = max(run.SlowestStart, gang.Started.Sub(gang.First))
	}
	if err := run.count(ctx, s, written); err != nil {
		return err
	}
	if err := <-recorded; err != nil {
		return err
	}
	if run.Audit, err = s.Audit(ctx); err != nil {
		return fmt.Errorf("%w\n%w", err, scheduler.Failure())
	}
	return nil
}

// count takes down what was written since.
func (r *Run) count(ctx context.Context, s *stage.Bench, written map[string]int) error {
	var err error
	if r.Writes, err = observe.Writes(ctx, s.Client.Core); err != nil {
		return err
	}
	for name, count := range written {
		if r.Writes[name] -= count; r.Writes[name] == 0 {
			delete(r.Writes, name)
		}
	}
	return nil
}
