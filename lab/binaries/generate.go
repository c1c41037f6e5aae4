package binaries

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// generateModule writes, below build/, a module that can build a Kubernetes version other than the pinned one, and
// returns its folder. It is derived from the go.mod of that version: each staging module it replaces by a folder of its
// own repository was released beside it, as v0.<minor>.<patch>.
func (b *builder) generateModule(ctx context.Context, label string) (string, error) {
	dir := filepath.Join(b.root, "build", "tools", "kubernetes-"+b.kubernetes)
	sums := filepath.Join(dir, "go.sum")
	if _, err := os.Stat(sums); err == nil {
		return dir, nil
	}
	fmt.Fprintf(b.out, "%s: resolving the modules of Kubernetes %s\n", label, b.kubernetes)
	released, err := b.releasedModule(ctx)
	if err != nil {
		return "", err
	}
	mod, err := derive(string(released), b.kubernetes)
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
	if err := os.WriteFile(filepath.Join(part, "go.mod"), []byte(mod), 0o644); err != nil {
		return "", fmt.Errorf("module of tools: %w", err)
	}
	if err := watch(goCommand(ctx, part, "mod", "tidy"), b.out, label, "resolving"); err != nil {
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
func (b *builder) releasedModule(ctx context.Context) ([]byte, error) {
	// Run where a go.mod exists, whichever: outside of any module the tool would not know its proxy settings apart.
	dir := filepath.Join(b.root, "lab")
	out, err := goCommand(ctx, dir, "mod", "download", "-json", kubernetes+"@v"+b.kubernetes).Output()
	var answer struct{ GoMod, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr == nil && answer.Error != "" {
		return nil, fmt.Errorf("module of Kubernetes %s: %s", b.kubernetes, answer.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("module of Kubernetes %s: %w", b.kubernetes, withStderr(err))
	}
	mod, err := os.ReadFile(answer.GoMod)
	if err != nil {
		return nil, fmt.Errorf("module of Kubernetes %s: %w", b.kubernetes, err)
	}
	return mod, nil
}

var (
	goLines = regexp.MustCompile(`(?m)^(go|godebug) [^(]*?$|(?s)^godebug \(.*?^\)`)
	staging = regexp.MustCompile(`(?m)^(?:replace|)\s*(\S+) => \./staging/src/`)
)

// derive turns the go.mod of a Kubernetes version into that of a module that requires it.
func derive(released, version string) (string, error) {
	_, minorAndPatch, ok := strings.Cut(version, ".")
	if !ok || strings.Count(version, ".") != 2 {
		return "", fmt.Errorf("%q is not a Kubernetes version such as %s", version, DefaultKubernetes)
	}
	lines := []string{"module github.com/tutti-sched/tutti/build/tools/kubernetes"}
	lines = append(lines, goLines.FindAllString(released, -1)...)
	for _, module := range staging.FindAllStringSubmatch(released, -1) {
		lines = append(lines, fmt.Sprintf("replace %s => %[1]s v0.%s", module[1], minorAndPatch))
	}
	lines = append(lines, "require "+kubernetes+" v"+version)
	for _, r := range recipes() {
		if r.module == kubernetes {
			lines = append(lines, "tool "+r.pkg)
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}
