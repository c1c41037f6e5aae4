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

const introduction = `# A real cluster's demand, 20 % too much of it

The scheduler works off a workload made of two public traces, and a program that shares no code with it judges the
outcome by what the API server says.

- **Nodes and pod shapes**: openb, a production GPU cluster (Alibaba's cluster-trace-gpu-v2023, in the form published
  with hkust-adsl/kubernetes-scheduler-simulator).
- **Gang sizes**: the training jobs of the Philly-based traces in stanford-futuredata/gavel.

openb has no gangs and Philly no pod shapes, so this is a composite: in order of arrival, the next gang of Philly, one
member for each of its GPUs, gets the shape of the next pod of openb. All its members are needed. A share of a GPU is
rounded up to one GPU. GPUs are ` + "`nvidia.com/gpu`" + `, the model is the label ` + "`nvidia.com/gpu.product`" + `, and a pod that asks for
certain models gets a required node affinity. The trace does not say how many pods a node takes; it is 110.

All objects are created before the scheduler starts, in a fresh etcd and kube-apiserver with nothing else beside them:
nothing has to run, so no kubelet is simulated, and nothing ends. The run is over when every gang is either bound as a
whole or says why it waits, and nothing has changed for a while. The objects are created 64 at a time, so the gangs' order
by age, and with it which of them start, is not quite the same each time.

The folder with the traces (` + "`openb/nodes.csv`, `openb/pods.csv`, `philly-gavel/jobs.csv`" + `) is an argument; they are not part
of this repository.
`

// Write prints the page: what was run, what came out, what the audit says.
func (r *Result) Write(w io.Writer, command string) {
	load := r.Workload
	fmt.Fprintf(w, "%s\n    %s\n\nKubernetes %s; %s.\n\n", introduction, command, r.Kubernetes, page.Machine())
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
