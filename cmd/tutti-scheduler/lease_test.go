package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// table is a Lease in memory. A write takes as long as it says, and fails when err is set.
type table struct {
	resourcelock.Interface
	clock *clocktesting.FakeClock
	held  *resourcelock.LeaderElectionRecord
	takes time.Duration
	err   error
}

var errNoLease = errors.New("not found")

func (*table) Identity() string { return "me" }

func (t *table) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if t.held == nil {
		return nil, nil, errNoLease
	}
	raw, err := json.Marshal(t.held) // as client-go does
	return t.held, raw, err
}

func (t *table) write(held resourcelock.LeaderElectionRecord) error {
	t.clock.Step(t.takes)
	if t.err != nil {
		return t.err
	}
	t.held = &held
	return nil
}

func (t *table) Create(_ context.Context, held resourcelock.LeaderElectionRecord) error {
	return t.write(held)
}

func (t *table) Update(_ context.Context, held resourcelock.LeaderElectionRecord) error {
	return t.write(held)
}

func newTable() (*table, *lease) {
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	t := &table{clock: clock}
	return t, &lease{Interface: t, clock: clock}
}

func by(identity string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: identity}
}

// acquire is what the election does.
func (l *lease) acquire(t *testing.T) {
	t.Helper()
	if _, _, err := l.Get(t.Context()); errors.Is(err, errNoLease) {
		if err := l.Create(t.Context(), by("me")); err != nil {
			t.Fatal(err)
		}
	} else if err := l.Update(t.Context(), by("me")); err != nil {
		t.Fatal(err)
	}
}

func TestNobodyWritesWithoutTheLease(t *testing.T) {
	table, lease := newTable()
	if lease.MayWrite() {
		t.Error("writes before the election")
	}
	table.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "other"}
	if _, _, err := lease.Get(t.Context()); err != nil || lease.MayWrite() {
		t.Errorf("writes while another one leads, %v", err)
	}
}

// TestWritesEndBeforeTheLease: what is sent last is answered, or given up, while the Lease still holds.
func TestWritesEndBeforeTheLease(t *testing.T) {
	table, lease := newTable()
	table.takes = time.Second
	lease.acquire(t)
	sent := table.clock.Now().Add(-time.Second)
	for table.clock.Since(sent) < 2*leaseDuration {
		want := table.clock.Since(sent)+requestTimeout < leaseDuration
		if got := lease.MayWrite(); got != want {
			t.Fatalf("%s after the renewal was sent: may write is %t", table.clock.Since(sent), got)
		}
		table.clock.Step(100 * time.Millisecond)
	}
	table.err = errors.New("no answer")
	if err := lease.Update(t.Context(), by("me")); err == nil || lease.MayWrite() {
		t.Error("writes after a renewal without answer")
	}
	table.err = nil
	if err := lease.Update(t.Context(), by("me")); err != nil || !lease.MayWrite() {
		t.Errorf("does not write after a renewal, %v", err)
	}
}

func TestNothingIsWrittenAfterTheLeaseWasGivenUp(t *testing.T) {
	table, lease := newTable()
	lease.acquire(t)
	table.err = errors.New("no answer") // it may be given up all the same
	if err := lease.Update(t.Context(), by("")); err == nil || lease.MayWrite() {
		t.Error("writes after the Lease was given up")
	}
}

// TestOnlyALeaseThatIsHeldIsGivenUp: one that could not be renewed in time may be somebody else's by now, and its holder may have
// requests under way.
func TestOnlyALeaseThatIsHeldIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		since  time.Duration
		taken  bool
		gaveUp bool
	}{
		"just renewed":        {time.Second, false, true},
		"not renewed in time": {renewDeadline, false, false},
		"somebody else's":     {2 * leaseDuration, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			table, lease := newTable()
			lease.acquire(t)
			table.clock.Step(c.since)
			if c.taken {
				table.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "other"}
			}
			before := table.held
			if _, _, err := lease.Get(t.Context()); err != nil { // the election reads it first
				t.Fatal(err)
			}
			err := lease.Update(t.Context(), by(""))
			if gaveUp := err == nil && table.held.HolderIdentity == ""; gaveUp != c.gaveUp || !gaveUp && table.held != before {
				t.Errorf("given up is %t, want %t; held is %+v: %v", gaveUp, c.gaveUp, table.held, err)
			}
			if lease.MayWrite() {
				t.Error("writes after it")
			}
		})
	}
}

