package openb

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/lab/bench/page"
)

// Write prints what was run, what came out, and what the audit says, in Markdown.
func (r *Result) Write(w io.Writer, command string) {
	load := r.Workload
	fmt.Fprintf(w, "Kubernetes %s; %s.\n\n    %s\n\n", r.Kubernetes, page.Machine(), command)
	fmt.Fprint(w, "| workload | |\n|---|---:|\n")
	row := func(name, format string, value any) { fmt.Fprintf(w, "| %s | "+format+" |\n", name, value) }
	row("nodes", "%d", len(load.Nodes))
	row("GPUs offered", "%d", load.Offered)
	row("GPUs asked for", "%d", load.Asked)
	row("gangs", "%d", len(load.Gangs))
	row("gangs by size", "%s", load.sizes())
	row("pods", "%d", load.Pods)
	row("… that had asked for a share of a GPU", "%d", load.Shared)
	row("… that ask for certain models", "%d", load.Constrained)
	row("different shapes", "%d", load.shapes())
	fmt.Fprint(w, "\n| from the start of the scheduler's process | |\n|---|---:|\n")
	row("first bind", "%.2f s", r.FirstBind.Seconds())
	row("last bind", "%.2f s", r.LastBind.Seconds())
	row("last change of anything", "%.2f s", r.Rest.Seconds())
	row("pods bound", "%d", r.Binds)
	row("pods bound per second", "%.0f", float64(r.Binds)/r.LastBind.Seconds())
	row("slowest gang, from its first bind to its last", "%.2f s", r.SlowestStart.Seconds())
	idle, offered := r.Audit.Idle[gpuResource], r.Audit.Offered[gpuResource]
	row("GPUs in use in the end", "%s", fmt.Sprintf("%d of %d", offered-idle, offered))
	fmt.Fprintln(w)
	r.Audit.Write(w)
	fmt.Fprint(w, `
The last line: for each waiting gang the audit puts its members on the capacity that is idle, wherever selectors, affinity and
taints allow it. All members of a gang are alike, so the answer is exact: a gang fits if and only if the sum over the
nodes of what is idle divided by what a member asks for, rounded down, is at least its size.
`)
}

// sizes says how many gangs there are of each size.
func (w *Workload) sizes() string {
	count := map[int]int{}
	for _, gang := range w.Gangs {
		count[gang.Size]++
	}
	var parts []string
	for _, size := range slices.SortedFunc(maps.Keys(count), cmp.Compare[int]) {
		parts = append(parts, fmt.Sprintf("%d × %d", count[size], size))
	}
	return strings.Join(parts, ", ")
}

func (w *Workload) shapes() int {
	different := map[Shape]struct{}{}
	for _, gang := range w.Gangs {
		different[gang.Shape] = struct{}{}
	}
	return len(different)
}
