package version

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// TestChartInstallsThis: the chart's appVersion is also the tag of the image that it asks for.
func TestChartInstallsThis(t *testing.T) {
	chart, err := os.ReadFile(filepath.Join("..", "..", "charts", "tutti", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nappVersion: " + Number() + "\n"; !strings.Contains(string(chart), want) {
		t.Errorf("version.txt says %s, and Chart.yaml has no %q", Number(), want)
	}
	if !strings.HasPrefix(Version(), Number()) || !strings.Contains(Version(), "with go") {
		t.Errorf("the version is %q", Version())
	}
}

func TestRevision(t *testing.T) {
	build := &debug.BuildInfo{}
	if got := revisionOf(build); got != "" {
		t.Errorf("revision %q of a build without one", got)
	}
	build.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	if got := revisionOf(build); got != "0123456789ab+" {
		t.Errorf("revision %q", got)
	}
}
