// Command document writes the parts of the documentation that follow from what actions and plugins declare: the tables in
// docs/configuration.md and in docs/plugins. The words around the tables are written by hand, in the same files.
//
//	go run ./hack/document OUTDIR
//
// It runs in the root of the repository, and OUTDIR is where the files go, laid out as there.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tutti-sched/tutti/internal/configuration"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: document OUTDIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "document:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	if err := write(filepath.Join("docs", "configuration.md"), "plugins/%s.md", out); err != nil {
		return err
	}
	for _, entry := range configuration.Entries() {
		if entry.Kind != "plugin" {
			continue
		}
		if err := write(filepath.Join("docs", "plugins", entry.Name+".md"), "", out); err != nil {
			return err
		}
	}
	return nil
}

func write(file, links, out string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("a page of the documentation: %w", err)
	}
	filled, err := configuration.Fill(string(text), links)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	target := filepath.Join(out, file)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("a folder of the documentation: %w", err)
	}
	if err := os.WriteFile(target, []byte(filled), 0o644); err != nil {
		return fmt.Errorf("a page of the documentation: %w", err)
	}
	return nil
}