func TestClockOnTheWallThatJumps(t *testing.T) {
	// A fake clock has no other time; that time has passed which the monotonic one does not know of is told by the wall.
	table, lease := newTable()
	lease.acquire(t)
	table.clock.SetTime(table.clock.Now().Add(time.Hour))
	if lease.MayWrite() {
		t.Error("writes after an hour of sleep")
	}
}

// TestTakingOver: after a Lease that has expired its last holder's requests are waited for, after one that was given up none are.
func TestTakingOver(t *testing.T) {
	for name, c := range map[string]struct {
		before    *resourcelock.LeaderElectionRecord
		pause     time.Duration
		inherited bool
	}{
		"nobody has led":    {nil, 0, false},
		"given up":          {&resourcelock.LeaderElectionRecord{}, 0, true},
		"expired":           {&resourcelock.LeaderElectionRecord{HolderIdentity: "other"}, requestTimeout, true},
		"held by us before": {&resourcelock.LeaderElectionRecord{HolderIdentity: "me"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			table, lease := newTable()
			table.held = c.before
			if c.pause > 0 {
				if _, _, err := lease.Get(t.Context()); err != nil {
					t.Fatal(err)
				}
				table.clock.Step(leaseDuration)
			}
			lease.acquire(t)
			if pause, inherited := lease.takeoverDelay(); pause != c.pause || inherited != c.inherited {
				t.Errorf("pause %s, inherited %t, want %s, %t", pause, inherited, c.pause, c.inherited)
			}
			if got := lease.MayWrite(); got != (c.pause == 0) {
				t.Errorf("may write is %t at once", got)
			}
			table.clock.Step(2 * time.Second)
			if err := lease.Update(t.Context(), by("me")); err != nil {
				t.Fatal(err)
			}
			table.clock.Step(c.pause - 2*time.Second)
			if pause, _ := lease.takeoverDelay(); pause != 0 || !lease.MayWrite() {
				t.Errorf("another pause of %s", pause)
			}
		})
	}
}

// TestTheMarginBeginsWithTheEndOfTheLease: how late the election looks again does not make a hand-over longer, and each renewal of
// the last holder begins another Lease.
func TestTheMarginBeginsWithTheEndOfTheLease(t *testing.T) {
	table, lease := newTable()
	renew := func() {
		table.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "other", RenewTime: metav1.NewTime(table.clock.Now())}
	}
	read := func() {
		if _, _, err := lease.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	read()
	table.clock.Step(4 * time.Second)
	renew()
	table.clock.Step(time.Second)
	read() // this is when the last renewal is known
	for range 8 {
		table.clock.Step(2 * time.Second)
		read()
	}
	lease.acquire(t) // a second after the Lease has ended
	if pause, _ := lease.takeoverDelay(); pause != requestTimeout-time.Second {
		t.Errorf("pause %s, want %s", pause, requestTimeout-time.Second)
	}
}

// TestEveryRenewalIsSeen: client-go compares Leases by text in which times are cut to seconds. By that a Lease which is renewed twice in
// a second would end up to a second early.
func TestEveryRenewalIsSeen(t *testing.T) {
	table, lease := newTable()
	var last []byte
	for range 5 {
		table.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "other", RenewTime: metav1.NewTime(table.clock.Now())}
		_, raw, err := lease.Get(t.Context())
		if _, again, _ := lease.Get(t.Context()); err != nil || bytes.Equal(raw, last) || !bytes.Equal(raw, again) {
			t.Fatalf("read %s, then %s; before the renewal %s: %v", raw, again, last, err)
		}
		last = raw
		table.clock.Step(300 * time.Millisecond)
	}
}

