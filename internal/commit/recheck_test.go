package commit

import (
	"slices"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

func (p *player) recheck(job string, spare int) {
	p.heard(p.Recheck(p.now, model.JobKey{Namespace: "ns", Name: job}, spare, "changed"))
}

func TestRaisedMinimumEndsWhatHasNotBegun(t *testing.T) {
	p := play(t, Options{Workers: 1})
	p.submit(binds("other", "x"))
	p.calls()
	p.submit(binds("j", "a", "b"))
	p.recheck("unknown", -1)
	p.recheck("j", -1)
	p.expect("BindFailed a", "BindFailed b", "Committed j needs=2 bound=0 failed=2 uncertain=0")
	p.reply("x", nil)
	p.said = nil
	p.end()
}

func TestRaisedMinimumEndsWhatIsBeingPrepared(t *testing.T) {
	p := play(t, Options{})
	p.submit(prepared("j", "*a", "*b", "c"))
	p.calls()
	p.reply("a", nil)
	p.pass(time.Minute)
	p.recheck("j", -1)
	p.expect("Obsolete b", "BindFailed c")
	p.reply("b", nil)
	p.expectCalls("Release a, Release b")
	p.replies(nil, "a", "b")
	p.expect("BindFailed a", "BindFailed b", "Committed j needs=3 bound=0 failed=3 uncertain=0")
	p.end()
}

// TestStartThatHasBegunGoesOn: it is completed or undone like any other start.
func TestStartThatHasBegunGoesOn(t *testing.T) {
	p := play(t, Options{Workers: 1})
	p.submit(binds("j", "a", "b"))
	p.calls()
	p.recheck("j", -1)
	p.reply("a", nil)
	p.expectCalls("Bind b")
	p.reply("b", nil)
	p.expect("Bound a", "Bound b", "Committed j needs=2 bound=2 failed=0 uncertain=0")
	p.end()
}

// TestSurplusThatIsNeededByNow: a member beyond the minimum is needed when the minimum has risen, and the other way round.
func TestSurplusThatIsNeededByNow(t *testing.T) {
	for spare, want := range map[int]string{
		0: "Committed j needs=2 bound=0 failed=2 uncertain=0",
		1: "Committed j needs=1 bound=1 failed=1 uncertain=0",
		5: "Committed j needs=0 bound=1 failed=1 uncertain=0",
	} {
		p := play(t, Options{Workers: 1})
		p.submit(binds("other", "x"))
		p.calls()
		decision := binds("j", "a", "b")
		decision.MinBinds = 1
		p.submit(decision)
		p.recheck("j", spare)
		p.cancel("a")
		p.reply("x", nil)
		if p.calls() == "Bind b" {
			p.reply("b", nil)
		}
		if !slices.Contains(p.said, want) {
			t.Errorf("spare %d: %q, want %q", spare, p.said, want)
		}
		p.said = nil
		p.end()
	}
}

// TestWhoseBindsHaveNoAnswerYet: of several decisions about a job each ends for itself.
func TestWhoseBindsHaveNoAnswerYet(t *testing.T) {
	p := play(t, Options{})
	p.submit(binds("j", "a"))
	p.submit(binds("j", "b"))
	p.submit(binds("k", "c"))
	p.write(condition("c", "behind its bind"))
	j, k := model.JobKey{Namespace: "ns", Name: "j"}, model.JobKey{Namespace: "ns", Name: "k"}
	all := func(model.JobKey) bool { return true }
	p.calls()
	if got := p.StartingOf(all); !slices.Equal(got, []model.JobKey{j, k}) || p.TakeCounts().InFlight != 3 {
		t.Errorf("starting %v, counts %+v", got, p.TakeCounts())
	}
	p.replies(nil, "a", "c")
	if !p.Starting(j) || p.Starting(k) {
		t.Errorf("starting: %t, %t", p.Starting(j), p.Starting(k))
	}
	p.reply("b", nil)
	if got := p.StartingOf(all); len(got) != 0 {
		t.Errorf("starting %v", got)
	}
	p.said = nil
	p.end()
}
