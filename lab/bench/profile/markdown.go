package profile

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/tutti-sched/tutti/lab/bench/page"
)

// shown is how many functions a table has.
const shown = 25

// Markdown is the part of a page about one record: the functions that took most with what they called, those of the
// measurement itself left out, and among them what the runtime spent on memory.
func Markdown(ctx context.Context, name, file string) (string, error) {
	// The functions of Tutti and kube-scheduler, of client and encoding, and those that allocate and free.
	pattern := regexp.MustCompile(`tutti/pkg/|^k8s\.io/|^runtime\.(mallocgc|gcBgMarkWorker|gcAssistAlloc|mapassign|growslice)|^net/http|^encoding/|^syscall\.|^internal/runtime/syscall`)
	lines, seconds, err := Top(ctx, file, shown, pattern)
	if err != nil {
		return "", err
	}
	return table(name, lines, seconds), nil
}

func table(name string, lines []Line, seconds float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%.2f s of processor time were recorded; %s.\n\n", name, seconds, page.Processor())
	b.WriteString("| function | with what it calls | itself |\n|---|---:|---:|\n")
	for _, line := range lines {
		function := strings.ReplaceAll(line.Function, "github.com/tutti-sched/tutti/", "")
		fmt.Fprintf(&b, "| `%s` | %.1f %% | %.1f %% |\n", function, line.All, line.Self)
	}
	return b.String()
}
