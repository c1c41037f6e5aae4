// Package version holds the version of Tutti that a program is built from. The number is an embedded file, so that it does
// not depend on how the program was built; a test compares it with the chart's appVersion. No decision may depend on it.
package version

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

//go:embed version.txt
var number string

// Number returns the version, such as 0.1.0.
func Number() string { return strings.TrimSpace(number) }

// Version returns the version and what it was built with, for messages: "0.1.0 with go1.26.8", and the revision if the build
// has one.
func Version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return Number()
	}
	text := Number()
	if revision := revisionOf(build); revision != "" {
		text += " (" + revision + ")"
	}
	return text + " with " + build.GoVersion
}

// revisionOf returns the revision of the source, with a + where that was changed; empty when the build has none.
func revisionOf(build *debug.BuildInfo) string {
	var revision, changed string
	for _, setting := range build.Settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value[:min(len(setting.Value), 12)]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = "+"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}
