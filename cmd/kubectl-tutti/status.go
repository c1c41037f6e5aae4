package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
)

func newStatus(a *clientFlags) *cobra.Command {
	var everywhere bool
	var schedulers []string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show how all jobs stand: their phases, members, ages, and why they wait",
		Long: `Shows the PodGroups, the groups without an object, and the pending pods that have none or name one that does not exist. MEMBERS are
those that exist, of those that are needed; WAITS is since when a job has had all its members and has waited for capacity.`,
		Example: `  kubectl tutti status
  kubectl tutti status -A -o wide
  kubectl tutti status -A -o json | jq '.jobs[] | select(.reason == "InsufficientResources") | .name'`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := a.checkOutput(outputWide); err != nil {
				return err
			}
			read, namespace, err := a.reader()
			if err != nil {
				return err
			}
			if everywhere {
				namespace = ""
			}
			groups, err := read.listGroups(command.Context(), namespace)
			if err != nil {
				return err
			}
			pods, err := read.listUnheld(command.Context(), namespace, groups)
			if err != nil {
				return err
			}
			overview := diagnose.Collect(groups, pods, schedulers)
			if printed, err := a.structured(command.OutOrStdout(), overview); printed {
				return err
			}
			writeOverview(a.command(command), overview, statusView{
				namespace: namespace, wide: a.output == outputWide, now: a.now(),
			})
			return nil
		},
	}
	command.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "jobs of all namespaces")
	command.Flags().StringArrayVar(&schedulers, "scheduler-name", []string{"tutti"}, "schedulerName that Tutti serves; may be given more than once")
	return command
}

// statusView is the options of the overview.
type statusView struct {
	// namespace is empty for all namespaces.
	namespace string
	wide      bool
	now       time.Time
}

func writeOverview(p *printer.Printer, overview *diagnose.Overview, look statusView) {
	if len(overview.Jobs) == 0 {
		if look.namespace == "" {
			p.Printf("No jobs found.\n")
		} else {
			p.Printf("No jobs found in namespace %s.\n", look.namespace)
		}
		return
	}
	header := []string{"NAME", "PHASE", "MEMBERS", "BOUND", "RUNNING", "REASON", "WAITS", "AGE"}
	if look.namespace == "" {
		header = append([]string{"NAMESPACE"}, header...)
	}
	if look.wide {
		header = append(header, "SMALLEST CHANGE", "MESSAGE")
	}
	var rows [][]printer.Cell
	for i := range overview.Jobs {
		rows = append(rows, look.row(&overview.Jobs[i]))
	}
	p.Table(header, rows)
	p.Printf("\n")
	for _, totals := range overview.Namespaces {
		p.Printf("%s\n", totalsLine(&totals))
	}
}

func (look statusView) row(job *diagnose.Job) []printer.Cell {
	name, phase := job.Name, printer.Cell{Text: cmp.Or(job.Phase, "-")}
	if job.Kind == "Pod" {
		name = "pod/" + name
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
		waits = duration.HumanDuration(look.now.Sub(*job.WaitingSince))
	}
	reason := cmp.Or(job.Reason, "-")
	if !job.Waits() && reason == v1alpha1.ConditionScheduled {
		reason = "-" // the phase is enough
	}
	row := []printer.Cell{
		{Text: name}, phase, {Text: fmt.Sprintf("%d/%s", job.Members, needs)}, {Text: strconv.Itoa(job.Bound)},
		{Text: strconv.Itoa(job.Running)}, {Text: reason}, {Text: waits},
		{Text: duration.HumanDuration(look.now.Sub(job.Created))},
	}
	if look.namespace == "" {
		row = append([]printer.Cell{{Text: job.Namespace}}, row...)
	}
	if look.wide {
		row = append(row, printer.Cell{Text: cmp.Or(job.SmallestChange, "-")}, printer.Cell{Text: cmp.Or(job.Message, "-")})
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
