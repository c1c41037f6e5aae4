package publish

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tutti-sched/tutti/lab/archive"
	"github.com/tutti-sched/tutti/lab/program"
)

// download is an archive of kubectl tutti, as the manifest for krew names it.
type download struct {
	OS, Arch, File, Program string
	// SHA256 is the digest of the archive, in hexadecimal digits.
	SHA256 string
}

// plugins writes the archives of kubectl tutti, and the manifest for krew, which names them.
func (r *Release) plugins(ctx context.Context) error {
	licence, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
	if err != nil {
		return err
	}
	var downloads []download
	for _, on := range r.Plugins {
		text, err := program.Compile(ctx, r.Root, program.Plugin, on)
		if err != nil {
			return err
		}
		linked, err := program.Linked(ctx, r.Root, program.Plugin, on)
		if err != nil {
			return err
		}
		made := download{OS: on.OS, Arch: on.Arch, Program: program.Plugin, File: fmt.Sprintf("%s-%s-%s.tar.gz", program.Plugin, on.OS, on.Arch)}
		if on.OS == "windows" {
			made.Program += ".exe"
		}
		files := []archive.File{{Name: made.Program, Mode: 0o755, Text: text}, {Name: "LICENSE", Mode: 0o644, Text: licence}}
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		if err := archive.Tar(zip, r.Of.At, append(files, program.Licences(linked)...)); err != nil {
			return err
		}
		if err := zip.Close(); err != nil {
			return err
		}
		if err := r.write(made.File, packed.Bytes()); err != nil {
			return err
		}
		made.SHA256 = fmt.Sprintf("%x", sha256.Sum256(packed.Bytes()))
		downloads = append(downloads, made)
	}
	text, err := r.Variables.fill(filepath.Join(r.Root, "hack/release/krew.yaml"), struct {
		Version   string
		Downloads []download
	}{r.Of.Version, downloads})
	if err != nil {
		return err
	}
	return r.write("tutti.yaml", text) // krew wants the name of the plugin
}
