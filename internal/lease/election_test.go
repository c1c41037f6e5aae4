package lease_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/internal/lease"
)

// machine has the two clocks of a machine.
type machine struct{ now lease.Instant }

func newMachine() *machine {
	return &machine{lease.Instant{Wall: time.Unix(1_700_000_000, 0), Monotonic: time.Minute}}
}

// pass lets time pass.
func (m *machine) pass(span time.Duration) { m.sleep(span); m.now.Monotonic += span }

// sleep lets time pass of which the monotonic clock does not know.
func (m *machine) sleep(span time.Duration) { m.now.Wall = m.now.Wall.Add(span) }

// server stores one Lease.
type server struct {
	stored  *coordinationv1.Lease
	version int
}

var errNoAnswer = errors.New("connection reset by peer")

func (s *server) store(stored *coordinationv1.Lease) {
	s.version++
	s.stored = stored.DeepCopy()
	s.stored.ResourceVersion = strconv.Itoa(s.version)
}

func (s *server) do(request *lease.Request) (*coordinationv1.Lease, error) {
	resource := coordinationv1.Resource("leases")
	switch {
	case request.Verb != lease.Create && s.stored == nil:
		return nil, apierrors.NewNotFound(resource, lease.Name)
	case request.Verb == lease.Create && s.stored != nil:
		return nil, apierrors.NewAlreadyExists(resource, lease.Name)
	case request.Verb == lease.Update && request.Lease.ResourceVersion != s.stored.ResourceVersion:
		return nil, apierrors.NewConflict(resource, lease.Name, errors.New("the object has been modified"))
	case request.Verb != lease.Get:
		s.store(request.Lease)
	}
	return s.stored.DeepCopy(), nil
}

// heldBy stores a Lease that an identity has just renewed, or given up when it is empty.
func (s *server) heldBy(identity string) {
	s.store(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity}})
}

func (s *server) holder() string { return *s.stored.Spec.HolderIdentity }

// candidate is one process of an election, with a machine of its own.
type candidate struct {
	*lease.Election
	*machine
	*testing.T
	server *server
	// takes is how long each request is under way, and answers what becomes of its answer.
	takes   time.Duration
	answers func(*lease.Request, error) error
}

func newCandidate(t *testing.T, s *server) *candidate {
	c := &candidate{machine: newMachine(), T: t, server: s, answers: func(_ *lease.Request, err error) error { return err }}
	c.Election = lease.New("ns", "me", func() lease.Instant { return c.now })
	return c
}

// run lets a span pass in which the candidate does what is due.
func (c *candidate) run(span time.Duration) error {
	for {
		request, wait, err := c.Next()
		switch {
		case err != nil:
			return err
		case request == nil && wait > span:
			c.pass(max(0, span))
			return nil
		case request == nil:
			c.pass(wait)
			span -= wait
		default:
			stored, err := c.server.do(request)
			c.pass(c.takes)
			span -= c.takes
			_ = c.Answer(request, stored, c.answers(request, err))
		}
	}
}

// acquire lets the candidate come to hold the Lease.
func (c *candidate) acquire() {
	c.Helper()
	for range 200 {
		if err := c.run(100 * time.Millisecond); err != nil {
			c.Fatal(err)
		}
		if c.Held() {
			return
		}
	}
	c.Fatal("the Lease is not acquired in 20 s")
}

// wants checks what holds now.
func (c *candidate) wants(mayWrite bool, pause time.Duration, inherited bool) {
	c.Helper()
	gotPause, gotInherited := c.TakeOver()
	if got := c.MayWrite(); got != mayWrite || gotPause != pause || gotInherited != inherited {
		c.Errorf("may write %t, pause %s, inherited %t; want %t, %s, %t", got, gotPause, gotInherited, mayWrite, pause, inherited)
	}
}

func TestNothingIsWrittenBeforeTheLeaseIsHeld(t *testing.T) {
	c := newCandidate(t, &server{})
	c.wants(false, 0, false)
	c.server.heldBy("other")
	if err := c.run(5 * time.Second); err != nil || c.Held() || c.server.holder() != "other" {
		t.Errorf("held %t, by %q: %v", c.Held(), c.server.holder(), err)
	}
	c.wants(false, 0, true)
}

