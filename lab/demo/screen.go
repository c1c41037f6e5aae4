package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// output is the terminal: lines with the time since the start and with who they are about. Any goroutine may write.
type output struct {
	out   io.Writer
	start time.Time

	mu   sync.Mutex
	last time.Time
}

func newScreen(out io.Writer) *output {
	now := time.Now()
	return &output{out: out, start: now, last: now}
}

// say writes one line, after the name of its subject.
func (s *output) say(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	fmt.Fprintf(s.out, "%6.1fs  %-11s %s\n", time.Since(s.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// title writes a headline.
func (s *output) title(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "\n%s\n%s\n", text, strings.Repeat("-", len(text)))
}

// heartbeat says now and then that something still goes on while no other line is written, until the result is called.
func (s *output) heartbeat(who, doing string) (stop func()) {
	const every = 15 * time.Second
	ticker, done := time.NewTicker(every), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			s.mu.Lock()
			quiet := time.Since(s.last)
			s.mu.Unlock()
			if quiet >= every {
				s.say(who, "still %s", doing)
			}
		}
	})
	return func() { close(done); ended.Wait() }
}

// writer turns what another program prints into lines about it.
func (s *output) writer(who string) io.Writer { return &lines{screen: s, who: who} }

// lines cuts a stream into lines.
type lines struct {
	screen *output
	who    string

	mu   sync.Mutex
	rest []byte
}

// Write implements io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		l.screen.say(l.who, "%s", bytes.TrimSpace(line))
		l.rest = rest
	}
}
