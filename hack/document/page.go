package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/internal/configuration"
)

// The marks between which a page of the documentation is written from the declarations:
//
//	<!-- generated: arguments of nodeorder -->
//	...
//	<!-- end of generated -->
const (
	beginMark   = "<!-- generated: "
	endOfBegin  = " -->\n"
	endMark     = "<!-- end of generated -->"
	argumentsOf = "arguments of "
	allOfKind   = "all "
)

// fill returns a page of Markdown with everything between marks written again: the table of the arguments of an action or
// plugin ("arguments of NAME"), or that of all actions or plugins ("all actions", "all plugins"). links leads from the page
// to that of a plugin, with %s for its name; empty makes no links. It fails when a mark is not closed or names something
// unknown.
func fill(page, links string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(page, beginMark)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		what, rest, closed := strings.Cut(rest, endOfBegin)
		_, after, ended := strings.Cut(rest, endMark)
		if !closed || !ended {
			return "", fmt.Errorf("the mark %q is not closed", beginMark+what)
		}
		text, err := table(what, links)
		if err != nil {
			return "", err
		}
		b.WriteString(beginMark + what + endOfBegin + "\n" + text + "\n" + endMark)
		page = after
	}
}

// table writes the content of a mark.
func table(what, links string) (string, error) {
	entries := configuration.Entries()
	if name, is := strings.CutPrefix(what, argumentsOf); is {
		i := slices.IndexFunc(entries, func(e configuration.Entry) bool { return e.Name == name })
		if i < 0 {
			return "", fmt.Errorf("the mark %q names no action and no plugin", what)
		}
		return markdown(entries[i]), nil
	}
	kind := strings.TrimSuffix(strings.TrimPrefix(what, allOfKind), "s")
	if what != allOfKind+kind+"s" || !slices.ContainsFunc(entries, func(e configuration.Entry) bool { return e.Kind == kind }) {
		return "", fmt.Errorf("the mark %q asks for nothing that there is", what)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |\n|---|---|\n", kind, map[string]string{"action": "does", "plugin": "says"}[kind])
	for _, e := range entries {
		name := "`" + e.Name + "`"
		if links != "" && kind == "plugin" {
			name = fmt.Sprintf("[%s]("+links+")", name, e.Name)
		}
		if e.Kind == kind {
			fmt.Fprintf(&b, "| %s | %s |\n", name, e.Summary)
		}
	}
	return b.String(), nil
}

// markdown is the table of the arguments.
func markdown(e configuration.Entry) string {
	if len(e.Arguments) == 0 {
		return "It takes no arguments.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| argument of `%s` | default | takes | |\n|---|---|---|---|\n", e.Name)
	for _, l := range e.Lines() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", l.Path, l.DefaultText("`%s`", "must be given", ""), l.Range(), l.Help)
	}
	return b.String()
}
