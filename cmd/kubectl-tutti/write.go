package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/model"
)

// writePod prints what is to be said of one member; its job follows.
func writePod(p *printer.Printer, job *debugapi.Job, member *debugapi.Member) {
	noun := fmt.Sprintf("Pod %s/%s", job.Namespace, member.Name)
	switch member.State {
	case debugapi.MemberSucceeded, debugapi.MemberFailed:
		p.Printf("%s has ended: %s\n\n", noun, string(member.State))
	case debugapi.MemberDeleting:
		p.Printf("%s is being deleted\n\n", noun)
	case debugapi.MemberBound, debugapi.MemberRunning:
		p.Printf("%s has started\n  bound to node %s, %s\n\n", noun, member.Node, string(member.State))
	case debugapi.MemberGated:
		p.Printf("%s waits: SchedulingGated\n  it carries scheduling gates, which another controller removes\n\n", noun)
	default:
		if member.Message == "" {
			p.Printf("%s is of %s %s.\n", noun, job.Source, job.Name)
		} else {
			p.Printf("%s waits: %s\n\n", noun, member.Message)
		}
	}
}

// writeJob prints why a job waits. now is the time that ages are relative to.
func writeJob(p *printer.Printer, job *debugapi.Job, verbose bool, now time.Time) {
	owner := ""
	if job.Owner() != "" && job.Owner() != job.Source+"/"+job.Name {
		owner = " of " + job.Owner()
	}
	verb, style, details := standing(job)
	p.Printf("%s %s/%s%s %s", strings.ToUpper(job.Source[:1])+job.Source[1:], job.Namespace, job.Name, owner, printer.Cell{Text: verb, Style: style})
	switch {
	case isEnded(job):
		p.Printf(": %s", printer.Cell{Text: string(job.Phase), Style: printer.Bold})
	case job.Waits() && job.Reason != "" && job.Reason != reasonOtherScheduler:
		p.Printf(": %s", printer.Cell{Text: job.Reason, Style: printer.Bold})
	}
	p.Printf("\n")
	for _, detail := range details {
		p.Printf("  %s\n", detail)
	}
	if rows := jobRows(job, now); len(rows) > 0 {
		p.Printf("\n")
		p.Rows("  ", rows)
	}
	if !verbose {
		return
	}
	p.Printf("\n")
	if len(job.Trail) == 0 {
		p.Printf("The last cycle did not refuse it.\n")
		return
	}
	rows := [][]printer.Cell{printer.Cells("ACTION", "CODE", "REASON")}
	for _, step := range job.Trail {
		rows = append(rows, printer.Cells(step.Action, step.Code, step.Reason))
	}
	p.Rows("", rows)
}

func isEnded(job *debugapi.Job) bool {
	return job.Phase == v1alpha1.PodGroupSucceeded || job.Phase == v1alpha1.PodGroupFailed
}

// standing is how a job stands, in a verb, and what is known of that, finding by finding.
func standing(job *debugapi.Job) (verb string, style printer.Style, details []string) {
	for detail := range strings.SplitSeq(job.Message, "; ") {
		if detail = strings.TrimSpace(detail); detail != "" {
			details = append(details, detail)
		}
	}
	switch {
	case isEnded(job):
		return "has ended", printer.Plain, []string{fmt.Sprintf("%d members have succeeded, %d have failed", job.Succeeded, job.Failed)}
	case job.Reason == reasonOtherScheduler:
		return "is not for Tutti to place", printer.Plain, details
	case job.Phase == v1alpha1.PodGroupDegraded:
		return "is degraded", printer.Red, details
	case job.Waits() && job.Reason == "":
		return "has not been looked at", printer.Red, []string{"the scheduler has not said anything about it yet"}
	case job.Waits():
		return "waits", printer.Red, details
	case job.Source == model.SourcePod.Kind() && len(job.Members) == 1:
		details = []string{fmt.Sprintf("bound to node %s, %s", job.Members[0].Node, job.Members[0].State)}
	}
	return "has started", printer.Green, details
}

// jobRows are names and values.
func jobRows(job *debugapi.Job, now time.Time) [][]printer.Cell {
	var rows [][]printer.Cell
	add := func(name string, texts ...string) { rows = append(rows, named(name, texts...)...) }
	if job.EvictedAt != nil {
		add("Evicted", since(job.EvictedAt.Time, now)+", "+job.Evicted)
	}
	if job.WaitingSince != nil && job.Waits() {
		add("Waiting since", since(job.WaitingSince.Time, now)+", with all the members it needs")
	}
	if job.Advice != nil && job.Waits() {
		add("It would start", conditional(job.Advice)...)
	}
	add("Queue", job.Queue)
	add("Turn", job.Turn)
	if len(job.Behind) > 0 {
		add("Behind", strings.Join(job.Behind, ", "))
	}
	if job.DegradedSince != nil {
		add("Degraded since", since(job.DegradedSince.Time, now))
	}
	rows = append(rows, memberRows(job)...)
	add("Topology", debugapi.Places(job.Topology)...)
	if job.Reservation != nil {
		add("Reservation", reservation(job.Reservation, now))
	}
	add("Notes", append(ownReasons(job), job.Notes...)...)
	return rows
}

