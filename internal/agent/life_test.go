package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

// world carries out every task of a State immediately, with preset outcomes.
type world struct {
	life *State
	now  time.Time
	// The machine and the cluster.
	isolated    isolated.CPUSet
	problems    []string
	allocatable int64
	annotation  string
	// The failures.
	noMachine, noServer, noRuntime bool
	// stuck is a runtime that moves no container.
	stuck bool
	// connected and synchronized are the true state of the connection.
	connected, synchronized bool
	leased                  time.Time
	// seen are the isolated CPUs of the last Discover, told those that ordinary containers were last kept off: by a
	// synchronization or a check, of a node that is not closed.
	seen, told isolated.CPUSet
	closed     bool
}

var errOutOfOrder = errors.New("out of order")

func newWorld() *world {
	return &world{
		life: NewLife(""), now: time.Unix(1000, 0).UTC(), isolated: isolated.NewCPUSet(2, 3), allocatable: 3500, // of 4000
	}
}

func orderly(broken bool) error {
	if broken {
		return errOutOfOrder
	}
	return nil
}

// run carries out tasks until none is due, and returns them.
func (w *world) run() string {
	var done []string
	for {
		duty, _ := w.life.Next(w.now)
		if duty == Idle || len(done) > 20 {
			return strings.Join(done, " ")
		}
		done = append(done, duty.String())
		w.do(duty)
	}
}

func (w *world) do(duty Task) {
	switch duty {
	case Discover:
		if !w.noMachine {
			if w.seen, w.closed = w.isolated, len(w.problems) > 0; w.closed {
				w.told = isolated.CPUSet{} // ordinary containers start on any CPU now
			}
		}
		w.life.OnDiscovered(w.now, &Local{Topology: w.topology(), Problems: w.problems}, orderly(w.noMachine))
	case Dial:
		w.connected = !w.noRuntime
		w.life.Dialed(w.now, orderly(w.noRuntime))
	case Hangup:
		w.lose()
	case Read:
		node := &publish.Node{Capacity: 4000, Allocatable: w.allocatable, Published: w.annotation}
		w.life.ReadNode(w.now, node, orderly(w.noServer))
	case Publish:
		wanted, _ := w.life.Wanted()
		if !w.noServer {
			w.annotation, _ = wanted.Text()
		}
		w.life.Published(w.now, w.annotation, orderly(w.noServer))
	case Renew:
		if !w.noServer {
			w.leased = w.now
		}
		w.life.Renewed(w.now, orderly(w.noServer))
	case Check:
		if !w.stuck {
			w.tell()
		}
		w.life.Checked(w.now, orderly(w.stuck))
	}
}

func (w *world) topology() *isolated.Topology {
	return &isolated.Topology{Version: 1, Isolated: w.isolated, Online: isolated.NewCPUSet(0, 1, 2, 3), ThreadsPerCore: 1,
		NUMA: []isolated.NUMANode{{CPUs: w.isolated, Cores: []isolated.CPUSet{w.isolated}}}}
}

func (w *world) synchronize() {
	if w.connected && !w.synchronized {
		w.tell()
	}
	w.synchronized = w.connected
	w.life.Synchronized(w.now)
}

func (w *world) tell() {
	if w.told = w.seen; w.closed {
		w.told = isolated.CPUSet{}
	}
}

func (w *world) lose() {
	w.connected, w.synchronized = false, false
	w.life.Lost(w.now)
}

// after advances the time, without any task in between.
func (w *world) after(seconds int) string {
	w.now = w.now.Add(time.Duration(seconds) * time.Second)
	return w.run()
}

func did(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("did %q, want %q", got, want)
	}
}

func TestNothingIsOfferedBeforeItIsEnforced(t *testing.T) {
	w := newWorld()
	did(t, w.run(), "look dial read")
	did(t, w.after(9), "")
	if err := w.life.Ready(w.now); err == nil {
		t.Error("ready without the runtime")
	}
	w.synchronize()
	did(t, w.run(), "publish renew")
	if err := w.life.Ready(w.now); err != nil {
		t.Error(err)
	}
	w.synchronize() // synchronized again
	did(t, w.run(), "")
	did(t, w.after(10), "renew")
	did(t, w.after(10), "renew")
	did(t, w.after(1), "look read")
	did(t, w.after(9), "renew check")
}

func TestWithoutTheRuntimeTheLeaseRunsOut(t *testing.T) {
	w := newWorld()
	w.run()
	w.synchronize()
	w.run()
	w.noRuntime = true
	w.lose()
	var dials []int
	second := 0
	for ; second < 60; second++ {
		if done := w.after(1); strings.Contains(done, "dial") {
			dials = append(dials, second+1)
		} else if strings.Contains(done, "renew") || strings.Contains(done, "check") {
			t.Errorf("did %q without a runtime", done)
		}
	}
	if len(dials) < 6 || dials[0] != 1 || dials[1] != 3 || dials[2] != 7 || dials[3] != 15 || dials[4] != 30 {
		t.Errorf("dialed after %v seconds", dials)
	}
	if err := w.life.Ready(w.now); err == nil {
		t.Error("ready without the runtime")
	}
	w.noRuntime = false
	did(t, w.after(15), "dial")
	w.synchronize()
	did(t, w.run(), "renew")
}

// TestADoubtfulConnectionEnds once, and the runtime is synchronized again over a new one.
func TestADoubtfulConnectionEnds(t *testing.T) {
	w := newWorld()
	w.run()
	w.synchronize()
	w.run()
	w.life.Doubted(w.now)
	w.life.Doubted(w.now.Add(time.Second))
	did(t, w.run(), "") // answers to the runtime are pending
	did(t, w.after(5), "hang up")
	did(t, w.after(1), "dial")
	w.synchronize()
	did(t, w.run(), "renew")
	did(t, w.after(9), "")
}