// TestALeaseThatIsTakenEarlyIsWaitedFor: whatever the election holds to be its end, the last holder believes in it until then.
func TestALeaseThatIsTakenEarlyIsWaitedFor(t *testing.T) {
	table, lease := newTable()
	table.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "other", RenewTime: metav1.NewTime(table.clock.Now())}
	if _, _, err := lease.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	table.clock.Step(leaseDuration - time.Second)
	lease.acquire(t)
	if pause, _ := lease.takeoverDelay(); pause != requestTimeout+time.Second || lease.MayWrite() {
		t.Errorf("pause %s, want %s; may write is %t", pause, requestTimeout+time.Second, lease.MayWrite())
	}
}

// TestALeaseThatWasDeletedIsWaitedFor: its holder, who may be frozen, believes in it until it would have ended.
func TestALeaseThatWasDeletedIsWaitedFor(t *testing.T) {
	table, lease := newTable()
	table.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "other", RenewTime: metav1.NewTime(table.clock.Now())}
	if _, _, err := lease.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	table.clock.Step(3 * time.Second)
	table.held = nil
	lease.acquire(t)
	if pause, inherited := lease.takeoverDelay(); pause != leaseDuration+requestTimeout-3*time.Second || !inherited || lease.MayWrite() {
		t.Errorf("pause %s, inherited %t, may write is %t", pause, inherited, lease.MayWrite())
	}
}

// TestWhoReadsThatAnotherLeadsWritesNoMore, however long the Lease would have held as far as was known before.
func TestWhoReadsThatAnotherLeadsWritesNoMore(t *testing.T) {
	table, lease := newTable()
	lease.acquire(t)
	table.clock.Step(time.Second)
	table.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "other"}
	if _, _, err := lease.Get(t.Context()); err != nil || lease.MayWrite() {
		t.Errorf("writes although another one leads, %v", err)
	}
}

// deaf is a table whose next write takes effect without the reply.
type deaf struct {
	*table
	lose bool
}

func (d *deaf) Update(ctx context.Context, held resourcelock.LeaderElectionRecord) error {
	err := d.table.Update(ctx, held)
	if d.lose {
		d.lose = false
		return errors.New("connection reset by peer")
	}
	return err
}

// TestALostReplyDoesNotShortenTheMargin: who reads that it holds the Lease, and was never told, has taken it from somebody all the
// same.
func TestALostReplyDoesNotShortenTheMargin(t *testing.T) {
	table, lease := newTable()
	lease.Interface = &deaf{table: table, lose: true}
	table.held = &resourcelock.LeaderElectionRecord{HolderIdentity: "other", RenewTime: metav1.NewTime(table.clock.Now())}
	if _, _, err := lease.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	table.clock.Step(leaseDuration)
	if _, _, err := lease.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := lease.Update(t.Context(), by("me")); err == nil {
		t.Fatal("the reply was to be lost")
	}
	table.clock.Step(retryPeriod)
	lease.acquire(t)
	if pause, _ := lease.takeoverDelay(); pause != requestTimeout-retryPeriod || lease.MayWrite() {
		t.Errorf("pause %s, want %s; may write is %t", pause, requestTimeout-retryPeriod, lease.MayWrite())
	}
}

// TestWhoHasLostTheLeaseLeadsNoMore: a leader that was frozen would lead on from what it knew, had another one led and given up
// meanwhile. Its process is to end.
func TestWhoHasLostTheLeaseLeadsNoMore(t *testing.T) {
	for _, held := range []*resourcelock.LeaderElectionRecord{{}, {HolderIdentity: "other"}} {
		table, lease := newTable()
		lease.acquire(t)
		table.clock.Step(2 * leaseDuration)
		table.held = held
		if _, _, err := lease.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := lease.Update(t.Context(), by("me")); !errors.Is(err, errLost) {
			t.Errorf("%q held it: update: %v", held.HolderIdentity, err)
		}
		if err := lease.Create(t.Context(), by("me")); !errors.Is(err, errLost) || lease.MayWrite() {
			t.Errorf("%q held it: create: %v, may write is %t", held.HolderIdentity, err, lease.MayWrite())
		}
	}
}