// conditional says what would let a job start, the better one first.
func conditional(advice *v1alpha1.Advice) (texts []string) {
	for _, alternative := range advice.Alternatives {
		var changes []string
		for _, change := range alternative.Changes {
			changes = append(changes, change.Message)
		}
		texts = append(texts, "if you "+strings.Join(changes, " and "))
	}
	return texts
}

// named are rows of texts that are not empty, the first of them with a name.
func named(name string, texts ...string) (rows [][]printer.Cell) {
	for _, text := range texts {
		if text != "" {
			rows = append(rows, printer.Cells(name, text))
			name = ""
		}
	}
	return rows
}

// ownReasons are reasons of single members.
func ownReasons(job *debugapi.Job) (notes []string) {
	byText := map[string][]string{}
	for _, member := range job.Members {
		if member.Message != "" {
			byText[member.Message] = append(byText[member.Message], member.Name)
		}
	}
	for text, names := range byText {
		notes = append(notes, fmt.Sprintf("%s: %s", printer.Few(names), text))
	}
	slices.Sort(notes)
	return notes
}

// memberRows are the rows about the members; a pod that is a job of its own has none.
func memberRows(job *debugapi.Job) [][]printer.Cell {
	names := map[debugapi.MemberState][]string{}
	var nominated []string
	for i := range job.Members {
		member := &job.Members[i]
		names[member.State] = append(names[member.State], member.Name)
		if member.Nominated != "" && member.State == debugapi.MemberWaiting {
			nominated = append(nominated, member.Name+" on "+member.Nominated)
		}
	}
	rows := named("  nominated", printer.Few(nominated))
	if job.Source == model.SourcePod.Kind() {
		return rows
	}
	counts := []string{fmt.Sprintf("%d bound", job.Bound)}
	for _, count := range []struct {
		n    int
		what string
	}{
		{int(job.Running), "running"}, {int(job.Succeeded), "succeeded"}, {len(names[debugapi.MemberWaiting]), "waiting"},
		{len(names[debugapi.MemberGated]), "gated"}, {int(job.Failed), "failed"},
	} {
		if count.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	all := [][]printer.Cell{enough("Members", job.Needs, job.Has, !isEnded(job), strings.Join(counts, ", "))}
	for _, role := range job.Roles {
		all = append(all, enough("  role "+role.Name, role.Needs, role.Has, !isEnded(job), fmt.Sprintf("%d bound", role.Bound)))
	}
	return slices.Concat(all, rows, named("  gated", printer.Few(names[debugapi.MemberGated])), named("  failed", printer.Few(names[debugapi.MemberFailed])),
		named("  being deleted", printer.Few(names[debugapi.MemberDeleting])))
}

// enough is a row that says how many members there are of those that are needed, and how they stand; alive reports whether some
// may be missing.
func enough(of string, needs, has int32, alive bool, counts string) []printer.Cell {
	text, style := fmt.Sprintf("needs %d, has %d", needs, has), printer.Plain
	if needs == 0 {
		text = fmt.Sprintf("has %d", has)
	}
	if alive && has < needs {
		text, style = fmt.Sprintf("%s (%d missing)", text, needs-has), printer.Warning
	}
	return []printer.Cell{{Text: of}, {Text: text + ": " + counts, Style: style}}
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
	return fmt.Sprintf("%s; since %s, %s", printer.Few(rooms), since(r.Since.Time, now), expected)
}

// since writes a time and its age.
func since(when, now time.Time) string {
	return fmt.Sprintf("%s (%s)", when.UTC().Format(time.RFC3339), duration.HumanDuration(now.Sub(when)))
}

// verbs counts jobs by how they stand: "2 wait, 1 has started".
func verbs(jobs []*debugapi.Job) string {
	counts, texts := make([]int, len(order)), []string{}
	for _, job := range jobs {
		verb, _, _ := standing(job)
		counts[rank(verb)]++
	}
	for i, n := range counts {
		if n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, adjectives[i]))
		}
	}
	return strings.Join(texts, ", ")
}

// order is that in which jobs are shown, by their verbs, and adjectives are the same behind a number.
var (
	order      = []string{"waits", "has not been looked at", "is degraded", "has started", "has ended", "is not for Tutti to place"}
	adjectives = []string{"waiting", "not looked at", "degraded", "started", "ended", "of another scheduler"}
)

func rank(verb string) int { return slices.Index(order, verb) }
