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

// pluginsPage has the plugins without a page of their own, each below a heading with its name.
const pluginsPage = "plugins/README.md"

// ownPages are the plugins with a page of their own, plugins/NAME.md.
var ownPages = []string{"extender", "nodeorder", "predicates", "proportion"}

// pages are the pages with tables, by their path in docs.
func pages() []string {
	all := []string{"configuration.md", pluginsPage}
	for _, name := range ownPages {
		all = append(all, "plugins/"+name+".md")
	}
	return all
}

// pageOf is where a plugin is described, by its path in docs.
func pageOf(plugin string) string {
	if slices.Contains(ownPages, plugin) {
		return "plugins/" + plugin + ".md"
	}
	return pluginsPage + "#" + plugin
}

// fill returns a page of Markdown with everything between marks written again: the list of the arguments of an action or
// plugin ("arguments of NAME"), or that of all actions or plugins ("all actions", "all plugins"), where plugins are links from
// the folder docs. It fails when a mark is not closed or names something unknown.
func fill(page string) (string, error) {
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
		text, err := table(what)
		if err != nil {
			return "", err
		}
		b.WriteString(beginMark + what + endOfBegin + "\n" + text + "\n" + endMark)
		page = after
	}
}

// table writes the content of a mark.
func table(what string) (string, error) {
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
		if kind == "plugin" {
			name = fmt.Sprintf("[%s](%s)", name, pageOf(e.Name))
		}
		if e.Kind == kind {
			fmt.Fprintf(&b, "| %s | %s |\n", name, e.Summary)
		}
	}
	return b.String(), nil
}

// markdown is the list of the arguments.
func markdown(e configuration.Entry) string {
	if len(e.Arguments) == 0 {
		return "It takes no arguments.\n"
	}
	var b strings.Builder
	for _, l := range e.Lines() {
		words := []string{l.Range()}
		if text := l.DefaultText("default `%s`", "must be given", ""); text != "" {
			words = append(words, text)
		}
		fmt.Fprintf(&b, "- `%s` (%s): %s\n", l.Path, strings.Join(words, "; "), l.Help)
	}
	return b.String()
}
