package binaries

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// heartbeat is how often a long step says that it lives.
const heartbeat = 20 * time.Second

// watch runs a command whose error output is one line per step, as that of `go build -v` is, and tells out now and
// then how far it is. Its error carries the last lines.
func watch(cmd *exec.Cmd, out io.Writer, label, doing string) error {
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("output of %s: %w", cmd.Path, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(pipe); scanner.Scan(); {
			lines <- scanner.Text()
		}
		// A line too long for the scanner ends it; the command must not block on a full pipe.
		_, _ = io.Copy(io.Discard, pipe)
	}()

	start, ticker := time.Now(), time.NewTicker(heartbeat)
	defer ticker.Stop()
	count, last := 0, []string(nil)
	for open := true; open; {
		select {
		case line, more := <-lines:
			if open = more; more {
				count++
				last = append(last[max(0, len(last)-9):], line)
			}
		case <-ticker.C:
			now := ""
			if len(last) > 0 {
				now = ", now " + last[len(last)-1]
			}
			elapsed := time.Since(start).Round(time.Second)
			fmt.Fprintf(out, "%s: still %s after %s, %d steps%s\n", label, doing, elapsed, count, now)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w:\n    %s", strings.Join(cmd.Args[:2], " "), err, strings.Join(last, "\n    "))
	}
	return nil
}
