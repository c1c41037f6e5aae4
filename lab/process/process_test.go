package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/process"
)

// roleEnv makes this test program play the parent that is killed.
const roleEnv = "TUTTI_LAB_PROCESS_PARENT"

func TestMain(m *testing.M) {
	if log := os.Getenv(roleEnv); log != "" {
		beParent(log)
		return
	}
	os.Exit(m.Run())
}

// beParent starts a child, says its process id, and waits to be killed.
func beParent(log string) {
	p, err := process.Start(sleeper(log))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.PID())
	<-p.Done()
}

// sleeper is a shell that starts a child of its own.
func sleeper(log string) process.Spec {
	return process.Spec{Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "echo awake; sleep 3600; echo done"}, Log: log}
}

func TestChildDiesWithKilledParent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), roleEnv+"="+filepath.Join(t.TempDir(), "log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-child, syscall.SIGKILL) })
	if !lives(child) {
		t.Fatal("the child did not start")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "killed", as was asked
	eventually(t, func() bool { return !lives(child) })
}

func TestKillReachesTheWholeGroup(t *testing.T) {
	p, err := process.Start(sleeper(filepath.Join(t.TempDir(), "log")))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return strings.Contains(process.Tail(p.LogFile(), 1), "awake") })
	p.Kill()
	p.Kill()
	// A group without living members answers "no such process".
	eventually(t, func() bool { return errors.Is(syscall.Kill(-p.PID(), 0), syscall.ESRCH) })
	if p.Err() == nil {
		t.Error("a killed child ended well")
	}
}

func TestFailureShowsTheEndOfTheLog(t *testing.T) {
	p, err := process.Start(process.Spec{
		Name: "brief", Path: "/bin/sh", Args: []string{"-c", "echo one; echo two >&2; exit 3"},
		Log: filepath.Join(t.TempDir(), "deep", "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	for _, want := range []string{"brief: exit status 3", "one\n    two"} {
		if got := p.Failure().Error(); !strings.Contains(got, want) {
			t.Errorf("failure %q lacks %q", got, want)
		}
	}
	if _, err := process.Start(process.Spec{Name: "nothing", Path: "/none", Log: p.LogFile()}); err == nil {
		t.Error("a program that does not exist starts")
	}
}

// lives says whether a process runs; one that only waits to be reaped does not.
func lives(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

func eventually(t *testing.T, ask func() bool) {
	t.Helper()
	err := wait.PollUntilContextCancel(t.Context(), 10*time.Millisecond, true,
		func(context.Context) (bool, error) { return ask(), nil })
	if err != nil {
		t.Fatal(err)
	}
}
