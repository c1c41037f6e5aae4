// Package process starts child processes that cannot outlive the program that started them: not its end, not its
// panic, not a kill -9. The control plane of a lab and the scheduler under test are started with it.
//
// It knows nothing of Kubernetes: what a process is and when it is ready is its caller's business.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Spec says what to run.
type Spec struct {
	// Name is what messages call the process.
	Name string
	// Path is the program's file.
	Path string
	// Args are its arguments, without the program itself.
	Args []string
	// Env is added to the environment of the caller.
	Env []string
	// Dir is its working directory; empty means the caller's.
	Dir string
	// Log is the file that receives both of its outputs. Its folder is made; the file is appended to.
	Log string
}

// Process is a child that has been started. All methods may be called from any goroutine.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read only after done is closed
}

// Start runs the program and returns when it has been started.
//
// Invariant: from here on the child ends at the latest when the caller's process does. The kernel sends it SIGKILL
// when the *thread* that started it ends, so that thread is locked and does nothing but wait for the child.
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o755); err != nil {
		return nil, fmt.Errorf("log folder of %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", spec.Name, err)
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Dir = spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own keeps the terminal's Ctrl-C away from it, and lets Kill reach what it starts itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine, when the child is already gone.
		runtime.LockOSThread()
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return p, nil
}

// Name is the name the process was given.
func (p *Process) Name() string { return p.spec.Name }

// PID is the process id of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogFile is the file that holds its output.
func (p *Process) LogFile() string { return p.spec.Log }

// Done is closed when the child has ended, for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the child ended: nil while it runs and after exit code 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends a signal to the child alone, for those that are expected to end in good order.
func (p *Process) Signal(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("signal %s: %w", p.spec.Name, err)
	}
	return nil
}

// Kill ends the child and whatever it started with SIGKILL and waits until it is gone. To kill it twice does nothing.
func (p *Process) Kill() {
	select {
	case <-p.done:
	default:
		// The group is the child's own. An error means that it has just ended by itself.
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	}
	<-p.done
}

// Failure is an error that says how the child ended, where its log is, and that log's last lines.
func (p *Process) Failure() error {
	state := "still running"
	select {
	case <-p.done:
		state = p.cmd.ProcessState.String()
	default:
	}
	return fmt.Errorf("%s: %s; the end of %s:\n%s", p.spec.Name, state, p.spec.Log, Tail(p.spec.Log, 15))
}

// Tail is the last lines of a file, indented, or what hinders reading them.
func Tail(file string, lines int) string {
	const window = 32 << 10
	f, err := os.Open(file)
	if err != nil {
		return "    " + err.Error()
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return "    " + err.Error()
	}
	from := max(0, size-window)
	text := make([]byte, size-from)
	n, err := f.ReadAt(text, from)
	if err != nil && n == 0 {
		return "    (empty)"
	}
	all := strings.Split(strings.TrimRight(string(text[:n]), "\n"), "\n")
	return "    " + strings.Join(all[max(0, len(all)-lines):], "\n    ")
}