// TestWritesEndBeforeTheLease: what is sent last is answered, or given up, while the Lease still holds. A Lease counts from
// when its renewal was sent.
func TestWritesEndBeforeTheLease(t *testing.T) {
	c := newCandidate(t, &server{})
	c.takes = 100 * time.Millisecond
	c.acquire() // by a get and a create
	c.answers = func(*lease.Request, error) error { return errNoAnswer }
	sent := c.now.Monotonic - c.takes
	for passed := time.Duration(0); passed < 2*lease.Duration; passed = c.now.Monotonic - sent {
		if got, want := c.MayWrite(), passed+lease.RequestTimeout < lease.Duration; got != want {
			t.Fatalf("%s after the renewal was sent: may write is %t", passed, got)
		}
		c.pass(100 * time.Millisecond)
	}
	if _, _, err := c.Next(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("goes on after the Lease has ended: %v", err)
	}
}

func TestOnlyALeaseThatIsHeldIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*candidate)
		gaveUp  bool
	}{
		"just renewed":            {func(c *candidate) { c.pass(time.Second) }, true},
		"not renewed in time":     {func(c *candidate) { c.pass(lease.Duration - lease.RequestTimeout) }, false},
		"another's":               {func(c *candidate) { c.pass(2 * lease.Duration); c.server.heldBy("other") }, false},
		"another's, unknown here": {func(c *candidate) { c.server.heldBy("other") }, false},
		"of an unknown version": {func(c *candidate) {
			c.answers = func(*lease.Request, error) error { return errNoAnswer }
			_ = c.run(time.Second)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			one := newCandidate(t, &server{})
			one.acquire()
			c.happens(one)
			before := one.server.stored
			if request := one.GiveUp(); request != nil {
				_, _ = one.server.do(request)
			}
			if gaveUp := one.server.holder() == ""; gaveUp != c.gaveUp || !gaveUp && one.server.stored != before {
				t.Errorf("given up is %t, want %t; held by %q", gaveUp, c.gaveUp, one.server.holder())
			}
			if _, _, err := one.Next(); one.MayWrite() || !errors.Is(err, lease.ErrLost) {
				t.Errorf("writes, or goes on, after it: %v", err)
			}
		})
	}
}

// TestNoReleaseWithinTheMargin: the one before may have requests under way, which the next one would not wait for.
func TestNoReleaseWithinTheMargin(t *testing.T) {
	c := newCandidate(t, &server{})
	c.server.heldBy("other")
	c.acquire()
	if request := c.GiveUp(); request != nil {
		t.Errorf("gives up %v before it may write", request.Lease.Spec)
	}
}

// TestMachineThatSleeps: the monotonic clock does not know of it. Who was not replaced meanwhile leads on once it has renewed.
func TestMachineThatSleeps(t *testing.T) {
	c := newCandidate(t, &server{})
	c.acquire()
	c.sleep(time.Hour)
	c.wants(false, 0, false)
	if err := c.run(lease.Period); err != nil {
		t.Fatal(err)
	}
	c.wants(true, 0, false)
	c.sleep(time.Hour)
	c.server.heldBy("other")
	if err := c.run(2 * lease.Period); !errors.Is(err, lease.ErrLost) || c.MayWrite() {
		t.Errorf("leads on after another one has: %v", err)
	}
}

// TestWallClockThatIsSetBack does not make the Lease longer.
func TestWallClockThatIsSetBack(t *testing.T) {
	c := newCandidate(t, &server{})
	c.acquire()
	c.sleep(-time.Hour)
	c.pass(lease.Duration - lease.RequestTimeout)
	c.wants(false, 0, false)
}

// TestTakingOver: after a Lease that has expired its last holder's requests are waited for, after one that was given up none
// are.
func TestTakingOver(t *testing.T) {
	for name, c := range map[string]struct {
		before    func(*server)
		pause     time.Duration
		inherited bool
	}{
		"no leader before": {func(*server) {}, 0, false},
		"given up":         {func(s *server) { s.heldBy("") }, 0, true},
		"expired":          {func(s *server) { s.heldBy("other") }, lease.RequestTimeout, true},
		"held before":      {func(s *server) { s.heldBy("me") }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			one := newCandidate(t, &server{})
			c.before(one.server)
			one.acquire()
			pause, inherited := one.TakeOver()
			if c.pause-pause > lease.Period || pause > c.pause || inherited != c.inherited {
				t.Errorf("pause %s, inherited %t, want %s, %t", pause, inherited, c.pause, c.inherited)
			}
			if err := one.run(pause - 1); err != nil || one.MayWrite() != (pause == 0) {
				t.Errorf("may write is %t before the pause is over, %v", one.MayWrite(), err)
			}
			if err := one.run(1); err != nil || !one.MayWrite() {
				t.Errorf("may not write when the pause is over, %v", err)
			}
		})
	}
}

