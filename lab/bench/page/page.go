// Package page writes measured results into Markdown pages that people wrote: a named part is replaced, or added at the
// end, and the rest of the page stays as it is. It knows nothing about what is measured.
package page

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// WritePart replaces the named part of a file, or adds it. The file is made if it is not there.
func WritePart(file, name, text string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("page: %w", err)
	}
	if err := os.WriteFile(file, []byte(replace(string(old), name, text)), 0o644); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// replace puts the text between the marks of its name.
func replace(page, name, text string) string {
	begin, end := fmt.Sprintf("<!-- measured: %s -->\n", name), fmt.Sprintf("<!-- end: %s -->\n", name)
	part := begin + "\n" + strings.TrimSpace(text) + "\n\n" + end
	before, rest, found := strings.Cut(page, begin)
	if found {
		if _, after, closed := strings.Cut(rest, end); closed {
			return before + part + after
		}
	}
	if page != "" {
		page = strings.TrimRight(page, "\n") + "\n\n"
	}
	return page + part
}

// Machine says what the measurement ran on, as far as it matters for comparing.
func Machine() string { return Processor() + ", etcd and kube-apiserver on the same machine" }

// Processor is Machine for what ran within one process.
func Processor() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// Met says of a goal whether it is met.
func Met(yes bool) string {
	if yes {
		return "yes"
	}
	return "**no**"
}

// Write writes a named part of a page in a folder, as WritePart does, and the pictures that it shows, by file name.
func Write(folder, file, name, text string, pictures map[string]string) error {
	for picture, svg := range pictures {
		if err := os.WriteFile(filepath.Join(folder, picture), []byte(svg), 0o644); err != nil {
			return fmt.Errorf("picture: %w", err)
		}
	}
	return WritePart(filepath.Join(folder, file), name, text)
}
