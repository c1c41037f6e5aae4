package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/harness"
)

// bindLimit is the longest time between the first and the last bind of a gang's start: the chart's bind deadline.
const bindLimit = 30 * time.Second

// verdict writes the summary and returns what is wrong.
func (s *demo) verdict(ctx context.Context) error {
	s.screen.title("What happened")
	s.table()
	fmt.Fprintln(s.options.Out)
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	log, err := os.ReadFile(s.scheduler.LogFile())
	if err != nil {
		return fmt.Errorf("log of the scheduler: %w", err)
	}
	var wrong []error
	state, err := audit.Read(ctx, s.cluster.Config())
	if err != nil {
		return err
	}
	for _, c := range checks(s.board, pods.Items, audit.Audit(state, harness.SchedulerName), string(log)) {
		mark := "ok    "
		if c.problem != "" {
			mark = "FAILED"
			wrong = append(wrong, fmt.Errorf("%s: %s", c.claim, c.problem))
			c.claim += ": " + c.problem
		}
		fmt.Fprintf(s.options.Out, "  %s  %s\n", mark, c.claim)
	}
	fmt.Fprintf(s.options.Out, "\n%.1f s in all.\n", time.Since(s.screen.start).Seconds())
	return errors.Join(wrong...)
}

// table writes one line per gang.
func (s *demo) table() {
	out := tabwriter.NewWriter(s.options.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "  GANG\tMIN\tPODS\tBOUND\tWAITED\tFIRST TO LAST BIND\tRACKS\tPHASE\tREASON")
	for _, name := range []string{mpi, near, tooMany, pytorch, tooBig, sweep, urgent, quick, endless, quiet, tooWide} {
		g := s.board.gang(name)
		waited, spread, racks, reason := "until the end", "-", "-", "-"
		if !g.whole.IsZero() {
			waited = short(g.whole.Sub(g.members))
			spread, racks = short(g.spread()), s.board.onRacks(g)
		}
		if c := g.scheduled(); c != nil {
			reason = c.Reason
		}
		fmt.Fprintf(out, "  %s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n",
			name, g.min, len(g.pods), len(g.bound), waited, spread, racks, g.status.Phase, reason)
	}
	out.Flush() //nolint:errcheck // the terminal's
	fmt.Fprintln(s.options.Out, "\n  WAITED counts from when enough members existed.")
}

// check is one claim and what speaks against it.
type check struct{ claim, problem string }

// checks judges what was seen.
func checks(b *progress, pods []corev1.Pod, report *audit.Report, log string) []check {
	var all []check
	for _, name := range []string{mpi, near, pytorch, sweep, urgent, quick, endless, quiet} {
		all = append(all, check{name + " started as a whole", startedWhole(b.gang(name))})
	}
	all = append(all,
		check{near + " is in one rack, and its pods say in which", inOneRack(b, b.gang(near))},
		check{tooMany + " bound nothing, and says why", boundNothing(b.gang(tooMany), pods, noDomainFits)},
		check{tooBig + " bound nothing, and says why", boundNothing(b.gang(tooBig), pods, insufficientResources)},
		check{"the urgent job's capacity came from " + sweep + " alone, all of it", evictedOnly(b, sweep)},
		check{sweep + " had capacity reserved, and started again", startedAgain(b.gang(sweep))},
		check{quiet + " has isolated CPUs, of one NUMA node each, and no other pod has them", ownCPUs(pods)},
		check{tooWide + " bound nothing, and says why", boundNothing(b.gang(tooWide), pods, insufficientResources)},
		check{"the chart's roles are enough: nothing was forbidden", forbidden(log)},
	)
	// The same judge that follows benchmarks looks at the cluster from outside.
	for _, c := range audit.Checks() {
		all = append(all, check{"no " + string(c), strings.Join(report.Found[c], "; ")})
	}
	return all
}

// startedWhole says what is wrong with the start of a gang.
func startedWhole(g *gang) string {
	c := g.scheduled()
	switch {
	case len(g.bound) == 0:
		return "nothing is bound"
	case !g.isWhole():
		return fmt.Sprintf("%d bound, %d needed", len(g.bound), g.min)
	case g.spread() > bindLimit:
		return short(g.spread()) + " from the first bind to the last"
	case c == nil || c.Status != "True":
		return "its status does not say so"
	default:
		return ""
	}
}

// inOneRack says what is wrong with the rack of a gang that has to be in one.
func inOneRack(b *progress, g *gang) string {
	if got, want := g.domains(), fmt.Sprintf("fabric=%s on %d pods", b.onRacks(g), g.min); got != want {
		return fmt.Sprintf("it is in the racks %s, and its pods say %q", b.onRacks(g), got)
	}
	return ""
}

// boundNothing says what is wrong with a gang that must wait for that reason.
func boundNothing(g *gang, pods []corev1.Pod, reason string) string {
	mine := 0
	for i := range pods {
		if g.pods[pods[i].Name] == nil {
			continue
		}
		mine++
		if pods[i].Spec.NodeName != "" {
			return fmt.Sprintf("pod %s is on node %s", pods[i].Name, pods[i].Spec.NodeName)
		}
	}
	switch {
	case len(g.bound) > 0:
		return fmt.Sprintf("%d of its pods were bound", len(g.bound))
	case mine < g.min:
		return fmt.Sprintf("%d pods exist, %d needed to prove anything", mine, g.min)
	case g.scheduled() == nil:
		return "it does not say why"
	case !g.waitsFor(reason):
		return fmt.Sprintf("it says %s: %s", g.scheduled().Reason, g.scheduled().Message)
	default:
		return ""
	}
}

// evictedOnly says who was evicted besides one gang, or that it lost less than its minimum.
func evictedOnly(b *progress, name string) string {
	for _, g := range b.gangs {
		if g.name != name && len(g.evicted) > 0 {
			return fmt.Sprintf("%d pods of %s were evicted", len(g.evicted), g.name)
		}
	}
	if g := b.gang(name); len(g.evicted) != g.min {
		return fmt.Sprintf("%d of its pods were evicted, its minimum is %d", len(g.evicted), g.min)
	}
	return ""
}

// startedAgain says what is wrong with a gang that lost its capacity and waited for it.
func startedAgain(g *gang) string {
	switch {
	case len(g.kept) == 0:
		return "no capacity was reserved for it"
	case g.starts != 2:
		return fmt.Sprintf("it started %d times", g.starts)
	}
	return ""
}

// forbidden is the first line of a log that tells of a missing permission.
func forbidden(log string) string {
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		if strings.Contains(strings.ToLower(lines.Text()), "forbidden") {
			return lines.Text()
		}
	}
	return ""
}