// TestTheMarginBeginsWithTheEndOfTheLease: each renewal of the last holder begins another Lease, and how late its end is
// noticed does not make the hand-over longer.
func TestTheMarginBeginsWithTheEndOfTheLease(t *testing.T) {
	c := newCandidate(t, &server{})
	c.server.heldBy("other")
	_ = c.run(4 * time.Second)
	c.server.heldBy("other")
	_ = c.run(2 * lease.Period) // in which the last renewal is read
	c.pass(lease.Duration + lease.RequestTimeout)
	c.acquire()
	c.wants(true, 0, true)
}

// TestTwoRenewalsInOneSecondAreSeen, also when the holder's clock stands still.
func TestTwoRenewalsInOneSecondAreSeen(t *testing.T) {
	c := newCandidate(t, &server{})
	for range 60 {
		c.server.heldBy("other")
		if err := c.run(lease.Period); err != nil || c.Held() {
			t.Fatalf("held %t, %v", c.Held(), err)
		}
	}
}

// TestALeaseThatWasDeletedIsWaitedFor: its holder, which may be frozen, believes in it until it would have ended.
func TestALeaseThatWasDeletedIsWaitedFor(t *testing.T) {
	c := newCandidate(t, &server{})
	c.server.heldBy("other")
	_ = c.run(0)
	c.pass(3 * time.Second)
	c.server.stored = nil
	c.acquire()
	if pause, inherited := c.TakeOver(); pause < lease.Duration+lease.RequestTimeout-4*time.Second || !inherited || c.MayWrite() {
		t.Errorf("pause %s, inherited %t, may write is %t", pause, inherited, c.MayWrite())
	}
}

// TestAHolderMakesADeletedLeaseAgain and leads on.
func TestAHolderMakesADeletedLeaseAgain(t *testing.T) {
	c := newCandidate(t, &server{})
	c.acquire()
	c.server.stored = nil
	if err := c.run(3 * lease.Period); err != nil || !c.MayWrite() || c.server.holder() != "me" {
		t.Errorf("may write is %t, %v", c.MayWrite(), err)
	}
}

// TestALostReplyDoesNotShortenTheMargin: who reads that it holds the Lease, without an answer that said so, has taken it from
// another all the same.
func TestALostReplyDoesNotShortenTheMargin(t *testing.T) {
	c := newCandidate(t, &server{})
	c.server.heldBy("other")
	lost := false
	c.answers = func(request *lease.Request, err error) error {
		if request.Verb == lease.Update && !lost {
			lost = true
			return errNoAnswer
		}
		return err
	}
	c.acquire()
	if pause, _ := c.TakeOver(); !lost || pause < lease.RequestTimeout-3*lease.Period || c.MayWrite() {
		t.Errorf("pause %s; may write is %t", pause, c.MayWrite())
	}
}

// TestWhoHasLostTheLeaseLeadsNoMore: another one may have led and given up meanwhile.
func TestWhoHasLostTheLeaseLeadsNoMore(t *testing.T) {
	for _, by := range []string{"", "other"} {
		c := newCandidate(t, &server{})
		c.acquire()
		c.server.heldBy(by)
		if err := c.run(3 * lease.Period); !errors.Is(err, lease.ErrLost) || c.MayWrite() || c.Held() {
			t.Errorf("%q held it: %v, may write is %t", by, err, c.MayWrite())
		}
	}
}

// TestAnAnswerThatComesLate does not make a frozen leader lead on.
func TestAnAnswerThatComesLate(t *testing.T) {
	c := newCandidate(t, &server{})
	c.acquire()
	c.pass(lease.Period)
	request, _, err := c.Next()
	if err != nil || request == nil {
		t.Fatal(err)
	}
	stored, err := c.server.do(request)
	c.pass(40 * time.Second)
	if err := c.Answer(request, stored, err); err != nil || c.MayWrite() {
		t.Errorf("may write is %t, %v", c.MayWrite(), err)
	}
	if _, _, err := c.Next(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("goes on: %v", err)
	}
}

// TestALeaseThatHasEndedBeforeItsAnswerIsNotHeld: a process that stood still while it created the Lease reads it again, and
// begins as a successor of whatever held it meanwhile.
func TestALeaseThatHasEndedBeforeItsAnswerIsNotHeld(t *testing.T) {
	s := &server{}
	c := newCandidate(t, s)
	slow := true
	c.answers = func(request *lease.Request, err error) error {
		if slow && request.Verb == lease.Create {
			slow = false
			c.pass(time.Minute)
			s.heldBy("other")
		}
		return err
	}
	for range 20 {
		if err := c.run(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if c.Held() && s.holder() == "other" {
			t.Fatal("it holds the Lease of another process")
		}
	}
	s.heldBy("")
	c.acquire()
	if _, inherited := c.TakeOver(); !inherited {
		t.Error("what the other process has written is not read")
	}
}
