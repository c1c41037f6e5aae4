// Package profile records where a program spends its processor time, and reads such records with Go's own tool: joins
// several into one, and lists the functions that took most. It knows nothing about what was measured.
package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
)

// Start begins to record this process into a file; the returned function ends it. Only one can be under way.
func Start(file string) (stop func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		return nil
	}, nil
}

// Merge joins all records of a folder into one file.
func Merge(ctx context.Context, dir, file string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.pprof"))
	if err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	if len(files) == 0 {
		return errors.New("profiles: nothing was recorded")
	}
	_, err = tool(ctx, append([]string{"-proto", "-output=" + file}, files...)...)
	return err
}

// Line is one function.
type Line struct {
	Function string
	// Self and All are the shares of the whole time, 0 to 100, spent in the function alone and with all that it called.
	Self, All float64
}

// Top returns the functions that took most, with what they called, at most so many, and how many seconds were recorded in
// all. Only those whose name matches the pattern are listed; shares are of everything.
func Top(ctx context.Context, file string, most int, pattern *regexp.Regexp) (lines []Line, seconds float64, err error) {
	text, err := tool(ctx, "-top", "-cum", "-nodecount=100000", "-nodefraction=0", "-unit=ms", file)
	if err != nil {
		return nil, 0, err
	}
	return parse(text, most, pattern)
}

func tool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof"}, args...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go tool pprof: %w: %s", err, complaint.String())
	}
	return string(text), nil
}

// row is a line such as "  10ms  0.5%  80%  150ms  7.5%  runtime.mallocgc".
var (
	row   = regexp.MustCompile(`^\s*\S+\s+([\d.]+)%\s+[\d.]+%\s+\S+\s+([\d.]+)%\s+(.+)$`)
	total = regexp.MustCompile(`of ([\d.]+)ms total`)
)

func parse(text string, most int, pattern *regexp.Regexp) (lines []Line, seconds float64, err error) {
	if match := total.FindStringSubmatch(text); match != nil {
		if seconds, err = strconv.ParseFloat(match[1], 64); err != nil {
			return nil, 0, fmt.Errorf("profile: %w", err)
		}
		seconds /= 1000
	}
	for one := range strings.Lines(text) {
		match := row.FindStringSubmatch(strings.TrimRight(one, "\n"))
		if match == nil || len(lines) == most || !pattern.MatchString(match[3]) {
			continue
		}
		self, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			return nil, 0, fmt.Errorf("profile: %w", err)
		}
		all, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, 0, fmt.Errorf("profile: %w", err)
		}
		lines = append(lines, Line{Function: strings.TrimSuffix(match[3], " (inline)"), Self: self, All: all})
	}
	return lines, seconds, nil
}
