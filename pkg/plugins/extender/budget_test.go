package extender

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// slowExtender answers each call after a while of virtual time; kinds of pods differ in how much of example.com/kind they want.
type slowExtender struct {
	*server
	mu      sync.Mutex
	now     time.Time
	profile *engine.Profile
}

func newSlowExtender(t *testing.T, takes time.Duration, ignorable bool) *slowExtender {
	t.Helper()
	e := &slowExtender{now: start}
	e.server = serve(t, func(string, string) (int, string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.now = e.now.Add(takes)
		return http.StatusOK, `{"NodeNames":["a"]}`
	})
	clock := func() time.Time {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.now
	}
	options := Options{URLPrefix: e.prefix(), FilterVerb: "filter", NodeCacheCapable: true, Ignorable: ignorable}
	factory, err := newFactory([]Options{options}, framework.NewBudget[requestKey](cycleBudget, clock))
	if err != nil {
		t.Fatal(err)
	}
	e.profile = &engine.Profile{Tiers: []engine.Tier{{{Factory: factory}}}}
	return e
}

// cycle asks about tasks in their order, and returns the names of those that have a node, and the reasons of the others.
func (e *slowExtender) cycle(tasks []*model.Task) (placed []string, reasons []string) {
	session := engine.Open(cluster("a"), e.profile, engine.Options{})
	defer session.Close()
	for _, task := range tasks {
		if got := chosen(session, task); got == "a" {
			placed = append(placed, task.Name)
		} else if !slices.Contains(reasons, got) {
			reasons = append(reasons, got)
		}
	}
	return placed, reasons
}

func kindsOf(namespace string, n int) (tasks []*model.Task) {
	for i := range n {
		one := task(fmt.Sprint(namespace, i), "example.com/kind", fmt.Sprint(i+1))
		one.Namespace, one.Pod.Namespace = namespace, namespace
		tasks = append(tasks, one)
	}
	return tasks
}

// TestTheCallsOfACycleHaveABudget: the pods that are not asked about wait with a reason that says so, and come before the others
// in the next cycle; when all were asked about, the first are again.
func TestTheCallsOfACycleHaveABudget(t *testing.T) {
	e := newSlowExtender(t, 2*time.Second, false)
	tasks := kindsOf("n", 8)
	why := []string{"; 1 node: extender " + e.prefix() + ": filter: not asked in this cycle, since other pods used its 5s for calls of " +
		"extenders; asked in a later one evictable=false expires=true"}
	for i, want := range []string{"n0 n1 n2", "n3 n4 n5", "n6 n7", "n0 n1 n2", "n3 n4 n5"} {
		placed, reasons := e.cycle(tasks)
		if got := strings.Join(placed, " "); got != want || !slices.Equal(reasons, why) {
			t.Errorf("cycle %d: asked about %s, want %s; the others %q", i+1, got, want, reasons)
		}
		if n := e.count("filter"); n != len(placed) {
			t.Errorf("cycle %d: %d calls", i+1, n)
		}
	}
	if placed, reasons := e.cycle(tasks[6:]); len(placed) != 2 || reasons != nil {
		t.Errorf("with two kinds left: %q, %q", placed, reasons)
	}
	if placed, _ := e.cycle(tasks[6:]); len(placed) != 2 {
		t.Errorf("when all were asked about in the last cycle: %q", placed)
	}
}

// TestTheLastCallOfACycleHasLittleMore than what is left of the budget. That it is cut off is no failure of the extender, and
// the pods are asked about in the next cycle, first and with the whole time.
func TestTheLastCallOfACycleHasLittleMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &extenderClient{options: Options{URLPrefix: "http://e", Timeout: maxTimeout}, client: &http.Client{Transport: mute{}}}
		before := time.Duration(0)
		b := framework.NewBudget[requestKey](cycleBudget, func() time.Time { return time.Now().Add(before) })
		b.Do(requestKey{namespace: "m"}, "m", func() { before = 4 * time.Second })
		kind, began := requestKey{namespace: "n"}, time.Now()
		if _, err := ask[string](r, cycle{start, b}, kind, "filter", "q"); err == nil || !strings.Contains(err.Error(), "asked in a later one") {
			t.Errorf("cut off: %v", err)
		}
		if took := time.Since(began); took != 2*time.Second || r.failures != 0 || !r.backoffUntil.IsZero() {
			t.Errorf("it took %s, and counts as a failure of the extender: %d, %s", took, r.failures, r.backoffUntil)
		}
		if b.Begin(); !b.Admit(kind, "n") || b.Timeout(maxTimeout) != maxTimeout {
			t.Error("the pods are not asked about in the next cycle")
		}
	})
}

// mute is an extender that never answers.
type mute struct{}

func (mute) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// TestANamespaceWithManyKindsDelaysOthersByOneCycle at a time, although its pods come first in each, and those of the others have
// more than one turn before all of its have had one.
func TestANamespaceWithManyKindsDelaysOthersByOneCycle(t *testing.T) {
	e := newSlowExtender(t, 2*time.Second, false)
	tasks := slices.Concat(kindsOf("flood", 30), kindsOf("quiet", 4), kindsOf("calm", 1))
	for i, want := range []string{
		"flood0 flood1 flood2", "quiet0 quiet1 quiet2", "calm0", "flood3 flood4 flood5", "calm0", "quiet3 calm0", "quiet0 quiet1 quiet2",
		"calm0", "flood6 flood7 flood8",
	} {
		if placed, _ := e.cycle(tasks); strings.Join(placed, " ") != want {
			t.Errorf("cycle %d: asked about %s, want %s", i+1, placed, want)
		}
	}
}

// TestAnIgnorableExtenderKeepsNoPodWaitingForItsTurn: without an answer the pod goes where it fits.
func TestAnIgnorableExtenderKeepsNoPodWaitingForItsTurn(t *testing.T) {
	e := newSlowExtender(t, 10*time.Second, true)
	if placed, reasons := e.cycle(kindsOf("n", 3)); len(placed) != 3 || e.count("filter") != 1 {
		t.Errorf("placed %q, %q", placed, reasons)
	}
}
