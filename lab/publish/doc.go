// Package publish makes what a release consists of, in a folder, and pushes it from there. The same commit makes the same bytes:
// nothing in the folder depends on the machine or on the time of the build.
//
// The files, in reading order:
//
//	make.go         the steps, and the list of what was made
//	variables.go    what the forge sets: where to push, whom to write to
//	changelog.go    the section of a version
//	oci.go          images and chart, in an OCI layout, and the push
//	plugin.go       archives of kubectl tutti, and its manifest for krew
//	bom.go          which modules are in a program, and how it was made
//	sign.go         the commands that sign and publish, which need a forge
package publish
