package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/lab/cluster"
)

// noLog is for those that do not look at what the server was asked.
const noLog = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"

// firstDecision is how long after it was started a scheduler may take to bind a pod, at a thousand nodes and ten thousand
// pods.
const firstDecision = 10 * time.Second

// TestKilledAtAnyMoment kills the scheduler again and again (KILLS=200): while gangs are being bound, and while the next one
// starts or completes what it found. No gang stays bound in part, no node ever holds too much, and it is not long until
// a pod is bound again. NODES=1000 PODS=10000 is the size for which this is promised.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, noLog, cluster.Options{})
	w.killAgainAndAgain(number(t, "KILLS", 5), "kills", func() bool { return w.strikes > 0 })
}

// TestKilledWhileForeignGroupsStart does the same (FOREIGN=20) with gangs of which all but some are described by objects and
// marks of other projects.
func TestKilledWhileForeignGroupsStart(t *testing.T) {
	t.Parallel()
	w := allKinds(t)
	w.killAgainAndAgain(number(t, "FOREIGN", 4), "foreign", func() bool { return sum(w.torn) > w.torn[ourKind().name] })
}

// killAgainAndAgain kills the scheduler so often, and more often until a kill has come in the middle of a gang, as struck says.
func (w *world) killAgainAndAgain(kills int, label string, struck func() bool) {
	w.Helper()
	early, undone := 0, 0
	var first takings
	running, soon := w.start(), false
	some := w.begin()
	for kill := 1; kill <= kills || !struck() && kill <= kills+moreKills; kill++ {
		if soon {
			early++
			w.pass(upTo(3 * time.Second))
		} else {
			w.await(some, "binds of a batch")
		}
		running.Kill()
		if waiting := w.strike(); waiting == 0 {
			undone += w.settled()
			w.end()
			w.begin()
		}
		before, _ := w.chronicle.Binds()
		bound := w.chronicle.More(1)
		began := time.Now()
		running = w.start()
		if soon = kill < kills && rand.IntN(4) == 0; soon { // it is killed while it starts, or soon after
			continue
		}
		w.await(bound, "the first bind of the next scheduler")
		first = append(first, w.chronicle.At(before+1).Sub(began))
		undone += w.settled()
		w.end()
		some = w.begin()
		if kill%10 == 0 || kill == kills {
			w.Logf("%d kills, %d with gangs of which only some were bound, %d while the next one began; first bind %s; in part for at most %s",
				kill, w.strikes, early, first, w.chronicle.LongestPartial().Round(time.Millisecond))
		}
	}
	undone += w.settled()
	w.audited()
	first.check(w.T, "the first bind of a scheduler", firstDecision)
	if !struck() {
		w.Errorf("no kill came in the middle of a gang that counts: %s", byKind(w.torn))
	}
	w.Logf("RESULT %s: %d SIGKILLs at %d nodes and %d pods, %d of them with gangs bound in part (%s), %d while the next scheduler began; "+
		"gangs left in part 0, nodes that held too much at any moment 0, starts undone %d; a gang was in part for at most %s; "+
		"from the start of the next scheduler to its first bind %s", label, kills, w.nodes, w.pods, w.strikes,
		byKind(w.torn), early, undone,
		w.chronicle.LongestPartial().Round(time.Millisecond), first)
}
