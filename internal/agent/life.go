package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/internal/agent/kubelet"
	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

const (
	// lookPeriod is how often the machine and the node are read, and containers checked.
	lookPeriod = 30 * time.Second
	// retryPeriod is the delay after a failure.
	retryPeriod = 5 * time.Second
	// firstRedial and lastRedial are the first and the longest delay after a lost or failed connection; it doubles each time.
	firstRedial = time.Second
	lastRedial  = 15 * time.Second
)

// Task is what the agent has to do next.
type Task int

// The tasks, the most urgent first.
const (
	// Idle is no task for a while.
	Idle Task = iota
	// Discover is to read the machine and the kubelet's policy.
	Discover
	// Dial is to connect to the runtime.
	Dial
	// Hangup is to end the connection, since a new one lists the sandboxes again.
	Hangup
	// Read is to read the node.
	Read
	// Publish is to write the annotation.
	Publish
	// Renew is to renew the Lease.
	Renew
	// Check is to compare the CPUs of containers with those they should have.
	Check
)

// String is the task's name, in logs.
func (d Task) String() string {
	return [...]string{"rest", "look", "dial", "hang up", "read", "publish", "renew", "check"}[d]
}

// Local is what Discover found on the machine.
type Local struct {
	// Topology lacks the node's part and a generation.
	Topology *isolated.Topology
	// Problems are why nothing may be offered or started here.
	Problems []string
}

// State is the agent's state: what it knows, and when each task is due. It does no I/O and reads no clock. One goroutine
// drives it.
//
// Invariant: Renew is due only while synchronized, with the last topology found published, and without a problem.
//
// Invariant: a CPU is published as isolated only after the runtime was asked to keep ordinary containers off it.
type State struct {
	// asked is the mode that the operator set; empty to find out.
	asked isolated.Mode
	local *Local
	node  *publish.Node
	// wanted is what should be published; nil while unknown.
	wanted *isolated.Topology
	// written reports whether it is published.
	written bool

	linked, synchronized bool
	// doubted reports whether the runtime may have ended a pod without an event; see hooks.Link.
	doubted bool
	// behind reports whether ordinary containers may still run on newly isolated CPUs, until a check has moved them.
	behind bool
	redial time.Duration
	// due are the times of the tasks; a zero time is due immediately.
	due [Check + 1]time.Time
	// renewed is when the Lease was renewed.
	renewed time.Time
}

// NewLife returns a State in which every task is still to be done.
func NewLife(asked isolated.Mode) *State {
	return &State{asked: asked, redial: firstRedial}
}

// Next returns the task that is due, or Idle and how long until one is.
func (l *State) Next(now time.Time) (Task, time.Duration) {
	wait := lookPeriod
	for duty := Discover; duty <= Check; duty++ {
		if !l.has(duty) {
			continue
		}
		left := l.due[duty].Sub(now)
		if left <= 0 {
			return duty, 0
		}
		wait = min(wait, left)
	}
	return Idle, wait
}

// has reports whether a task exists in this state, now or later.
func (l *State) has(duty Task) bool {
	switch duty {
	case Discover:
		return true
	case Read:
		return l.local != nil
	case Dial:
		return l.local != nil && !l.linked
	case Hangup:
		return l.synchronized && l.doubted
	case Publish:
		// A problem is published without a runtime: it withdraws an offer.
		return l.wanted != nil && !l.written && (l.synchronized && !l.behind || len(l.wanted.Problems) > 0)
	case Renew:
		return l.synchronized && l.written && len(l.wanted.Problems) == 0
	case Check:
		return l.synchronized
	}
	return false
}

// done sets when a task is due again: after the period, or soon where it has failed. It reports whether it has not.
func (l *State) done(duty Task, now time.Time, period time.Duration, err error) bool {
	if err != nil {
		period = retryPeriod
	}
	l.due[duty] = now.Add(period)
	return err == nil
}

// ConnectFailing reports whether connecting to the runtime has failed for some time.
func (l *State) ConnectFailing() bool { return !l.linked && l.redial == lastRedial }

// OnDiscovered takes the result of Discover. After an error the previous result stands, and it is tried again soon.
func (l *State) OnDiscovered(now time.Time, local *Local, err error) {
	if !l.done(Discover, now, lookPeriod, err) {
		return
	}
	if l.linked && widensIsolation(l.local, local) {
		l.behind, l.due[Check] = true, time.Time{}
	}
	l.local = local
	l.computeTopology()
}

