package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc.
const tick = time.Second / 100

// Usage is how much processor time was used up to a moment.
type Usage struct {
	at time.Time
	// all is that of all processes, ours that of this process and its children: the control plane and the scheduler.
	all, ours time.Duration
}

// Used reads the usage now.
func Used() (Usage, error) {
	u := Usage{at: time.Now()}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, fmt.Errorf("processor time: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	// cpu, then user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
	for i, field := range strings.Fields(first) {
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("processor time: %w", err)
		}
		u.all += time.Duration(n) * tick
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return u, fmt.Errorf("processor time: %w", err)
	}
	self := os.Getpid()
	for _, file := range files {
		p, err := readProcess(file)
		if err == nil && (p.id == self || p.parent == self) { // an error means that it has just ended
			u.ours += p.used
		}
	}
	return u, nil
}

// Others is the part of the processors that programs which are not ours used between two moments, 0 to 1.
func Others(from, to Usage) float64 {
	foreign := (to.all - from.all) - (to.ours - from.ours)
	return max(0, foreign.Seconds()/(to.at.Sub(from.at).Seconds()*float64(runtime.NumCPU())))
}

// accounts are what /proc says about a process.
type accounts struct {
	id, parent int
	used       time.Duration
}

// readProcess reads a file such as /proc/17/stat.
func readProcess(file string) (accounts, error) {
	var p accounts
	text, err := os.ReadFile(file)
	if err != nil {
		return p, fmt.Errorf("processor time: %w", err)
	}
	if p.id, err = strconv.Atoi(filepath.Base(filepath.Dir(file))); err != nil {
		return p, fmt.Errorf("processor time: %w", err)
	}
	// The name, in brackets, may hold anything. After it: state, parent, and as 12th and 13th user and system time.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return p, fmt.Errorf("processor time: %w", err)
	}
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return p, fmt.Errorf("processor time: %w", err)
		}
		p.used += time.Duration(n) * tick
	}
	return p, nil
}

// CPUTime is how much processor time a process has used.
func CPUTime(pid int) (time.Duration, error) {
	p, err := readProcess(fmt.Sprintf("/proc/%d/stat", pid))
	return p.used, err
}

// Memory is what a process holds of the machine's memory, in bytes.
type Memory struct{ Now, Peak int64 }

// MemoryOf reads what a process holds now and held at most.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, fmt.Errorf("memory: %w", err)
	}
	return parseMemory(string(text))
}

func parseMemory(text string) (Memory, error) {
	var m Memory
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "VmRSS:" && fields[0] != "VmHWM:" {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return m, fmt.Errorf("memory: %w", err)
		}
		if fields[0] == "VmRSS:" {
			m.Now = n << 10
		} else {
			m.Peak = n << 10
		}
	}
	if m.Now == 0 || m.Peak == 0 {
		return m, errors.New("memory: /proc does not say")
	}
	return m, nil
}