// TestAProblemTakesTheOfferBack, whether or not there is a runtime.
func TestAProblemTakesTheOfferBack(t *testing.T) {
	w := newWorld()
	w.problems = []string{"cpuManagerPolicy=static"}
	did(t, w.run(), "look dial read publish")
	if !strings.Contains(w.annotation, "cpuManagerPolicy=static") {
		t.Errorf("published %s", w.annotation)
	}
	w.synchronize()
	did(t, w.run(), "")
	if err := w.life.Ready(w.now); err == nil || err.Error() != "cpuManagerPolicy=static" {
		t.Errorf("ready: %v", err)
	}
	w.problems = nil
	did(t, w.after(30), "look read check publish renew") // no container was moved while it was closed
	w.allocatable = 2000
	did(t, w.after(30), "look read publish check")
	if !strings.Contains(w.annotation, "set it with --mode") || !w.leased.Before(w.now) {
		t.Errorf("published %s, leased at %s", w.annotation, w.leased)
	}
}

// TestWithoutTheServerContainersAreKept: enforcement does not depend on the API server.
func TestWithoutTheServerContainersAreKept(t *testing.T) {
	w := newWorld()
	w.noServer = true
	did(t, w.run(), "look dial read")
	w.synchronize()
	did(t, w.after(5), "read")
	did(t, w.after(5), "read")
	w.noServer = false
	did(t, w.after(5), "read publish renew")
	w.noServer = true
	did(t, w.after(10), "renew")
	did(t, w.after(5), "look renew check") // a failed renewal is tried again sooner
	w.noServer = false
	w.annotation = "" // another client removed it meanwhile
	w.after(60)
	if !strings.Contains(w.annotation, `"isolated":"2-3"`) || w.leased != w.now {
		t.Errorf("published %q, leased at %s, now %s", w.annotation, w.leased, w.now)
	}
}

func TestWhatWasReadStandsWhenItCannotBeReadAgain(t *testing.T) {
	w := newWorld()
	w.noMachine = true
	did(t, w.run(), "look")
	did(t, w.after(5), "look")
	w.noMachine = false
	did(t, w.after(5), "look dial read")
	w.synchronize()
	w.run()
	w.noMachine, w.isolated = true, isolated.NewCPUSet(3)
	did(t, w.after(30), "look read renew check")
	w.noMachine = false
	did(t, w.after(5), "look publish")
	did(t, w.after(5), "renew")
}

// TestNothingIsOfferedThatOthersRunOn: ordinary containers are moved off newly isolated CPUs before these are published.
func TestNothingIsOfferedThatOthersRunOn(t *testing.T) {
	w := newWorld()
	w.run()
	w.synchronize()
	w.run()
	w.isolated, w.stuck = isolated.NewCPUSet(1, 2, 3), true
	did(t, w.after(30), "look read check")
	if strings.Contains(w.annotation, `"isolated":"1-3"`) {
		t.Errorf("published %s, and no container was moved", w.annotation)
	}
	w.stuck = false
	did(t, w.after(5), "check publish renew")
	if !strings.Contains(w.annotation, `"isolated":"1-3"`) {
		t.Errorf("published %s", w.annotation)
	}
}

// TestTheLeaseIsNeverALie runs random events in random order: the Lease is renewed only for a node whose runtime is connected
// and synchronized, and whose annotation is up to date.
func TestTheLeaseIsNeverALie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 10).Draw(t, "what") {
			case 0:
				w.noMachine = !w.noMachine
			case 1:
				w.noServer = !w.noServer
			case 2:
				w.noRuntime = !w.noRuntime
			case 3:
				if w.connected {
					w.lose()
				}
			case 4:
				w.synchronize()
			case 5:
				w.problems = nil
				if rapid.Bool().Draw(t, "problem") {
					w.problems = []string{"no"}
				}
			case 6:
				w.isolated = isolated.NewCPUSet(rapid.IntRange(0, 3).Draw(t, "cpu"), 3)
			case 7:
				w.allocatable = int64(rapid.SampledFrom([]int{1500, 3500}).Draw(t, "allocatable"))
			case 8:
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			case 9:
				w.stuck = !w.stuck
			case 10:
				w.life.Doubted(w.now)
			}
			for i := 0; ; i++ {
				duty, _ := w.life.Next(w.now)
				if duty == Idle {
					break
				}
				if i > 20 {
					t.Fatal("there is always something to do")
				}
				w.check(t, duty)
				w.do(duty)
			}
		}
	})
}

func (w *world) check(t *rapid.T, duty Task) {
	switch duty {
	case Renew, Check, Hangup:
		if !w.synchronized {
			t.Fatalf("%s without a runtime", duty)
		}
	case Publish:
		wanted, _ := w.life.Wanted()
		if !w.synchronized && len(wanted.Problems) == 0 {
			t.Fatal("an offer without a runtime")
		}
		if len(wanted.Problems) == 0 && !wanted.Isolated.Within(w.told) {
			t.Fatalf("%s are offered, and others are kept off %s", wanted.Isolated, w.told)
		}
	}
	if duty != Renew {
		return
	}
	published, err := isolated.ParseTopology(w.annotation)
	if err != nil {
		t.Fatalf("renewed with %q: %v", w.annotation, err)
	}
	if wanted, _ := w.life.Wanted(); len(published.Problems) > 0 || published.Isolated != wanted.Isolated {
		t.Fatalf("renewed with %q", w.annotation)
	}
}
