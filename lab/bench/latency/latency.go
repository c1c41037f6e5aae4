// Package latency measures how long one small gang takes when the scheduler has nothing else to do: gang after gang, from
// the first request that creates a pod of it until a watch has seen all of them on nodes. The time of the creation itself
// is in it. It says nothing about load; lab/bench/speed does.
package latency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/bench/observe"
	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/stage"
)

// Goals of Tutti: half of the gangs, and all but one in a hundred, take no longer.
const (
	GoalP50 = 60 * time.Millisecond
	GoalP99 = 250 * time.Millisecond
)

// Options say what to measure.
type Options struct {
	// Kubernetes is the version of the control plane; empty means the default one.
	Kubernetes string
	// Contenders are the schedulers.
	Contenders []stage.SchedulerUnderTest
	// Nodes is how many nodes there are; Gangs is how many gangs come, one after another, of GangSize members each.
	Nodes, Gangs, GangSize int
	// Questions is how many questions a minute Tutti is asked beside it, in a run of its own; zero makes no such run.
	Questions int
	// Program is Tutti's scheduler; empty means that of this repository.
	Program string
	// Timeout is for one contender, from when its control plane is there.
	Timeout time.Duration
	// Out receives progress.
	Out io.Writer
}

// Run is what was measured of one scheduler.
type Run struct {
	Contender stage.SchedulerUnderTest
	// Questions is how many questions a minute were asked; Answered of them had an answer, and Refused were too many.
	Questions, Answered, Refused int
	// Took is the time of each gang, the shortest first.
	Took []time.Duration
	// Others is the part of the processors, 0 to 1, that programs used which have nothing to do with the measurement.
	Others float64
}

// Quantile is the time that the given part of all gangs, 0 to 1, took at most; zero when there are none.
func (r Run) Quantile(part float64) time.Duration {
	if len(r.Took) == 0 {
		return 0
	}
	i := int(float64(len(r.Took))*part+0.999999) - 1 // the smallest that so many do not exceed
	return r.Took[max(0, min(len(r.Took)-1, i))]
}

// name is the contender, and what it was asked beside the gangs.
func (r Run) name() string {
	if r.Questions == 0 {
		return string(r.Contender)
	}
	return fmt.Sprintf("%s, %d questions a minute (%d answered, %d refused)", r.Contender, r.Questions, r.Answered, r.Refused)
}

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	switch {
	case o.Nodes < 1 || o.Gangs < 1 || o.GangSize < 1 || o.Questions < 0:
		return errors.New("nodes, gangs and gang size must be 1 or more, and questions 0 or more")
	}
	return errors.Join(stage.Room(o.Nodes, o.Gangs*o.GangSize), stage.Schedulers(o.Contenders))
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
		for _, questions := range []int{0, options.Questions} {
			if len(runs) > 0 && runs[len(runs)-1].Contender == contender && (questions == 0 || contender != stage.Tutti) {
				continue
			}
			run, err := options.measure(ctx, contender, questions)
			if err != nil {
				return runs, fmt.Errorf("%s: %w", contender, err)
			}
			runs = append(runs, run)
			fmt.Fprintf(options.Out, "latency of %s: p50 %s, p99 %s, longest %s (others %.0f %%)\n", run.name(),
				short(run.Quantile(0.5)), short(run.Quantile(0.99)), short(run.Quantile(1)), 100*run.Others)
		}
	}
	return runs, nil
}

// warming is how many gangs go before the first that counts: connections are made, caches filled.
const warming = 3

func (o *Options) gang(i int) stage.Gangs {
	return stage.Gangs{Prefix: "gang", First: i, Count: 1, Size: o.GangSize}
}

