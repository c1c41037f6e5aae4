package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestReference holds docs/kubectl-tutti-reference.md to what the commands say of themselves; `make generate` writes it by
// go test ./cmd/kubectl-tutti -run '^TestReference$' -rewrite.
func TestReference(t *testing.T) {
	root := newCommand(newClientFlags())
	want := reference(root)
	page := filepath.Join("..", "..", "docs", "kubectl-tutti-reference.md")
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is stale; run make generate: %v", page, err)
	}
	for _, command := range root.Commands() {
		if strings.Contains(want, "\n## kubectl tutti "+command.Name()+"\n") == command.Hidden {
			t.Errorf("the command %s is hidden: %v, and the page says otherwise", command.Name(), command.Hidden)
		}
	}
}

// kubectlsFlags are the flags of each format of kubectl. The page leaves them out.
var kubectlsFlags = []string{"allow-missing-template-keys", "show-managed-fields", "template"}

// reference is the page: a section for each command, in the order of names.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands of kubectl tutti\n\n<!-- Written by \"make generate\" from the commands themselves. -->\n\n" +
		"[kubectl tutti](kubectl-tutti.md) explains them by examples. Each takes the flags of kubectl, too, by which a cluster is reached\n" +
		"(`kubectl options`), and those of its output formats.\n")
	writeCommands(&b, root)
	return b.String()
}

// writeCommands writes the commands below one that can be run, as their help shows them.
func writeCommands(b *strings.Builder, parent *cobra.Command) {
	for _, command := range parent.Commands() {
		if !command.IsAvailableCommand() {
			continue
		}
		writeCommands(b, command)
		if !command.Runnable() {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n%s.\n\n```\n%s\n", command.CommandPath(), command.Short, command.UseLine())
		for _, text := range []string{command.Long, command.Example} {
			if text != "" {
				fmt.Fprintf(b, "\n%s\n", text)
			}
		}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		command.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(kubectlsFlags, f.Name) {
				flags.AddFlag(f)
			}
		})
		if usages := flags.FlagUsages(); usages != "" {
			b.WriteString("\n" + usages)
		}
		b.WriteString("```\n")
	}
}
