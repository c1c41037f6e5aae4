package inprocess

import (
	"fmt"
	"strings"
	"time"

	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/plot"
)

// Markdown is the tables of what was measured, each curve with its exponent. Tables without rows are left out.
func Markdown(results []Result) string {
	var b strings.Builder
	writeGoals(&b, table(results, Goals))
	writeQueued(&b, table(results, Queued))
	writeForeign(&b, table(results, Foreign))
	writeLevels(&b, table(results, Levels))
	writeClaimed(&b, table(results, Claimed))
	for _, curve := range Curves() {
		writeCurve(&b, curve, table(results, curve))
	}
	if rows := table(results, matrix); len(rows) > 0 {
		b.WriteString("### All sizes\n\n")
		writeRows(&b, rows)
	}
	return b.String()
}

// Pictures are the curves that Markdown shows, by file name.
func Pictures(results []Result) map[string]string {
	pictures := map[string]string{}
	for _, curve := range Curves() {
		rows := table(results, curve)
		if len(rows) == 0 {
			continue
		}
		line := plot.Curve{Name: string(rows[0].Case.Workload.Kind)}
		for _, r := range rows {
			line.Points = append(line.Points, plot.Point{X: curve.size(r.Case.Workload), Y: r.Took.Seconds() * 1000})
		}
		pictures[curve.picture()] = plot.Curves(plot.Axes{
			Title: "Cost of a cycle against " + string(curve), X: string(curve), Y: "milliseconds",
		}, []plot.Curve{line})
	}
	return pictures
}

// picture is the name of the file with a curve.
func (t Table) picture() string { return "cycle-" + strings.ReplaceAll(string(t), " ", "-") + ".svg" }

func table(results []Result, name Table) []Result {
	var rows []Result
	for _, r := range results {
		if r.Case.Table == name {
			rows = append(rows, r)
		}
	}
	return rows
}

func writeGoals(b *strings.Builder, rows []Result) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("### Goals\n\n" +
		"| measured | pods that wait | gang size | nodes | existing pods | median | fastest to slowest | goal | met | pods/s | bound | waiting jobs | allocated |\n" +
		"|---|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|\n")
	for _, r := range rows {
		w := r.Case.Workload
		goal, met := "", ""
		if r.Case.Goal > 0 {
			goal, met = "≤ "+r.Case.Goal.String(), page.Met(r.Met())
		}
		waits, size := fmt.Sprintf("%d, %s%s%s", w.Pending, w.Kind, w.inQueues(), w.inDomains()), fmt.Sprint(w.GangSize)
		if r.Case.Measure == Unchanged || r.Case.Measure == Changed {
			waits, size = "none", ""
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %d | %s | %s | %s | %s | %s | %d | %d | %s |\n",
			r.Case.Measure, waits, size, w.Nodes, w.Existing, seconds(r.Took), span(r), goal, met, rate(r), r.Binds, r.Waiting,
			bytes(r.Allocated))
	}
	b.WriteString("\n")
}

func writeQueued(b *strings.Builder, rows []Result) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("### What queues cost\n\n" +
		"| pods that wait | gang size | nodes | processor time without | with queues | times | goal | met " +
		"| live heap without | with queues | times | goal | met |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---|\n")
	for _, r := range rows {
		w, without := r.Case.Workload, r.Without
		fmt.Fprintf(b, "| %d, %s%s | %d | %d | %s | %s | %s | %s | %s | %s |\n", w.Pending, w.Kind, w.inQueues(), w.GangSize, w.Nodes,
			seconds(without.Processor), seconds(r.Processor), times(r.Processor.Seconds(), without.Processor.Seconds(), maxQueuedTime),
			bytes(without.Live), bytes(r.Live), times(float64(r.Live), float64(without.Live), maxQueuedHeap))
	}
	b.WriteString("\n")
}

// times is a column of how many times as much something is, and two of what it may be.
func times(of, without, most float64) string {
	return fmt.Sprintf("%.3f | ≤ %.2f | %s", of/without, most, page.Met(of <= most*without))
}