// widensIsolation reports whether ordinary containers must be kept off additional CPUs. On a node with problems they are kept
// off none.
func widensIsolation(before, after *Local) bool {
	switch {
	case len(after.Problems) > 0:
		return false
	case len(before.Problems) > 0:
		return true
	}
	return !after.Topology.Isolated.Within(before.Topology.Isolated)
}

// ReadNode takes the result of Read.
func (l *State) ReadNode(now time.Time, node *publish.Node, err error) {
	if !l.done(Read, now, lookPeriod, err) {
		return
	}
	if l.node == nil || l.node.Published != node.Published {
		l.written = false // Publish finds out whether it is what is wanted
	}
	l.node = node
	l.computeTopology()
}

// computeTopology computes what should be published.
func (l *State) computeTopology() {
	if l.local == nil || l.node == nil {
		return
	}
	t := *l.local.Topology
	var problem string
	t.Mode, problem = kubelet.Mode(l.node.Capacity, l.node.Allocatable, t.Isolated.Len(), l.asked)
	t.Problems = slices.Clone(l.local.Problems)
	if problem != "" {
		t.Problems = append(t.Problems, problem)
	}
	if l.wanted == nil || !same(l.wanted, &t) {
		l.wanted, l.written = &t, false
		l.due[Publish] = time.Time{}
	}
}

func same(a, b *isolated.Topology) bool {
	one, err := a.Text()
	other, problem := b.Text()
	return err == nil && problem == nil && one == other
}

// Wanted returns what should be published, and what is published.
func (l *State) Wanted() (topology *isolated.Topology, published string) {
	return l.wanted, l.node.Published
}

// Published takes the result of Publish: the annotation's present text.
func (l *State) Published(now time.Time, text string, err error) {
	if l.done(Publish, now, 0, err) {
		l.written, l.node.Published = true, text
	}
}

// Dialed takes the result of Dial.
func (l *State) Dialed(now time.Time, err error) {
	if err != nil {
		l.due[Dial] = now.Add(l.redial)
		l.redial = min(2*l.redial, lastRedial)
		return
	}
	l.linked, l.behind = true, false // synchronization will place every container
}

// Synchronized records that the runtime has reported all running containers. A second call changes nothing.
func (l *State) Synchronized(now time.Time) {
	if !l.linked || l.synchronized {
		return
	}
	l.synchronized, l.redial = true, firstRedial
	l.due[Renew] = time.Time{}
	if l.due[Check] = now.Add(lookPeriod); l.behind {
		l.due[Check] = time.Time{}
	}
}

// Doubted records that the runtime may have ended a pod without an event. The connection ends a little later, so that the
// answers under way are sent. A second call changes nothing.
func (l *State) Doubted(now time.Time) {
	if !l.doubted {
		l.doubted, l.due[Hangup] = true, now.Add(retryPeriod)
	}
}

// Lost records that the connection to the runtime is lost.
func (l *State) Lost(now time.Time) {
	l.linked, l.synchronized, l.doubted = false, false, false
	l.due[Dial] = now.Add(l.redial)
	l.redial = min(2*l.redial, lastRedial)
}

// Renewed takes the result of Renew.
func (l *State) Renewed(now time.Time, err error) {
	if l.done(Renew, now, publish.Period, err) {
		l.renewed = now
	}
}

// Checked takes the result of Check: whether containers were compared, and the runtime asked to move those on the wrong CPUs.
func (l *State) Checked(now time.Time, err error) {
	if l.done(Check, now, lookPeriod, err) {
		l.behind = false
	}
}

// Ready returns why the node's isolated CPUs cannot be used, or nil.
func (l *State) Ready(now time.Time) error {
	switch {
	case l.local == nil:
		return errors.New("the machine's CPUs could not be read")
	case len(l.local.Problems) > 0:
		return errors.New(l.local.Problems[0])
	case l.wanted != nil && len(l.wanted.Problems) > 0:
		return errors.New(l.wanted.Problems[0])
	case !l.synchronized:
		return errors.New("not connected to the container runtime's NRI")
	case !l.written:
		return errors.New("the node's annotation is not written")
	case now.Sub(l.renewed) > publish.Expiry:
		return fmt.Errorf("the Lease has not been renewed for %s", publish.Expiry)
	}
	return nil
}
