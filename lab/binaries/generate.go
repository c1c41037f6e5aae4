package binaries

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// generateTools writes, below build/, a module that can build a Kubernetes version other than the pinned one, and
// returns its folder. It is derived from the go.mod of that version: each staging module it replaces by a folder of its
// own repository was released beside it, as v0.<minor>.<patch>.
func (w *builder) generateTools(ctx context.Context, label string) (string, error) {
	dir := filepath.Join(w.root, "build", "tools", "kubernetes-"+w.kubernetes)
	sums := filepath.Join(dir, "go.sum")
	if _, err := os.Stat(sums); err == nil {
		return dir, nil
	}
	fmt.Fprintf(w.out, "%s: resolving the modules of Kubernetes %s\n", label, w.kubernetes)
	released, err := w.releasedModule(ctx)
	if err != nil {
		return "", err
	}
	mod, err := derive(released, w.kubernetes)
	if err != nil {
		return "", err
	}
	// Written beside its place first: go.sum, the sign that the module is whole, comes last.
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", fmt.Errorf("folder of tools: %w", err)
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return "", fmt.Errorf("folder of tools: %w", err)
	}
	if err := os.WriteFile(filepath.Join(part, "go.mod"), mod, 0o644); err != nil {
		return "", fmt.Errorf("module of tools: %w", err)
	}
	if err := watch(w.goCommand(ctx, part, "mod", "tidy"), w.out, label, "resolving"); err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("folder of tools: %w", err)
	}
	if err := os.Rename(part, dir); err != nil {
		return "", fmt.Errorf("folder of tools: %w", err)
	}
	return dir, nil
}

// releasedModule is the go.mod that this version of Kubernetes was released with.
func (w *builder) releasedModule(ctx context.Context) ([]byte, error) {
	// Run where a go.mod exists, whichever: outside of any module the tool would not know its proxy settings apart.
	dir := filepath.Join(w.root, "lab", "tools", "kubernetes")
	out, err := w.goCommand(ctx, dir, "mod", "download", "-json", "k8s.io/kubernetes@v"+w.kubernetes).Output()
	var answer struct{ GoMod, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr == nil && answer.Error != "" {
		return nil, fmt.Errorf("module of Kubernetes %s: %s", w.kubernetes, answer.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("module of Kubernetes %s: %w", w.kubernetes, withStderr(err))
	}
	mod, err := os.ReadFile(answer.GoMod)
	if err != nil {
		return nil, fmt.Errorf("module of Kubernetes %s: %w", w.kubernetes, err)
	}
	return mod, nil
}

// derive turns the go.mod of a Kubernetes version into that of a module that requires it.
func derive(released []byte, kubernetes string) ([]byte, error) {
	from, err := modfile.Parse("go.mod", released, nil)
	if err != nil {
		return nil, fmt.Errorf("module of Kubernetes %s: %w", kubernetes, err)
	}
	_, minorAndPatch, ok := strings.Cut(kubernetes, ".")
	if !ok || strings.Count(kubernetes, ".") != 2 {
		return nil, fmt.Errorf("%q is not a Kubernetes version such as %s", kubernetes, DefaultKubernetes)
	}
	to := new(modfile.File)
	if err := to.AddModuleStmt("github.com/tutti-sched/tutti/build/tools/kubernetes"); err != nil {
		return nil, fmt.Errorf("module of tools: %w", err)
	}
	if from.Go != nil {
		if err := to.AddGoStmt(from.Go.Version); err != nil {
			return nil, fmt.Errorf("module of tools: %w", err)
		}
	}
	for _, g := range from.Godebug {
		if err := to.AddGodebug(g.Key, g.Value); err != nil {
			return nil, fmt.Errorf("module of tools: %w", err)
		}
	}
	for _, r := range from.Replace {
		if !strings.HasPrefix(r.New.Path, "./staging/src/") {
			continue
		}
		if err := to.AddReplace(r.Old.Path, "", r.Old.Path, "v0."+minorAndPatch); err != nil {
			return nil, fmt.Errorf("replacement of %s: %w", r.Old.Path, err)
		}
	}
	if err := to.AddRequire("k8s.io/kubernetes", "v"+kubernetes); err != nil {
		return nil, fmt.Errorf("requirement of Kubernetes: %w", err)
	}
	for _, r := range recipes() {
		if r.module != "k8s.io/kubernetes" {
			continue
		}
		if err := to.AddTool(r.pkg); err != nil {
			return nil, fmt.Errorf("tool %s: %w", r.name, err)
		}
	}
	text, err := to.Format()
	if err != nil {
		return nil, fmt.Errorf("module of tools: %w", err)
	}
	return text, nil
}
