package commit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func gangOf(job string, members int) []string {
	var names []string
	for i := range members {
		names = append(names, fmt.Sprintf("%s%d", job, i))
	}
	return names
}

// jobsOf returns the job of each bind, without digits.
func jobsOf(calls []Call) string {
	var b strings.Builder
	for _, call := range calls {
		b.WriteString(call.Job.Name)
	}
	return b.String()
}

func TestLargeGangKeepsASmallOneWaitingForAHelpingOnly(t *testing.T) {
	p := play(t, Options{Workers: 20, Burst: 4})
	p.submit(binds("l", gangOf("l", 10)...))
	p.submit(binds("s", gangOf("s", 3)...))
	p.submit(binds("m", gangOf("m", 5)...))
	if got, want := jobsOf(p.Calls(p.now)), "llllsssmmmmllllmll"; got != want {
		t.Errorf("binds of %s, want %s", got, want)
	}
}

func TestGangsOfAHelpingAreBoundWithoutABreak(t *testing.T) {
	p := play(t, Options{Workers: 1})
	p.submit(binds("a", gangOf("a", 3)...))
	p.submit(binds("b", gangOf("b", 3)...))
	var got string
	for range 6 {
		calls := p.Calls(p.now)
		got += jobsOf(calls)
		p.heard(p.Reply(p.now, Reply{ID: calls[0].ID}))
	}
	if got != "aaabbb" {
		t.Errorf("binds of %s", got)
	}
	p.said = nil
	p.end()
}

// TestWhatIsSentAgainGoesFirst: a retry comes first among its gang's calls, and the gang keeps its turn.
func TestWhatIsSentAgainGoesFirst(t *testing.T) {
	p := play(t, Options{Workers: 2, Burst: 100})
	p.submit(binds("a", "a0", "a1", "a2"))
	p.submit(binds("b", "b0"))
	p.expectCalls("Bind a0, Bind a1")
	p.reply("a0", errServer)
	p.pass(time.Second)
	p.expectCalls("Bind a0 #2")
	p.replies(nil, "a1", "a0")
	p.expectCalls("Bind a2, Bind b0")
	p.replies(nil, "a2", "b0")
	p.said = nil
	p.end()
}

// TestTurnsHoldWhatWasPut: whatever is pushed and removed, every entry has its turn once, and a decision with something to
// send waits for at most one burst of another.
func TestTurnsHoldWhatWasPut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waiting := fairQueue{burst: rapid.IntRange(1, 4).Draw(t, "helping")}
		batches := []*callGroup{{}, {}, {}}
		var held []*entry
		out := func(e *entry, served bool) {
			waiting.remove(e, served)
			held = slices.DeleteFunc(held, func(other *entry) bool { return other == e })
		}
		// waited[b][c] counts the calls of c that were sent since b has had something to send and was not served.
		waited := map[*callGroup]map[*callGroup]int{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				e := &entry{call: Call{Kind: CallBind}, batch: batches[rapid.IntRange(0, 2).Draw(t, "batch")]}
				waiting.push(e)
				held = append(held, e)
			case 2:
				if len(held) > 0 {
					out(held[rapid.IntRange(0, len(held)-1).Draw(t, "which")], false)
				}
			default:
				e := waiting.next()
				if (e == nil) != (len(held) == 0) {
					t.Fatalf("next is %v, %d are held", e, len(held))
				}
				if e == nil {
					continue
				}
				for b := range waited {
					if waited[b][e.batch]++; b != e.batch && waited[b][e.batch] > waiting.burst {
						t.Fatalf("%d of another went out while a decision waited, a helping is %d", waited[b][e.batch], waiting.burst)
					}
				}
				delete(waited, e.batch)
				out(e, true)
			}
			if waiting.length != len(held) {
				t.Fatalf("length %d, held %d", waiting.length, len(held))
			}
			for _, b := range batches {
				switch has := slices.ContainsFunc(held, func(e *entry) bool { return e.batch == b }); {
				case !has:
					delete(waited, b)
				case waited[b] == nil:
					waited[b] = map[*callGroup]int{}
				}
			}
		}
	})
}
