package debugapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// maxNamed is how many nodes and jobs are named in one cell.
const maxNamed = 4

// Table has a row for each job: what happens to it as the cluster is, and with the changes. Without changes it has the jobs that
// wait, in their order.
func (a *Answer) Table() *Table {
	columns := []string{"Job", "Now", "Then"}
	if len(a.Supposed) == 0 {
		columns = []string{"Place", "Job", "Expected", "Basis", "After"}
	}
	t := newTable(a.ListMeta, columns...)
	for i := range a.Jobs {
		job := &a.Jobs[i]
		cells := []any{job.Job, job.Now.text(a.At), ""}
		if len(a.Supposed) == 0 {
			cells = []any{job.Position, job.Job, job.Now.text(a.At), job.Now.basis(), job.Now.after()}
		} else if job.Then != nil {
			cells[2] = job.Then.text(a.At)
		}
		t.row(&metav1.ObjectMeta{Name: job.Job}, cells...)
	}
	for _, supposed := range a.Supposed {
		t.note("Supposed: %s.", supposed)
	}
	if len(a.Supposed) > 0 {
		t.note("%s: no difference.", count(a.Same, "other job"))
	}
	for _, note := range a.Notes {
		t.note("Note: %s.", note)
	}
	return t
}

// text says what becomes of a job, by times after at.
func (f *Fate) text(at time.Time) string {
	var parts []string
	add := func(format string, values ...any) { parts = append(parts, fmt.Sprintf(format, values...)) }
	switch f.State {
	case FateNotThere:
		add("is not there")
	case FateWaits:
		add("waits%s", f.why())
	case FateRuns:
		add("runs")
	case FateEnds:
		add("ends %s", moment(f.At, at))
	case FateStarts:
		var nodes []string
		for _, name := range slices.Sorted(maps.Keys(f.Nodes)) {
			nodes = append(nodes, fmt.Sprintf("%d on %s", f.Nodes[name], name))
		}
		add("starts %s: %s", moment(f.At, at), brief(nodes))
	case FateEvicted:
		add("loses %s %s", count(f.Loses, "member"), moment(f.At, at))
		if f.Again.IsZero() {
			add("waits%s", f.why())
		} else {
			add("has its minimum again %s", moment(f.Again, at))
		}
	}
	if f.State == FateStarts && f.Loses > 0 {
		add("loses %s", count(f.Loses, "member"))
	}
	if f.Evicts > 0 {
		add("evicts %s", count(f.Evicts, "pod"))
	}
	return strings.Join(parts, "; ")
}

// why is the reason of a job that waits, with a colon before it.
func (f *Fate) why() string {
	if f.Code == "" {
		return ""
	}
	return ": " + f.Code + ": " + f.Reason
}

// basis says how the start is known: unknown for a job that does not start in the play, and empty for one that starts at once.
func (f *Fate) basis() string {
	if f.State == FateWaits {
		return "unknown"
	}
	return f.Basis
}

func (f *Fate) after() string {
	var ends []string
	for _, end := range f.After {
		ends = append(ends, end.Job)
	}
	return brief(ends)
}

// count is so many of something, of which more than one is named with an s.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// brief joins texts, the first few of many.
func brief(texts []string) string {
	if more := len(texts) - maxNamed; more > 0 {
		return strings.Join(texts[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(texts, ", ")
}

// moment says when something happens, by how long after at.
func moment(when, at time.Time) string {
	if after := when.Sub(at); after >= time.Second {
		return "in " + duration.HumanDuration(after)
	}
	return "immediately"
}
