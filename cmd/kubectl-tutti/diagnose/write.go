package diagnose

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Write prints the diagnosis as text. now is the time that ages are relative to.
func (a *Diagnosis) Write(p *printer.Printer, now time.Time) {
	if a.Group != nil && (a.State == Waiting || a.State == Unprocessed) && len(a.Details) == 0 {
		p.Printf("Pod %s/%s is of %s %s.\n", a.Namespace, a.Name, a.Group.noun(), a.Group.Name)
		a.Group.Write(p, now)
		return
	}
	noun := a.noun()
	p.Printf("%s %s/%s%s %s", strings.ToUpper(noun[:1])+noun[1:], a.Namespace, a.Name, a.of(), printer.Cell{Text: a.State.verb(), Style: a.style()})
	if a.Reason != "" && string(a.State) != a.Reason && a.State != Started {
		p.Printf(": %s", printer.Cell{Text: a.Reason, Style: printer.Bold})
	}
	p.Printf("\n")
	for _, detail := range a.Details {
		p.Printf("  %s\n", detail)
	}
	if rows := a.rows(now); len(rows) > 0 {
		p.Printf("\n")
		p.Pairs(rows)
	}
	if a.Group != nil {
		p.Printf("\n")
		a.Group.Write(p, now)
	}
}

// noun is the diagnosed object, within a sentence.
func (a *Diagnosis) noun() string {
	if a.Kind == kindImplicit {
		return "implicit group"
	}
	return a.Kind
}

// Key is the kind, namespace and name as the scheduler writes them.
func (a *Diagnosis) Key() string {
	source := model.SourcePodGroup
	switch a.Kind {
	case kindPod:
		source = model.SourcePod
	case kindImplicit:
		source = model.SourceImplicit
	}
	for marked := model.SourceLeaderWorkerSet; marked <= model.LastSource; marked++ {
		if a.Kind == marked.Kind() {
			source = marked
		}
	}
	return model.JobKey{Namespace: a.Namespace, Name: a.Name, Source: source}.Describe()
}

// of is the owner behind the name; none for what owns its pods itself.
func (a *Diagnosis) of() string {
	if a.Owner == "" || a.Owner == a.Kind+"/"+a.Name {
		return ""
	}
	return " of " + a.Owner
}

func (s State) verb() string {
	switch s {
	case Waiting:
		return "waits"
	case Degraded:
		return "is degraded"
	case Started:
		return "has started"
	case Ended:
		return "has ended"
	case OtherScheduler:
		return "is not for Tutti to place"
	}
	return "has not been looked at"
}

func (a *Diagnosis) style() printer.Style {
	switch a.State {
	case Waiting, Degraded, Unprocessed:
		return printer.Red
	case Started:
		return printer.Green
	}
	return printer.Plain
}

// rows are names and values.
func (a *Diagnosis) rows(now time.Time) [][]printer.Cell {
	var rows [][]printer.Cell
	add := func(name, text string) { rows = append(rows, printer.Cells(name, text)) }
	if a.EvictedAt != nil {
		add("Evicted", since(*a.EvictedAt, now)+", "+a.Evicted)
	}
	if a.WaitingSince != nil {
		add("Waiting since", since(*a.WaitingSince, now)+", with all the members it needs")
	}
	if a.Queue != "" {
		add("Queue", a.Queue)
	}
	if a.Turn != "" {
		add("Turn", a.Turn)
	}
	if a.DegradedSince != nil {
		add("Degraded since", since(*a.DegradedSince, now))
	}
	if a.Members != nil {
		rows = append(rows, a.Members.rows(a.State != Ended)...)
	}
	for i, place := range Places(a.Topology) {
		if i == 0 {
			add("Topology", place)
		} else {
			add("", place)
		}
	}
	if a.Reservation != nil {
		add("Reservation", reservation(a.Reservation, now))
	}
	for i, note := range a.Notes {
		if i == 0 {
			add("Notes", note)
		} else {
			add("", note)
		}
	}
	return rows
}

// rows are the rows about the members; alive reports whether some of them may be missing.
func (m *Members) rows(alive bool) [][]printer.Cell {
	needs := ""
	if m.Needs > 0 {
		needs = fmt.Sprintf("needs %d, ", m.Needs)
	}
	exist := printer.Cell{Text: fmt.Sprintf("%shas %d", needs, m.Exist)}
	if alive && m.Exist < m.Needs {
		exist.Text, exist.Style = fmt.Sprintf("%s (%d missing)", exist.Text, m.Needs-m.Exist), printer.Warning
	}
	exist.Text += ": " + m.tally()
	rows := [][]printer.Cell{{{Text: "Members"}, exist}}
	for _, role := range m.Roles {
		cell := printer.Cell{Text: fmt.Sprintf("needs %d, has %d: %d bound", role.Needs, role.Exist, role.Bound)}
		if alive && role.Exist < role.Needs {
			cell.Style = printer.Warning
		}
		rows = append(rows, []printer.Cell{{Text: "  role " + role.Name}, cell})
	}
	for _, list := range []struct {
		what  string
		names []string
	}{{"  gated", m.Gated}, {"  failed", m.Failed}, {"  being deleted", m.Deleting}} {
		if len(list.names) > 0 {
			rows = append(rows, printer.Cells(list.what, few(list.names)))
		}
	}
	return rows
}

// tally counts the members by state: "2 bound (1 runs), 3 wait".
func (m *Members) tally() string {
	counts := []string{fmt.Sprintf("%d bound", m.Bound)}
	for _, count := range []struct {
		n    int
		what string
	}{
		{m.Running, "running"}, {m.Succeeded, "succeeded"}, {len(m.Waiting), "waiting"}, {len(m.Gated), "gated"},
		{len(m.Failed), "failed"},
	} {
		if count.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	return strings.Join(counts, ", ")
}

func reservation(r *v1alpha1.Reservation, now time.Time) string {
	var rooms []string
	for _, node := range r.Nodes {
		rooms = append(rooms, fmt.Sprintf("%s (%d)", node.Name, node.Members))
	}
	expected := "expected start unknown"
	if r.ExpectedStart != nil {
		expected = "expected start " + r.ExpectedStart.UTC().Format(time.RFC3339)
	}
	if r.Until != nil {
		expected += ", given up at " + r.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s; since %s, %s", few(rooms), since(r.Since.Time, now), expected)
}

// since writes a time and its age.
func since(when, now time.Time) string {
	return fmt.Sprintf("%s (%s)", when.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(when)))
}
