package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/lab/archive"
	"github.com/tutti-sched/tutti/lab/binaries"
)

// permitted are the licences under which others' code may be linked into a program that is under Apache-2.0.
var permitted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", PatentGrant, "ISC", "MIT"}

// TestLicences: each module that is linked into a program, for each system that it is released for, is under permitted licences,
// and their texts are at hand.
func TestLicences(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	for name, systems := range map[string][]string{
		Scheduler: {"linux"}, Agent: {"linux"}, Plugin: {"linux", "darwin", "windows"},
	} {
		for _, system := range systems {
			on := Target{system, "amd64"}
			modules, err := Linked(t.Context(), root, name, on)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(modules, func(m Module) bool { return m.Path == "k8s.io/client-go" && m.Version != "" }) {
				t.Errorf("%s for %s: client-go is not among its %d modules", name, on, len(modules))
			}
			for _, module := range modules {
				if wrong := refused(module); wrong != "" {
					t.Errorf("%s for %s: module %s %s %s", name, on, module.Path, module.Version, wrong)
				}
			}
		}
	}
}

// refused says why a module may not be linked in; empty means that it may.
func refused(m Module) string {
	ids := m.IDs()
	if len(ids) == 0 {
		return "has no licence that is recognised"
	}
	for _, id := range ids {
		if !slices.Contains(permitted, id) {
			return "is under " + id + ", which is not among the permitted licences"
		}
	}
	return ""
}

func TestRefused(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	for want, module := range map[string]Module{
		"":                                  {Licences: []archive.File{{Name: "LICENSE", Text: text}}},
		"has no licence that is recognised": {Licences: []archive.File{{Name: "LICENSE", Text: []byte("All rights reserved.")}}},
		"is under GPL-3.0":                  {Licences: []archive.File{{Name: "COPYING", Text: []byte(gpl)}}},
	} {
		if got := refused(module); got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// gpl is how the GNU General Public License has itself stated at the top of a source file.
const gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as
published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.`

func TestIsStatic(t *testing.T) {
	if err := IsStatic([]byte("#!/bin/sh\n")); err == nil || !strings.Contains(err.Error(), "no program of Linux") {
		t.Errorf("a script: %v", err)
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("no /bin/sh here, as a program that is linked with libraries")
	}
	if err := IsStatic(shell); err == nil || !strings.Contains(err.Error(), "linked with libraries") && !strings.Contains(err.Error(), "no program of Linux") {
		t.Errorf("/bin/sh: %v", err)
	}
}
