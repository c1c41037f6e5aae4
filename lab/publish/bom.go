package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"

	"github.com/tutti-sched/tutti/lab/program"
)

// boms writes, for each program, the modules that are linked into it on any system that it is released for, as CycloneDX.
func (r *Release) boms(ctx context.Context) error {
	var linux []program.Target
	for _, architecture := range r.Architectures {
		linux = append(linux, program.Target{OS: "linux", Arch: architecture})
	}
	for name, on := range map[string][]program.Target{program.Scheduler: linux, program.Agent: linux, program.Plugin: r.Plugins} {
		modules := map[string]program.Module{}
		for _, target := range on {
			linked, err := program.Linked(ctx, r.Root, name, target)
			if err != nil {
				return err
			}
			for _, module := range linked {
				modules[module.Path] = module
			}
		}
		bom := cyclonedx.NewBOM()
		bom.Metadata = &cyclonedx.Metadata{Timestamp: r.Of.At.Format(time.RFC3339), Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeApplication, BOMRef: name, Name: name, Version: r.Of.Version, Licenses: licences([]string{"Apache-2.0"}),
		}}
		var parts []cyclonedx.Component
		var references []string
		for _, path := range slices.Sorted(maps.Keys(modules)) {
			module := modules[path]
			version := module.Version
			if version == "" {
				version = "v" + r.Of.Version // of this repository
			}
			purl := "pkg:golang/" + path + "@" + version
			references = append(references, purl)
			parts = append(parts, cyclonedx.Component{
				Type: cyclonedx.ComponentTypeLibrary, BOMRef: purl, Name: path, Version: version, PackageURL: purl, Licenses: licences(module.IDs()),
			})
		}
		bom.Components, bom.Dependencies = &parts, &[]cyclonedx.Dependency{{Ref: name, Dependencies: &references}}
		var text bytes.Buffer
		if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
			return err
		}
		if err := r.write(bomOf(name), text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func bomOf(program string) string { return program + ".cdx.json" }

// licences returns licences by their identifiers, and by name what has none.
func licences(ids []string) *cyclonedx.Licenses {
	var all cyclonedx.Licenses
	for _, id := range ids {
		licence := &cyclonedx.License{ID: id}
		if id == program.PatentGrant {
			licence = &cyclonedx.License{Name: id}
		}
		all = append(all, cyclonedx.LicenseChoice{License: licence})
	}
	return &all
}

// provenance writes from what, and by what, the release was made: the predicate of slsa.dev/spec/v1.0/provenance.
func (r *Release) provenance(context.Context) error {
	type object map[string]any
	from := r.Variables.Get(repository)
	text, err := json.MarshalIndent(object{
		"buildDefinition": object{
			"buildType":            from + "/blob/" + r.Of.Commit + "/docs/release.md",
			"externalParameters":   object{"command": "make release VERSION=" + r.Of.Version},
			"resolvedDependencies": []object{{"uri": "git+" + from, "digest": object{"gitCommit": r.Of.Commit}}},
		},
		"runDetails": object{"builder": object{"id": r.Variables.Get(builder)}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return r.write(provenance, append(text, '\n'))
}
