package profile

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const listing = `File: lab
Type: cpu
Duration: 561.40ms, Total samples = 700ms (124.70%)
Showing nodes accounting for 700ms, 100% of 700ms total
      flat  flat%   sum%        cum   cum%
         0     0%     0%      500ms 71.43%  main.main
      70ms 10.00% 10.00%      350ms 50.00%  github.com/tutti-sched/tutti/pkg/engine.Run (inline)
      35ms  5.00% 15.00%       35ms  5.00%  runtime.mallocgc
`

func TestParse(t *testing.T) {
	lines, seconds, err := parse(listing, 10, regexp.MustCompile(`tutti/pkg|^runtime\.`))
	if err != nil || seconds != 0.7 || len(lines) != 2 {
		t.Fatalf("%v s, %+v, %v", seconds, lines, err)
	}
	if want := (Line{Function: "github.com/tutti-sched/tutti/pkg/engine.Run", Self: 10, All: 50}); lines[0] != want {
		t.Errorf("%+v; want %+v", lines[0], want)
	}
	if lines, _, err = parse(listing, 1, regexp.MustCompile(".")); err != nil || len(lines) != 1 {
		t.Errorf("%+v, %v; want one line", lines, err)
	}
	text := table("x", lines, 0.7)
	for _, want := range []string{"### x", "0.70 s", "| `main.main` | 71.4 % | 0.0 % |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestRecordsAreJoined records this process twice.
func TestRecordsAreJoined(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"1.pprof", "2.pprof"} {
		stop, err := Start(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	joined := filepath.Join(dir, "joined")
	if err := Merge(t.Context(), dir, joined); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Top(t.Context(), joined, 5, regexp.MustCompile(".")); err != nil {
		t.Error(err)
	}
	if err := Merge(t.Context(), t.TempDir(), joined); err == nil {
		t.Error("nothing recorded is no error")
	}
}
