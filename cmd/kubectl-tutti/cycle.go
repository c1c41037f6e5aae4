package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
)

func newCycle(a *clientFlags) *cobra.Command {
	k := &endpointFlags{clientFlags: a}
	var last int
	var deciding bool
	command := &cobra.Command{
		Use:     "cycle",
		Aliases: []string{"cycles"},
		Short:   "Show what the scheduler's last cycles did and how long each part took",
		Long: `Shows the last cycles, the latest at the bottom: how long each took, and each part of it (the snapshot, the actions of the
configuration, the handing over of decisions, what comes after); how many jobs there were and how many of them were left waiting;
and how many pods were bound, evicted and nominated. A cycle runs when something has changed; there is none for a cluster at
rest.

It asks the scheduler; see "kubectl tutti --help" for the rights it takes.`,
		Example: `  kubectl tutti cycle
  kubectl tutti cycle --last 50 --deciding
  kubectl tutti cycle -o wide`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := k.checkOutput(outputWide); err != nil {
				return err
			}
			if last < 1 {
				return fmt.Errorf("--last %d: must be at least 1", last)
			}
			var cycles debugapi.Cycles
			if err := k.get(command.Context(), debugapi.PathCycles, &cycles); err != nil {
				return err
			}
			latest(&cycles, last, deciding)
			p := k.command(command)
			if printed, err := k.structured(p, cycles); printed {
				return err
			}
			writeCycles(p, &cycles, k.output == outputWide)
			return nil
		},
	}
	k.addFlags(command.Flags())
	command.Flags().IntVar(&last, "last", 10, "how many cycles to show; the scheduler keeps a hundred")
	command.Flags().BoolVar(&deciding, "deciding", false, "only cycles that decided something")
	return command
}

// latest keeps the last so many cycles, only those with decisions if deciding is set.
func latest(cycles *debugapi.Cycles, last int, deciding bool) {
	left := []*debugapi.Cycle{}
	for _, cycle := range cycles.Cycles {
		if len(left) < last && (!deciding || cycle.Decided > 0) {
			left = append(left, cycle)
		}
	}
	cycles.Cycles = left
}

func writeCycles(p *printer.Printer, cycles *debugapi.Cycles, wide bool) {
	if len(cycles.Cycles) == 0 {
		if !cycles.Leading {
			p.Printf("This scheduler does not lead: it runs no cycles.\n")
			return
		}
		p.Printf("There is no such cycle among the last of %d.\n", cycles.Total)
		return
	}
	header := []string{"CYCLE", "START", "TOOK", "JOBS", "WAITING", "BOUND", "EVICTED", "NOMINATED", "RESERVED", "PARTS"}
	var rows [][]printer.Cell
	for i := len(cycles.Cycles) - 1; i >= 0; i-- {
		cycle := cycles.Cycles[i]
		row := printer.Cells(strconv.FormatUint(cycle.Number, 10), cycle.Start.UTC().Format("15:04:05.000"), short(cycle.Took.Duration),
			strconv.Itoa(cycle.Jobs), strconv.Itoa(cycle.Waiting), count(cycle.Binds), count(cycle.Evictions), count(cycle.Nominations),
			count(cycle.Reservations), parts(cycle))
		if cycle.Decided > 0 {
			row[0].Style = printer.Bold
		}
		if cycle.Panics > 0 {
			row[0] = printer.Cell{Text: row[0].Text + " !", Style: printer.Red}
		}
		rows = append(rows, row)
		if wide {
			rows = append(rows, decisions(cycle)...)
		}
	}
	p.Table(header, rows)
}

// parts writes the slowest parts, in their order: "snapshot 1ms, allocate 3ms".
func parts(cycle *debugapi.Cycle) string {
	var texts []string
	for _, part := range cycle.Parts {
		if part.Took.Duration >= time.Microsecond {
			texts = append(texts, part.Name+" "+short(part.Took.Duration))
		}
	}
	return strings.Join(texts, ", ")
}

// decisions are rows with the decisions for each job.
func decisions(cycle *debugapi.Cycle) [][]printer.Cell {
	var rows [][]printer.Cell
	say := func(text string) {
		rows = append(rows, []printer.Cell{{}, {}, {}, {}, {}, {}, {}, {}, {}, {Text: text, Style: printer.Dim}})
	}
	for _, decision := range cycle.Decisions {
		var did []string
		for _, what := range []struct {
			n    int
			text string
		}{
			{decision.Binds, "%d bound"}, {decision.Evictions, "%d evicted for it"}, {decision.Nominations, "%d nominated"},
			{decision.NominationsReleased, "%d lost their nomination"},
		} {
			if what.n > 0 {
				did = append(did, fmt.Sprintf(what.text, what.n))
			}
		}
		if decision.Reserved != "" {
			did = append(did, "capacity reserved on "+decision.Reserved)
		}
		say("  " + decision.Job + ": " + strings.Join(did, ", "))
	}
	if more := cycle.Decided - len(cycle.Decisions); more > 0 {
		say(fmt.Sprintf("  and %d more jobs", more))
	}
	if cycle.Panics > 0 {
		say(fmt.Sprintf("  %d panics of plugins or actions were caught: see the scheduler's log", cycle.Panics))
	}
	return rows
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// short rounds a duration to three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
