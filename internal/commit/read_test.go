package commit

import (
	"testing"
	"time"
)

// doubted returns a player whose only bind has got its last answer, after one that was lost, so that its pod is to be read.
func doubted(t *testing.T, last error) *player {
	t.Helper()
	p := play(t, Options{})
	p.submit(binds("j", "a"))
	p.calls()
	p.reply("a", errLost)
	p.pass(time.Second)
	p.expectCalls("Bind a #2")
	p.reply("a", last)
	p.expectCalls("Read a")
	p.expect()
	return p
}

func TestLostAnswerOfABindThatTookEffect(t *testing.T) {
	p := doubted(t, errTaken) // by the first attempt, or by another client
	p.reply("a", nil)
	p.expect("Bound a", "Committed j needs=1 bound=1 failed=0 uncertain=0")
	p.end()
}

func TestPodIsReadOnAnotherNode(t *testing.T) {
	p := doubted(t, errTaken)
	p.reply("a", ErrElsewhere)
	p.expect("BindFailed a refused", "Committed j needs=1 bound=0 failed=1 uncertain=0")
	p.end()
}

// TestPodWithoutNodeIsReadAgain: a request that was lost may be carried out as long as the server works on it.
func TestPodWithoutNodeIsReadAgain(t *testing.T) {
	p := doubted(t, errDenied)
	p.reply("a", ErrNotBound)
	p.expect()
	p.pass(9 * time.Second)
	p.expectCalls("")
	p.pass(2 * time.Second)
	p.expectCalls("Read a #2")
	p.reply("a", ErrNotBound)
	p.expect("BindFailed a refused", "Committed j needs=1 bound=0 failed=1 uncertain=0")
	p.end()
}

// TestABindIsReadAgainUntilTheServerHasGivenItUp, which counts from when its answer was lost: it may have waited for a
// worker, and for a connection, long after it was handed out.
func TestABindIsReadAgainUntilTheServerHasGivenItUp(t *testing.T) {
	p := play(t, Options{})
	p.submit(binds("j", "a"))
	p.calls()
	p.pass(40 * time.Second)
	p.reply("a", errLost)
	p.expectCalls("Read a")
	p.reply("a", ErrNotBound)
	p.pass(10 * time.Second)
	p.expectCalls("")
	p.expect()
	p.pass(time.Second)
	p.expectCalls("Read a #2")
	p.reply("a", ErrNotBound)
	p.expect("BindFailed a", "Committed j needs=1 bound=0 failed=1 uncertain=0")
	p.end()
}

func TestReadingGoesOnUntilThereIsAnAnswer(t *testing.T) {
	p := doubted(t, errTaken)
	for range 100 {
		p.reply("a", errServer)
		p.pass(2 * time.Second)
		p.calls()
	}
	p.expect()
	p.reply("a", nil)
	p.expect("Bound a", "Committed j needs=1 bound=1 failed=0 uncertain=0")
	p.end()
}

func TestPodIsDeletedWhileItIsRead(t *testing.T) {
	for name, end := range map[string]func(*player){
		"under way":   func(p *player) { p.cancel("a"); p.reply("a", nil) },
		"resting":     func(p *player) { p.reply("a", errServer); p.cancel("a") },
		"not found":   func(p *player) { p.reply("a", errGone) },
		"not leading": func(p *player) { p.reply("a", ErrNotLeading); p.pass(time.Second); p.calls(); p.reply("a", errGone) },
	} {
		t.Run(name, func(t *testing.T) {
			p := doubted(t, errTaken)
			end(p)
			if len(p.said) != 2 {
				t.Fatalf("outcomes %q", p.said)
			}
			if want := "BindFailed a refused gone"; name != "under way" && p.said[0] != want && p.said[0] != "BindFailed a gone" {
				t.Errorf("outcome %q, want %q", p.said[0], want)
			}
			p.said = nil
			p.end()
		})
	}
}

// TestOthersGoOnWhileOneIsRead: neither a deadline nor an abort ends a read.
func TestOthersGoOnWhileOneIsRead(t *testing.T) {
	p := play(t, Options{})
	p.submit(binds("j", "a", "b"))
	p.calls()
	p.reply("a", errLost)
	p.pass(31 * time.Second)
	p.expectCalls("Read a")
	p.reply("b", nil)
	p.expect("Bound b")
	p.pass(time.Hour)
	p.reply("a", ErrNotBound)
	p.pass(0)
	p.expectCalls("")
	p.expect("BindFailed a", "Committed j needs=2 bound=1 failed=1 uncertain=0")
	p.end()
}