func (o *Options) measure(ctx context.Context, contender stage.SchedulerUnderTest, questions int) (run Run, err error) {
	s, err := stage.Start(ctx, stage.Options{
		Kubernetes: o.Kubernetes, Contender: contender, Nodes: o.Nodes, Workers: o.GangSize, Program: o.Program, Out: o.Out,
	})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	minimum := map[string]int{}
	for i := range o.Gangs + warming {
		for name, size := range o.gang(i).Minimum() {
			minimum[name] = size
		}
	}
	watched, err := observe.Start(ctx, s.Client, observe.Options{Namespace: stage.Namespace, Gangs: minimum})
	if err != nil {
		return run, err
	}
	scheduler, err := s.Scheduler(ctx)
	if err != nil {
		return run, err
	}
	run.Contender, run.Questions = contender, questions
	var before stage.Usage
	for i := range o.Gangs + warming {
		if i == warming {
			run.Took = nil
			if questions > 0 {
				asked, failed := s.NewQuestions(ctx, scheduler)
				if failed != nil {
					return run, failed
				}
				asking, enough := context.WithCancel(ctx)
				ended := make(chan error, 1)
				go func() { ended <- asked.Ask(asking, questions) }()
				defer func() {
					enough()
					err = errors.Join(err, <-ended)
					run.Answered, run.Refused = asked.Answered, asked.Refused
				}()
			}
			if before, err = stage.Used(); err != nil {
				return run, err
			}
		}
		took, err := o.one(ctx, s, watched, i)
		if err != nil {
			return run, fmt.Errorf("gang %d: %w\n%w", i, err, scheduler.Failure())
		}
		run.Took = append(run.Took, took)
	}
	after, err := stage.Used()
	run.Others = stage.Others(before, after)
	slices.Sort(run.Took)
	return run, err
}

// rest is the time that the scheduler and the server get to finish with the gang before: statuses, events.
const rest = 100 * time.Millisecond

// one measures one gang.
func (o *Options) one(ctx context.Context, s *stage.Bench, watched *observe.Observer, i int) (time.Duration, error) {
	gang := o.gang(i)
	if err := s.CreateGroups(ctx, gang); err != nil {
		return 0, err
	}
	if err := watched.WaitQuiet(ctx, rest); err != nil {
		return 0, err
	}
	start := time.Now()
	if _, err := s.Client.CreatePods(ctx, s.Pods(gang)); err != nil {
		return 0, err
	}
	var last time.Time
	err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		bound, at := watched.Bound()
		last = at
		return bound >= (i+1)*o.GangSize, nil
	})
	if err != nil {
		return 0, fmt.Errorf("not all of its pods were bound: %w", err)
	}
	return last.Sub(start), nil
}

// Name is what the measurement is called, by its sizes.
func (o *Options) Name() string {
	return fmt.Sprintf("%d gangs of %d, one after another, on %d nodes", o.Gangs, o.GangSize, o.Nodes)
}

// Markdown is the part of a page about these runs.
func (o *Options) Markdown(kubernetes string, runs []Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n    cd lab && go run ./cmd/lab bench latency --nodes %d --gangs %d --gang-size %d --questions %d\n\n",
		o.Name(), o.Nodes, o.Gangs, o.GangSize, o.Questions)
	fmt.Fprintf(&b, "Kubernetes %s; %s.\n\n", kubernetes, page.Machine())
	b.WriteString("| scheduler | p50 | goal | met | p90 | p99 | goal | met | longest | other programs |\n" +
		"|---|---:|---:|---|---:|---:|---:|---|---:|---:|\n")
	for _, run := range runs {
		goals := [4]string{}
		if run.Contender == stage.Tutti {
			goals = [4]string{
				"≤ " + short(GoalP50), page.Met(run.Quantile(0.5) <= GoalP50),
				"≤ " + short(GoalP99), page.Met(run.Quantile(0.99) <= GoalP99),
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %.0f %% |\n", run.name(), short(run.Quantile(0.5)),
			goals[0], goals[1], short(run.Quantile(0.9)), short(run.Quantile(0.99)), goals[2], goals[3], short(run.Quantile(1)),
			100*run.Others)
	}
	return b.String()
}

func short(d time.Duration) string {
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}
