package speed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/page"
)

// Name is what the measurement is called, by its sizes.
func (o *Options) Name() string {
	return fmt.Sprintf("%d pods in gangs of %d on %d nodes", o.Pods, o.GangSize, o.Nodes)
}

// Command is what measures the same again.
func (o *Options) Command() string {
	return fmt.Sprintf("cd lab && go run ./cmd/lab bench --pods %d --gang-size %d --nodes %d --rounds %d",
		o.Pods, o.GangSize, o.Nodes, o.Rounds)
}

// Markdown is the part of a page about these rounds.
func (o *Options) Markdown(kubernetes string, rounds []Round) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n    %s\n\n", o.Name(), o.Command())
	fmt.Fprintf(&b, "Kubernetes %s; %s.\n\n", kubernetes, page.Machine())
	b.WriteString("| round | binding alone | scheduler, start to last bind | ratio | pods/s | start to first bind |" +
		" slowest gang, first bind to minimum | scheduler's CPU time | other writes until then |" +
		" partial gangs | overcommitted nodes | other programs, alone | other programs, scheduler |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	var ratios []float64
	for i, r := range rounds {
		ratios = append(ratios, r.Ratio())
		fmt.Fprintf(&b, "| %d | %.2f s | %.2f s | %.2f | %.0f | %.2f s | %.2f s | %.2f s | %d | %d | %d | %.0f %% | %.0f %% |\n", i+1,
			r.Alone.Seconds(), r.LastBind.Seconds(), r.Ratio(), float64(o.Pods)/r.LastBind.Seconds(),
			r.FirstBind.Seconds(), r.SlowestStart.Seconds(), r.CPU.Seconds(), r.otherWrites(),
			len(r.Audit.Found[audit.Partial]), len(r.Audit.Found[audit.Overcommitted]),
			100*r.OthersAlone, 100*r.OthersScheduled)
	}
	slices.Sort(ratios)
	if len(ratios) > 0 {
		fmt.Fprintf(&b, "\nRatio: %.2f in the median, %.2f at best, %.2f at worst.\n",
			(ratios[(len(ratios)-1)/2]+ratios[len(ratios)/2])/2, ratios[0], ratios[len(ratios)-1])
	}
	return b.String()
}

// otherWrites is how much was written besides the binds.
func (r Round) otherWrites() int {
	count := 0
	for name, n := range r.Writes {
		if name != "pods/binding" {
			count += n
		}
	}
	return count
}
