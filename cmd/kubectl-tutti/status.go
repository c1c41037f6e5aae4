package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/sources"
)

func newStatus(a *clientFlags) *cobra.Command {
	look := &statusView{now: a.now}
	var everywhere, watch bool
	command := &cobra.Command{
		Use:   "status",
		Short: "Show how all jobs stand: their phases, members, ages, and why they wait",
		Long: `Shows the PodGroups, the groups without an object, and the pending pods that have none or name one that does not exist. MEMBERS are
those that exist, of those that are needed; WAITS is since when a job has had all its members and has waited for capacity.

With -l it shows the PodGroups with these labels and, of groups without an object, those with a pod that has them. With --watch it
goes on until it is interrupted, and shows each job again when something of it has changed.`,
		Example: `  kubectl tutti status
  kubectl tutti status -A -o wide
  kubectl tutti status -l team=vision --watch
  kubectl tutti status -A -o json | jq '.jobs[] | select(.reason == "InsufficientResources") | .name'`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := a.checkOutput(outputWide); err != nil {
				return err
			}
			selector, err := labels.Parse(look.labels)
			if err != nil {
				return fmt.Errorf("--selector %q: %w", look.labels, err)
			}
			if watch && a.output != "" && a.output != outputWide {
				return fmt.Errorf("--output %s: --watch shows tables only", a.output)
			}
			if watch {
				*a.Timeout = "0" // a watch is one long answer
			}
			read, namespace, err := a.reader()
			if err != nil {
				return err
			}
			if everywhere {
				namespace = ""
			}
			look.namespace, look.wide, look.selector = namespace, a.output == outputWide, selector
			if watch {
				return read.watch(command.Context(), a.command(command), look)
			}
			overview, err := read.overview(command.Context(), look)
			if err != nil {
				return err
			}
			p := a.command(command)
			if printed, err := a.structured(p, overview); printed {
				return err
			}
			writeOverview(p, overview, look)
			return nil
		},
	}
	a.addOutput(command, ", or wide")
	command.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "jobs of all namespaces")
	command.Flags().BoolVarP(&watch, "watch", "w", false, "go on, and show each job that has changed")
	command.Flags().StringVarP(&look.labels, "selector", "l", "", "label query, such as team=vision,stage!=test")
	command.Flags().StringArrayVar(&look.schedulers, "scheduler-name", []string{"tutti"}, "schedulerName that Tutti serves; may be given more than once")
	return command
}

// overview reads the state of all jobs.
func (r *reader) overview(ctx context.Context, look *statusView) (*diagnose.Overview, error) {
	podGroups, err := r.listGroups(ctx, look.namespace)
	if err != nil {
		return nil, err
	}
	pods, err := r.listUnheld(ctx, look.namespace, podGroups)
	if err != nil {
		return nil, err
	}
	foreign, err := r.listForeign(ctx, look.namespace, sources.Default(), namedBy(sources.Default(), pods))
	if err != nil {
		return nil, err
	}
	return look.collect(podGroups, pods, foreign...), nil
}

// collect counts the jobs that the view selects. A group without an object is selected with all its pods.
func (look *statusView) collect(podGroups []v1alpha1.PodGroup, pods []corev1.Pod, foreign ...*sources.Spec) *diagnose.Overview {
	selected := map[types.NamespacedName]bool{}
	for i := range pods {
		if look.selector.Matches(labels.Set(pods[i].Labels)) {
			selected[gangOf(&pods[i])] = true
		}
	}
	podGroups = slices.DeleteFunc(podGroups, func(group v1alpha1.PodGroup) bool { return !look.selector.Matches(labels.Set(group.Labels)) })
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return !selected[gangOf(&pod)] })
	return diagnose.Collect(podGroups, pods, look.schedulers, foreign...)
}

// gangOf is the namespace and name of the pod's group, of one whose marks are not ours with a slash and its kind, or of a pod
// without one, which ends in a slash as no group's does.
func gangOf(pod *corev1.Pod) types.NamespacedName {
	name := cmp.Or(diagnose.GroupName(pod), pod.Name+"/")
	if job := sources.Of(pod).Job; job.MarkedByOthers() {
		name += "/" + job.Source.Kind()
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}
}

