package commit

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

func (p *player) undo(job string, pods ...string) {
	p.Undo(p.now, model.JobKey{Namespace: "ns", Name: job}, evictions(job, pods...).Evictions)
}

func TestUndoTakesTurnsWithBindsAndEndsWithEachPod(t *testing.T) {
	p := play(t, Options{Workers: 3, Burst: 2})
	p.undo("j", "a", "b", "gone")
	p.submit(binds("k", "x", "y"))
	p.expectCalls("Undo a, Undo b, Bind x")
	p.reply("a", nil)
	p.expectCalls("Bind y")
	p.reply("x", nil)
	p.said = p.said[:1]
	p.expectCalls("Undo gone")
	p.replies(errGone, "gone")
	p.replies(errUID, "b")
	p.expect("StartUndone a", "StartUndone gone gone", "StartUndone b gone")
	p.replies(nil, "y")
	p.said = nil
	p.end()
}

// TestUndoIsTriedUntilItIsAnswered: it has no deadline, or a gang would run in part.
func TestUndoIsTriedUntilItIsAnswered(t *testing.T) {
	p := play(t, Options{})
	p.undo("j", "a", "b")
	for _, err := range []error{errServer, errLost, errBusy, ErrNotLeading, errRotated, errServer, errServer} {
		p.calls()
		p.replies(err, "a", "b")
		p.pass(time.Minute)
	}
	p.expect()
	p.undo("j", "a") // is in flight already
	p.calls()
	p.reply("a", nil)
	p.reply("b", errDenied)
	p.expect("StartUndone a", "UndoFailed b")
	p.end()
}

func TestUndoOfAPodThatGoesByItself(t *testing.T) {
	p := play(t, Options{})
	p.undo("j", "flying", "resting")
	p.calls()
	p.reply("resting", errServer)
	p.cancel("resting")
	p.cancel("flying")
	p.expect("StartUndone resting gone")
	p.reply("flying", errServer)
	p.expect("StartUndone flying gone")
	p.end()
}

// TestStartGoesOnUntilItsOwnDeadline: the completion of a start has the rest of its time, and no more.
func TestStartGoesOnUntilItsOwnDeadline(t *testing.T) {
	p := play(t, Options{})
	p.SubmitUntil(p.now, binds("j", "a"), p.now.Add(10*time.Second))
	p.calls()
	p.reply("a", errBusy)
	p.pass(9 * time.Second)
	p.expectCalls("Bind a #2")
	p.reply("a", errBusy)
	p.expect()
	p.pass(time.Second)
	p.expect("BindFailed a", "Committed j needs=1 bound=0 failed=1 uncertain=0")
	p.SubmitUntil(p.now, binds("k", "b"), p.now.Add(time.Hour)) // never longer than any other
	p.calls()
	p.pass(30 * time.Second)
	p.reply("b", errBusy)
	p.expect("BindFailed b", "Committed k needs=1 bound=0 failed=1 uncertain=0")
	p.end()
}

// TestLargeGangHasMoreTime: a slow server is no reason to undo ten thousand binds.
func TestLargeGangHasMoreTime(t *testing.T) {
	p := play(t, Options{Workers: 1})
	p.submit(binds("j", gangOf("j", 250)...))
	p.calls()
	p.pass(31 * time.Second)
	p.expect()
	p.pass(time.Second)
	if got := len(p.said); got != 249 {
		t.Errorf("%d outcomes after 32 s, want all but the one under way", got)
	}
	p.said = nil
	p.reply("j0", nil)
	p.said = nil
	p.end()
}

// TestWhatCompletesAStartIsPreparedInItsTime, or released: members of it are bound already, and hold their capacity without
// effect.
func TestWhatCompletesAStartIsPreparedInItsTime(t *testing.T) {
	p := play(t, Options{})
	p.SubmitUntil(p.now, prepared("j", "*a", "b"), p.now.Add(20*time.Second))
	p.expectCalls("Prepare a")
	p.pass(19 * time.Second)
	p.expect()
	p.pass(time.Second)
	p.expect("Obsolete a", "BindFailed b")
	p.reply("a", errNotPrepared)
	p.expectCalls("Release a")
	p.reply("a", nil)
	p.expect("BindFailed a", "Committed j needs=2 bound=0 failed=2 uncertain=0")
	p.end()
	p.SubmitUntil(p.now, prepared("k", "*c"), p.now.Add(time.Hour)) // never longer than any other
	p.calls()
	p.pass(10 * time.Minute)
	p.expect("Obsolete c")
	p.reply("c", errNotPrepared)
	p.calls()
	p.reply("c", nil)
	p.said = nil
	p.end()
}
