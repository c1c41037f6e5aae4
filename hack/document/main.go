// Command document writes what follows from what actions and plugins declare: the tables in docs/configuration.md and in
// docs/plugins, the words around which are written by hand in the same files, and the names that the chart checks. From the CRDs
// in OUTDIR it writes docs/api.md.
//
//	go run ./hack/document OUTDIR
//
// It runs in the root of the repository, and OUTDIR is where the files go, laid out as there.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
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
	for _, page := range pages() {
		if err := write(filepath.Join("docs", page), out); err != nil {
			return err
		}
	}
	text, err := api(filepath.Join(out, crds))
	if err != nil {
		return err
	}
	if err := store(filepath.Join("docs", apiPage), text, out); err != nil {
		return err
	}
	return store(filepath.Join("charts", "tutti", "files", "names.yaml"), names(), out)
}

// names lists the actions, the plugins and the sources of groups as YAML.
func names() string {
	list := map[string][]string{}
	for _, entry := range configuration.Entries() {
		list[entry.Kind] = append(list[entry.Kind], entry.Name)
	}
	return fmt.Sprintf("# The names that a configuration may have, for the checks of the chart.\nactions: [%s]\nplugins: [%s]\nsources: [%s]\n",
		strings.Join(list["action"], ", "), strings.Join(list["plugin"], ", "), strings.Join(config.SourceNames(), ", "))
}

func write(file, out string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("a page of the documentation: %w", err)
	}
	filled, err := fill(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return store(file, filled, out)
}

func store(file, text, out string) error {
	target := filepath.Join(out, file)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("the folder of %s: %w", file, err)
	}
	if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
