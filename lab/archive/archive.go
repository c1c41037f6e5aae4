// Package archive writes tar files in which nothing is of the machine that wrote them: the same files at the same time are the
// same bytes.
package archive

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// File is one file of an archive.
type File struct {
	// Name is its path in the archive, with slashes.
	Name string
	// Mode are its permissions, such as 0o644.
	Mode int64
	Text []byte
}

// Tar writes the files, in this order, all of user 0 and of this time.
func Tar(to io.Writer, at time.Time, files []File) error {
	w := tar.NewWriter(to)
	for _, file := range files {
		header := &tar.Header{Name: file.Name, Mode: file.Mode, Size: int64(len(file.Text)), ModTime: at.UTC(), Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("file %s: %w", file.Name, err)
		}
		if _, err := w.Write(file.Text); err != nil {
			return fmt.Errorf("file %s: %w", file.Name, err)
		}
	}
	return w.Close()
}

// Folder reads the files below a folder, sorted by name, each with mode 644.
func Folder(dir string) (files []File, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, File{Name: filepath.ToSlash(name), Mode: 0o644, Text: text})
		return err
	})
	return files, err
}