// statusView is the options of the overview.
type statusView struct {
	// namespace is empty for all namespaces.
	namespace  string
	labels     string
	selector   labels.Selector
	schedulers []string
	wide       bool
	now        func() time.Time
}

func writeOverview(p *printer.Printer, overview *diagnose.Overview, look *statusView) {
	if len(overview.Jobs) == 0 {
		if look.namespace == "" {
			p.Printf("No jobs found.\n")
		} else {
			p.Printf("No jobs found in namespace %s.\n", look.namespace)
		}
		return
	}
	p.Table(look.header(), look.rows(overview.Jobs))
	p.Printf("\n")
	for _, totals := range overview.Namespaces {
		p.Printf("%s\n", totalsLine(&totals))
	}
}

func (look *statusView) header() []string {
	header := []string{"NAME", "PHASE", "MEMBERS", "BOUND", "RUNNING", "REASON", "WAITS", "AGE"}
	if look.namespace == "" {
		header = append([]string{"NAMESPACE"}, header...)
	}
	if look.wide {
		header = append(header, "QUEUE", "TOPOLOGY", "MESSAGE")
	}
	return header
}

func (look *statusView) rows(jobs []diagnose.Job) [][]printer.Cell {
	var rows [][]printer.Cell
	for i := range jobs {
		rows = append(rows, look.row(&jobs[i]))
	}
	return rows
}

func (look *statusView) row(job *diagnose.Job) []printer.Cell {
	name, phase := job.Name, printer.Cell{Text: cmp.Or(job.Phase, "-")}
	if job.Kind == "Pod" || strings.Contains(job.Kind, ".") { // of another project
		name = strings.ToLower(job.Kind) + "/" + name
	}
	if job.Owner != "" {
		name = fmt.Sprintf("%s (%s)", name, job.Owner)
	}
	switch v1alpha1.PodGroupPhase(job.Phase) {
	case v1alpha1.PodGroupRunning, v1alpha1.PodGroupStarting:
		phase.Style = printer.Green
	case v1alpha1.PodGroupPending:
		phase.Style = printer.Warning
	case v1alpha1.PodGroupDegraded, v1alpha1.PodGroupFailed, "":
		phase.Style = printer.Red
	}
	needs := "?"
	if job.Needs > 0 {
		needs = strconv.Itoa(job.Needs)
	}
	waits := "-"
	if job.WaitingSince != nil {
		waits = duration.HumanDuration(look.now().Sub(*job.WaitingSince))
	}
	reason := cmp.Or(job.Reason, "-")
	if !job.Waits() && reason == v1alpha1.ConditionScheduled {
		reason = "-" // the phase is enough
	}
	row := []printer.Cell{
		{Text: name}, phase, {Text: fmt.Sprintf("%d/%s", job.Members, needs)}, {Text: strconv.Itoa(job.Bound)},
		{Text: strconv.Itoa(job.Running)}, {Text: reason}, {Text: waits},
		{Text: duration.HumanDuration(look.now().Sub(job.Created))},
	}
	if look.namespace == "" {
		row = append([]printer.Cell{{Text: job.Namespace}}, row...)
	}
	if look.wide {
		places := strings.Join(diagnose.Places(job.Topology), "; ")
		row = append(row, printer.Cells(cmp.Or(job.Queue, "-"), cmp.Or(places, "-"), cmp.Or(job.Message, "-"))...)
	}
	return row
}

// totalsLine returns "ml: 3 jobs, 1 waiting, 2 running".
func totalsLine(totals *diagnose.Totals) string {
	what := "jobs"
	if totals.Jobs == 1 {
		what = "job"
	}
	counts := []string{fmt.Sprintf("%d %s", totals.Jobs, what)}
	for _, count := range []struct {
		n    int
		what string
	}{{totals.Waiting, "waiting"}, {totals.Degraded, "degraded"}, {totals.Running, "running"}, {totals.Ended, "ended"}} {
		if count.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	return totals.Namespace + ": " + strings.Join(counts, ", ")
}
