package configuration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/framework"
)

// Entry documents one action or plugin.
type Entry struct {
	// Kind is "action" or "plugin".
	Kind, Name string
	// Summary is what it does, in half a sentence.
	Summary   string
	Arguments argument.List
}

// Entries returns every action and then every plugin of this build, in the order in which they are explained.
func Entries(extra ...framework.PluginRegistration) []Entry {
	var all []Entry
	catalogue := Catalogue(nil, extra...)
	for _, maker := range catalogue.Actions {
		all = append(all, Entry{Kind: "action", Name: maker.Name, Summary: maker.Summary, Arguments: maker.Arguments})
	}
	for _, maker := range catalogue.Plugins {
		all = append(all, Entry{Kind: "plugin", Name: maker.Name, Summary: maker.Summary, Arguments: maker.Arguments})
	}
	return all
}

// Explain returns the documentation of one action or plugin. The error lists the names.
func Explain(name string, extra ...framework.PluginRegistration) (string, error) {
	entries := Entries(extra...)
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name
		}
		return "", fmt.Errorf("there is no action and no plugin %q; there are %s", name, strings.Join(names, ", "))
	}
	return entries[i].Explain(), nil
}

// Explain returns a page of plain text.
func (e Entry) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s.\n", e.Kind, e.Name, e.Summary)
	lines := e.Lines()
	if len(lines) == 0 {
		b.WriteString("\nIt takes no arguments.\n")
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "\n%s\n    %s%s\n%s", l.Path, l.Range(), l.DefaultText(", unless given: %s", ", must be given", ""),
			wrap(strings.ReplaceAll(l.Help, "`", ""), "    "))
	}
	return b.String()
}

// Line is one argument with the path that leads to it.
type Line struct {
	argument.Argument
	Path string
}

// DefaultText describes what applies when the argument is not given.
func (l Line) DefaultText(def, required, nothing string) string {
	switch {
	case l.Required:
		return required
	case l.Default == "" || l.IgnoredReason != "":
		return nothing
	default:
		return fmt.Sprintf(def, l.Default)
	}
}

// Lines returns all arguments, each followed by its fields.
func (e Entry) Lines() []Line { return flatten(e.Arguments, "") }

// flatten lists arguments, each followed by its fields.
func flatten(list argument.List, prefix string) []Line {
	var all []Line
	for _, a := range list {
		path := prefix + a.Name
		all = append(all, Line{a, path})
		if a.Type == argument.MapListType {
			path += "[]"
		}
		all = append(all, flatten(a.Fields, path+".")...)
	}
	return all
}

// wrap breaks a text into lines of at most 100 characters.
func wrap(text, indent string) string {
	var b strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		switch {
		case width == 0:
			b.WriteString(indent)
			width = len(indent)
		case width+1+len(word) > 100:
			b.WriteString("\n" + indent)
			width = len(indent)
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	b.WriteByte('\n')
	return b.String()
}