func writeForeign(b *strings.Builder, rows []Result) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("### What groups of others cost\n\n" +
		"| groups | measured | pods that wait | gang size | nodes | processor time in PodGroups of ours | in groups of others | times | goal | met " +
		"| live heap in PodGroups of ours | in groups of others | times | goal | met |\n" +
		"|---|---|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---|\n")
	for _, r := range rows {
		w, ours := r.Case.Workload, r.Without
		fmt.Fprintf(b, "| %s | %s | %d, %s | %d | %d | %s | %s | %s | %s | %s | %s |\n", w.Source.Kind(), r.Case.Measure, w.Pending, w.Kind,
			w.GangSize, w.Nodes,
			seconds(ours.Processor), seconds(r.Processor), times(r.Processor.Seconds(), ours.Processor.Seconds(), maxForeignTime),
			bytes(ours.Live), bytes(r.Live), times(float64(r.Live), float64(ours.Live), maxForeignHeap))
	}
	b.WriteString("\n")
}

func writeLevels(b *strings.Builder, rows []Result) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("### What topologies cost\n\n" +
		"| pods that wait | gang size | nodes | existing pods | processor time without | with topologies | times | goal | met " +
		"| live heap without | with topologies | times | goal | met |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---|\n")
	for _, r := range rows {
		w, without, most := r.Case.Workload, r.Without, maxLevelsTime
		if w.Topology != Declared {
			most = maxDomainsTime
		}
		fmt.Fprintf(b, "| %d, %s%s | %d | %d | %d | %s | %s | %s | %s | %s | %s |\n", w.Pending, w.Kind, w.inDomains(), w.GangSize, w.Nodes, w.Existing,
			seconds(without.Processor), seconds(r.Processor), times(r.Processor.Seconds(), without.Processor.Seconds(), most),
			bytes(without.Live), bytes(r.Live), times(float64(r.Live), float64(without.Live), maxLevelsHeap))
	}
	b.WriteString("\n")
}

func writeClaimed(b *strings.Builder, rows []Result) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("### What devices by claims cost\n\n" +
		"| pods that wait | gang size | nodes | existing pods | processor time with devices that nodes report | by claims | at most | met " +
		"| live heap with devices that nodes report | by claims | times | goal | met |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---|\n")
	for _, r := range rows {
		w, without, most := r.Case.Workload, r.Without, r.mostClaimed()
		fmt.Fprintf(b, "| %d, %s%s | %d | %d | %d | %s | %s | %s | %s | %s | %s | %s |\n", w.Pending, w.Kind, w.inDomains(), w.GangSize, w.Nodes, w.Existing,
			seconds(without.Processor), seconds(r.Processor), seconds(most), page.Met(r.Processor <= most),
			bytes(without.Live), bytes(r.Live), times(float64(r.Live), float64(without.Live), maxClaimsHeap))
	}
	b.WriteString("\n")
}

func writeCurve(b *strings.Builder, curve Table, rows []Result) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "### Cost against %s\n\n![Cost against %s](%s)\n\n", curve, curve, curve.picture())
	writeRows(b, rows)
	exponent, err := Fit(curve, rows)
	if err != nil {
		return
	}
	fmt.Fprintf(b, "Exponent of the cycle's time, fastest rounds: %.2f", exponent)
	if most := curve.maxSize(); most > 0 {
		fmt.Fprintf(b, "; goal ≤ %.2f; met: %s", most, page.Met(exponent <= most))
	}
	b.WriteString(".\n\n")
}

// Fit is the exponent of a curve, from the fastest round of each row, since the machine's noise only ever adds to what a
// round takes. Rows of size zero are left out.
func Fit(curve Table, rows []Result) (float64, error) {
	var sizes, costs []float64
	for _, r := range rows {
		if size := curve.size(r.Case.Workload); size > 0 {
			sizes, costs = append(sizes, size), append(costs, r.Fastest.Seconds())
		}
	}
	return Exponent(sizes, costs)
}

func writeRows(b *strings.Builder, rows []Result) {
	b.WriteString("| pods that wait | in gangs | nodes | existing pods | cycle, median | of it snapshot | fastest to slowest | pods/s | allocated |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range rows {
		w := r.Case.Workload
		fmt.Fprintf(b, "| %d, %s | %d | %d | %d | %s | %s | %s | %s | %s |\n", w.Pending, w.Kind, w.Gangs(), w.Nodes, w.Existing,
			seconds(r.Took), seconds(r.Snapshot), span(r), rate(r), bytes(r.Allocated))
	}
	b.WriteString("\n")
}

func rate(r Result) string {
	if r.Case.Measure != First && r.Case.Measure != Kept {
		return ""
	}
	return fmt.Sprintf("%.0f", r.Rate())
}

func seconds(d time.Duration) string { return Round(d).String() }

func span(r Result) string { return seconds(r.Fastest) + " to " + seconds(r.Slowest) }

func bytes(n uint64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }
