package hooks

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestConnectingTakesNoLongerThanItMay: no listener, and a listener that does not answer.
func TestConnectingTakesNoLongerThanItMay(t *testing.T) {
	dir, err := os.MkdirTemp("", "nri")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "nri.sock")
	timer := clocktesting.NewFakeClock(time.Unix(0, 0))
	h, _ := newHooks(t, nil)
	if _, err := h.Connect(t.Context(), socket, timer, time.Second); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrStuck) {
		t.Errorf("no listener: %v", err)
	}

	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connected := make(chan error, 1)
	go func() {
		_, err := h.Connect(t.Context(), socket, timer, time.Second)
		connected <- err
	}()
	silent, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	err = wait.PollUntilContextCancel(t.Context(), time.Millisecond, true,
		func(context.Context) (bool, error) { return timer.HasWaiters(), nil })
	if err != nil {
		t.Fatal(err)
	}
	timer.Step(time.Second)
	if err := <-connected; !errors.Is(err, ErrStuck) {
		t.Errorf("a silent peer: %v", err)
	}
}
