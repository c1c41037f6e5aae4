package speed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/plot"
	"github.com/tutti-sched/tutti/lab/bench/stage"
)

// Goal is the most that Tutti may take, as a multiple of binding alone, and Wish what would be better still. FloorGoal is the
// most as a multiple of the floor.
const (
	Goal      = 1.5
	Wish      = 1.25
	FloorGoal = 1.15
)

// Name is what the measurement is called, by its sizes.
func (o *Options) Name() string {
	return fmt.Sprintf("%d pods in gangs of %d on %d nodes", o.Pods, o.GangSize, o.Nodes)
}

// Command is what measures the same again.
func (o *Options) Command() string {
	command := fmt.Sprintf("cd lab && go run ./cmd/lab bench speed --pods %d --gang-size %d --nodes %d --rounds %d",
		o.Pods, o.GangSize, o.Nodes, o.Rounds)
	if o.CompareRounds > 0 {
		command += fmt.Sprintf(" --compare-rounds %d", o.CompareRounds)
	}
	return command
}

// file is what begins the names of the pictures.
func (o *Options) file() string { return fmt.Sprintf("speed-%d-nodes-%d-pods", o.Nodes, o.Pods) }

// Pictures are the files that Markdown shows, by name: bars of the medians, and the curves of the round that is the
// median of each contender.
func (o *Options) Pictures(rounds []Round) map[string]string {
	var bars []plot.Bar
	var curves []plot.Curve
	for _, contender := range o.Contenders {
		runs, _ := of(rounds, contender, stage.Alone)
		if len(runs) == 0 {
			continue
		}
		took := median(runs).Seconds()
		bars = append(bars, plot.Bar{Name: string(contender), Value: took, Note: fmt.Sprintf("%.2f s", took)})
		curves = append(curves, plot.Curve{Name: string(contender), Points: points(runs[(len(runs)-1)/2].Binds)})
	}
	title := o.Name()
	return map[string]string{
		o.file() + "-bars.svg":   plot.Bars(plot.Axes{Title: title + ": start to last bind", X: "seconds"}, bars),
		o.file() + "-curves.svg": plot.Curves(plot.Axes{Title: title, X: "seconds since the start", Y: "pods bound"}, curves),
	}
}

// points thins a curve out to what can be seen; its end is always there.
func points(binds []time.Duration) []plot.Point {
	const most = 200
	all := []plot.Point{{}}
	for i, at := range binds {
		if i*most/len(binds) != (i+1)*most/len(binds) {
			all = append(all, plot.Point{X: at.Seconds(), Y: float64(i + 1)})
		}
	}
	return all
}

// of is the runs of a contender, the fastest first, and its ratios to another in order.
func of(rounds []Round, contender, than stage.SchedulerUnderTest) (runs []Run, ratios []float64) {
	for _, round := range rounds {
		if run, ok := round.Of(contender); ok {
			runs, ratios = append(runs, run), append(ratios, round.Ratio(run, than))
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return int(a.LastBind - b.LastBind) })
	slices.Sort(ratios)
	return runs, ratios
}

// middle is the median of ratios in order.
func middle(ratios []float64) float64 { return (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2 }

// median is that of when the last pod was bound, of runs in order.
func median(runs []Run) time.Duration {
	return (runs[(len(runs)-1)/2].LastBind + runs[len(runs)/2].LastBind) / 2
}

// Markdown is the part of a page about these rounds.
func (o *Options) Markdown(kubernetes string, rounds []Round) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n    %s\n\n", o.Name(), o.Command())
	fmt.Fprintf(&b, "Kubernetes %s; %s.\n\n", kubernetes, page.Machine())
	o.writeMedians(&b, rounds)
	if len(o.Contenders) > 1 {
		fmt.Fprintf(&b, "![Start to last bind](%s-bars.svg)\n\n![Pods bound over time](%s-curves.svg)\n\n", o.file(), o.file())
	}
	b.WriteString("Every round:\n\n" +
		"| round | who binds | start to last bind | ratio | start to first bind | slowest gang, first bind to minimum |" +
		" scheduler's CPU time | its memory, peak | other writes until then | partial gangs | overcommitted nodes | other programs |\n" +
		"|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for i, round := range rounds {
		for _, run := range round {
			fmt.Fprintf(&b, "| %d | %s | %.2f s | %.2f | %.2f s | %s | %.0f %% |\n", i+1, run.Contender,
				run.LastBind.Seconds(), round.Ratio(run, stage.Alone), run.FirstBind.Seconds(), run.schedulerCells(), 100*run.Others)
		}
	}
	return b.String()
}

// writeMedians writes one line for each contender.
func (o *Options) writeMedians(b *strings.Builder, rounds []Round) {
	b.WriteString("| who binds | start to last bind, median | pods/s | times binding alone, median | best to worst | goal | met | wish | met |" +
		" times the floor, median | goal | met |\n" +
		"|---|---:|---:|---:|---:|---:|---|---:|---|---:|---:|---|\n")
	for _, contender := range o.Contenders {
		runs, ratios := of(rounds, contender, stage.Alone)
		if len(runs) == 0 {
			continue
		}
		took := median(runs)
		ratio, judged, floor := middle(ratios), " | | | |", ""
		if contender == stage.Tutti && ratio > 0 {
			judged = fmt.Sprintf(" ≤ %.2f | %s | ≤ %.2f | %s |", Goal, page.Met(ratio <= Goal), Wish, page.Met(ratio <= Wish))
		}
		if _, overFloor := of(rounds, contender, stage.Floor); contender != stage.Alone && middle(overFloor) > 0 {
			floor = fmt.Sprintf(" %.2f |", middle(overFloor))
			if contender == stage.Tutti {
				floor += fmt.Sprintf(" ≤ %.2f | %s |", FloorGoal, page.Met(middle(overFloor) <= FloorGoal))
			}
		}
		fmt.Fprintf(b, "| %s | %.2f s | %.0f | %.2f | %.2f to %.2f |%s%s\n", contender, took.Seconds(),
			float64(o.Pods)/took.Seconds(), ratio, ratios[0], ratios[len(ratios)-1], judged, floor)
	}
	b.WriteString("\n")
}

// schedulerCells are the cells of a row about the scheduler's process; empty ones when there was none.
func (r Run) schedulerCells() string {
	if r.Audit == nil {
		return "| | | | |"
	}
	return fmt.Sprintf("%.2f s | %.2f s | %d MB | %d | %d | %d", r.SlowestStart.Seconds(), r.CPU.Seconds(), r.Memory>>20,
		r.otherWrites(), len(r.Audit.Found[audit.Partial]), len(r.Audit.Found[audit.Overcommitted]))
}

// otherWrites is how much was written besides the binds.
func (r Run) otherWrites() int {
	count := 0
	for name, n := range r.Writes {
		if name != "pods/binding" {
			count += n
		}
	}
	return count
}
