// Gotest runs "go test" with its arguments and prints what that prints, each package's line as soon as it is there, and
// beside it the tests that were skipped, each with its reason: go test says nothing of them. They are also appended to the
// file $SKIPS, so that one list ends a run of several parts. A test that took long is named when it has passed. The last lines
// say which tests failed, and why: what a failed test prints can be long.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// event is a line of "go test -json"; see "go doc test2json".
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// slow is how many seconds a test takes that is named, so that what makes a run long is seen in it.
const slow = 30

// report is what is known of a run.
type report struct {
	out io.Writer
	// output is what tests have printed that have not ended, by package and test, in the order of the first line.
	output map[string][]string
	skips  []string
	// failures say which tests failed, and what each said first.
	failures []string
}

func (r *report) take(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(r.out, "%s\n", line) // of the go command itself
		return
	}
	test := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
		fmt.Fprint(r.out, e.Output)
	case e.Action == "output" && e.Test != "":
		r.output[test] = append(r.output[test], e.Output)
	case e.Action == "skip" && e.Test != "":
		r.skips = append(r.skips, fmt.Sprintf("skipped: %s: %s", test, reason(r.output[test])))
		delete(r.output, test)
	case e.Action == "fail" && e.Test != "":
		r.show(test)
	case e.Action == "pass" && e.Test != "":
		delete(r.output, test)
		if e.Elapsed >= slow && !strings.Contains(e.Test, "/") {
			fmt.Fprintf(r.out, "slow: %s: %.0f s\n", test, e.Elapsed)
		}
	case e.Action == "fail": // tests that never ended, as after a panic or a timeout
		var left []string
		for test := range r.output {
			if strings.HasPrefix(test, e.Package+" ") {
				left = append(left, test)
			}
		}
		slices.Sort(left)
		for _, test := range left {
			r.show(test)
		}
	}
}

func (r *report) show(test string) {
	r.failures = append(r.failures, fmt.Sprintf("failed: %s: %s", test, cause(r.output[test])))
	fmt.Fprint(r.out, strings.Join(r.output[test], ""))
	delete(r.output, test)
}

// said is a line that a test has printed by itself; maxCauses of them, of maxCause bytes each, say why it failed.
var said = regexp.MustCompile(`^ +\w+_test\.go:\d+: `)

const maxCauses, maxCause = 4, 300

// cause is what a failed test said, without what it called has said; else the last line.
func cause(output []string) string {
	var words []string
	for _, line := range output {
		if said.MatchString(line) && len(words) < maxCauses {
			line = strings.TrimSpace(line)
			words = append(words, line[:min(len(line), maxCause)])
		}
	}
	if len(words) == 0 && len(output) > 0 {
		words = append(words, strings.TrimSpace(output[len(output)-1]))
	}
	return strings.Join(words, "; ")
}

// reason is what a skipped test said, without the frame that go test puts around it.
func reason(output []string) string {
	var words []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			words = append(words, line)
		}
	}
	return strings.Join(words, " ")
}

// run runs go test, and returns its error.
func (r *report) run(arguments []string) error {
	command := exec.Command("go", append([]string{"test", "-json"}, arguments...)...)
	command.Stderr = os.Stderr
	lines, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	reader := bufio.NewReader(lines)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			r.take(line)
		}
		if err != nil {
			break // the end, or what Wait says
		}
	}
	return command.Wait()
}

// record prints the failed and the skipped tests, and appends the skipped ones to a file, if one is named.
func (r *report) record(path string) error {
	for _, failure := range r.failures {
		fmt.Fprintln(r.out, failure)
	}
	if len(r.skips) == 0 {
		return nil
	}
	text := strings.Join(r.skips, "\n") + "\n"
	fmt.Fprint(r.out, text)
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

func main() {
	r := &report{out: os.Stdout, output: map[string][]string{}}
	err := errors.Join(r.run(os.Args[1:]), r.record(os.Getenv("SKIPS")))
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}
