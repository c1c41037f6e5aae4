package program

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"

	"github.com/tutti-sched/tutti/lab/archive"
)

// Module is a module of which packages are linked into a program.
type Module struct {
	// Path is such as k8s.io/api, and std for Go's own packages.
	Path string
	// Version is such as v0.37.1, and go1.26.8 for Go's own. It is empty for the modules of this repository.
	Version string
	// Licences are the texts of its licences and notices, at the names that they have below the module's folder.
	Licences []archive.File
}

// licenceName are the names of files that must go with a program.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|copyright)([.-].*)?$`)

// Linked returns the modules of a program, in the order of their paths. Of each it has the licences in the folders of the linked
// packages and in the folders above them.
func Linked(ctx context.Context, root, name string, on Target) ([]Module, error) {
	const format = `{{.Dir}}|{{if .Standard}}std|{{else}}{{.Module.Path}}|{{with .Module.Replace}}{{.Version}}{{else}}{{.Module.Version}}{{end}}|{{.Module.Dir}}{{end}}`
	cmd := on.command(ctx, root, "list", "-deps", "-f", format, "./cmd/"+name)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("packages of %s for %s: %w", name, on, err)
	}
	goroot, err := on.command(ctx, root, "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("folder of Go: %w", err)
	}
	of := strings.Fields(string(goroot))
	found := map[string]*Module{"std": {Path: "std", Version: of[1]}}
	if err := found["std"].add(of[0], of[0]); err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		of := strings.Split(strings.TrimSpace(line), "|")
		if of[1] == "std" {
			continue
		}
		module := found[of[1]]
		if module == nil {
			module = &Module{Path: of[1], Version: of[2]}
			found[of[1]] = module
		}
		top := of[3]
		if module.Version == "" {
			top = root // a module of the repository has the licence of the repository
		}
		for dir := of[0]; ; dir = filepath.Dir(dir) {
			if err := module.add(top, dir); err != nil {
				return nil, err
			}
			if dir == top || len(dir) <= len(top) {
				break
			}
		}
	}
	modules := make([]Module, 0, len(found))
	for _, path := range slices.Sorted(maps.Keys(found)) {
		module := *found[path]
		slices.SortFunc(module.Licences, func(a, b archive.File) int { return cmp.Compare(a.Name, b.Name) })
		modules = append(modules, module)
	}
	return modules, nil
}

// add adds the licences in a folder below the module's folder, top.
func (m *Module) add(top, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("module %s: %w", m.Path, err)
	}
	for _, entry := range entries {
		if entry.IsDir() || !licenceName.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		name, err := filepath.Rel(top, filepath.Join(dir, entry.Name()))
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Path, err)
		}
		name = filepath.ToSlash(name)
		if slices.ContainsFunc(m.Licences, func(f archive.File) bool { return f.Name == name }) {
			continue
		}
		text, err := fs.ReadFile(os.DirFS(dir), entry.Name())
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Path, err)
		}
		m.Licences = append(m.Licences, archive.File{Name: name, Mode: 0o444, Text: text})
	}
	return nil
}

// PatentGrant stands for the file PATENTS beside a licence of the Go project. SPDX has no identifier for it.
const PatentGrant = "GooglePatentsFile"

// IDs returns the SPDX identifiers of the module's licences, and PatentGrant, sorted. Empty means that no licence was recognised.
func (m Module) IDs() (ids []string) {
	for _, file := range m.Licences {
		for _, match := range licensecheck.Scan(file.Text).Match {
			if !match.IsURL {
				ids = append(ids, match.ID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Licences returns the licences of the modules, as files of a folder named licenses.
func Licences(linked []Module) (files []archive.File) {
	for _, module := range linked {
		for _, file := range module.Licences {
			file.Name = "licenses/" + module.Path + "/" + file.Name
			files = append(files, file)
		}
	}
	return files
}
