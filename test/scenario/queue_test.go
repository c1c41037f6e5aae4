package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// history is lines of objects, a cycle after each of them.
type history []string

// history draws a cluster and what comes later: more jobs, and time.
func (d *random) history() history {
	lines := history{d.cluster()}
	for range d.n(0, 3) {
		lines = append(lines, strings.Join([]string{d.group(), d.pod(d.space(), ""), d.group()}, "\n"))
	}
	return lines
}

// without leaves out the lines of a kind.
func (h history) without(kind string) history {
	var left history
	for _, lines := range h {
		kept := ""
		for _, one := range strings.Split(lines, "\n") {
			if !strings.HasPrefix(one, kind+" ") {
				kept += one + "\n"
			}
		}
		left = append(left, kept)
	}
	return left
}

// unnamed leaves out each name of a queue.
func (h history) unnamed() history {
	var names []string
	for _, name := range []string{"q0", "q1", "q2", "q3"} {
		names = append(names, " queue="+name, ",scheduling.tutti.dev/queue="+name)
	}
	return h.cut(names...)
}

// inOneNamespace moves everything into the default namespace.
func (h history) inOneNamespace() history { return h.cut("one/", "two/") }

// cut leaves out each of the texts.
func (h history) cut(texts ...string) history {
	var left history
	for _, lines := range h {
		for _, text := range texts {
			lines = strings.ReplaceAll(lines, text, "")
		}
		left = append(left, lines)
	}
	return left
}

// played returns what the cycles decided, those of jobs that are left out by name left out.
func (h history) played(t *rapid.T, s *environment, configuration []byte, more, leftOut string) string {
	s.configuration = configuration
	if err := s.world.apply(more); err != nil {
		t.Fatal(err)
	}
	decided := ""
	for _, lines := range h {
		if err := s.world.apply(lines); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			o, err := s.cycle()
			if err != nil {
				t.Fatal(err)
			}
			for _, decision := range o.decisions {
				if leftOut == "" || !strings.HasPrefix(decision.Job.Name, leftOut) {
					decision.Cycle, decision.Reservation, decision.LastStart = 0, nil, time.Time{}
					for i := range decision.Binds { // versions count all objects
						if given := decision.Binds[i].Isolated; given != nil {
							decision.Binds[i].Isolated = &model.Isolation{Assignment: given.Assignment}
						}
					}
					decided += fmt.Sprintf("%+v\n", decision)
				}
			}
			if err := s.confirm(); err != nil {
				t.Fatal(err)
			}
			s.world.now = s.world.now.Add(5 * time.Second)
		}
	}
	return decided
}

// TestOneQueueDecidesAsNone is invariant Q4: names of queues mean nothing while there is no object, and one queue for all
// decides as none does. That is tried in one namespace: without queues a gang of each namespace may have a reservation, in one
// queue one gang alone.
func TestOneQueueDecidesAsNone(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		d := &random{t: t}
		configuration, named := d.configuration(), d.history().without("queue")
		want := named.unnamed().played(t, newStage(), configuration, "", "")
		if got := named.played(t, newStage(), configuration, "", ""); got != want {
			t.Fatalf("with names of queues:\n%s\nwithout:\n%s", got, want)
		}
		alone := named.unnamed().inOneNamespace()
		want = alone.played(t, newStage(), configuration, "", "")
		if got := alone.played(t, newStage(), configuration, "queue default weight=7", ""); got != want {
			t.Fatalf("with one queue:\n%s\nwithout:\n%s", got, want)
		}
	})
}

// bad are queues that start nothing, each in another way, and jobs that name them.
const bad = `queue bad-lost parent=nowhere selector=* guarantee=cpu:8 weight=9
queue bad-below parent=bad-lost selector=*
queue bad-cycle parent=bad-other selector=*
queue bad-other parent=bad-cycle selector=*
queue bad-paused paused selector=* guarantee=cpu:8 weight=9
queue bad-limit limit=cpu:0 selector=* guarantee=cpu:8 weight=9
queue bad-negative limit=cpu:-1 selector=* parent=default
group bad-1 min=1 queue=bad-lost
group bad-2 min=2 queue=bad-below
group bad-3 min=1 queue=bad-cycle
group bad-4 min=1 queue=bad-paused
group bad-5 min=1 queue=bad-limit
group bad-6 min=1 queue=bad-none
group bad-7 min=1 queue=bad-negative
pod bad-{1..2} group=bad-1 cpu=1 priority=5
pod bad-{3..4} group=bad-2 cpu=1 priority=5
pod bad-5 group=bad-3 cpu=1 priority=5
pod bad-6 group=bad-4 cpu=1 priority=5
pod bad-7 group=bad-5 cpu=1 priority=5
pod bad-8 group=bad-6 cpu=1 priority=5
pod bad-9 group=bad-7 cpu=1 priority=5
`

// TestABadQueueChangesNothingForOthers is invariant Q14: queues in error, paused or full, and the jobs that wait in them,
// change no decision about jobs of other queues.
func TestABadQueueChangesNothingForOthers(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		d := &random{t: t}
		configuration, lived := d.configuration(), d.history()
		const fine = "queue fine\n"
		want := lived.played(t, newStage(), configuration, fine, "")
		if got := lived.played(t, newStage(), configuration, fine+bad, "bad-"); got != want {
			t.Fatalf("with bad queues:\n%s\nwithout:\n%s", got, want)
		}
	})
}

// TestEachQueueHasItsTurn is invariants Q17 and Q18: in a cluster that each round begins empty, a leaf with a job that fits waits
// for no more rounds than there are leaves that take turns with it, whatever the weights, guarantees and priorities, and
// whichever scheduler leads. In a tree each job fills the cluster: else a small job of another leaf may take what a turn leaves
// over, which is the next turn of all that is above it, and a large one waits for its reservation.
func TestEachQueueHasItsTurn(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		d, s := &random{t: t}, newStage()
		cores := d.n(1, 4)
		most := map[string]int{} // how many rounds a leaf may wait
		lines := fmt.Sprintf("node n1 cpu=%d\n", cores)
		tops, flat := d.n(2, 3), d.n(0, 1) == 0
		smallest := cores
		if flat {
			smallest = 1
		}
		for i := range tops {
			says := func() string {
				return fmt.Sprintf(" selector=* weight=%d", d.n(1, 5)) + d.seldom(3, fmt.Sprintf("guarantee=cpu:%d", d.n(1, 5)))
			}
			name := fmt.Sprintf("top%d", i)
			lines += "queue " + name + says() + "\n"
			below := d.n(0, 2)
			if flat {
				below = 0
			}
			for j := range below {
				leaf := fmt.Sprintf("%s-%d", name, j)
				lines += "queue " + leaf + " parent=" + name + says() + "\n"
				most[leaf] = tops * below
			}
			if below == 0 {
				most[name] = tops
			}
		}
		if err := s.world.apply(lines); err != nil {
			t.Fatal(err)
		}
		waited, takeover := map[string]int{}, d.n(0, 12)
		defer func() { s.close() }()
		for round := range 2*tops + 2 {
			for _, leaf := range slices.Sorted(maps.Keys(most)) {
				if waited[leaf] == 0 {
					if err := s.world.apply(d.turn(leaf, smallest, cores)); err != nil {
						t.Fatal(err)
					}
				}
				waited[leaf]++
			}
			o, err := s.cycle()
			if err != nil {
				t.Fatal(err)
			}
			for _, decision := range o.decisions {
				waited[s.queueOf(decision.Job)] = 0
			}
			for leaf, rounds := range waited {
				if rounds >= most[leaf] {
					t.Fatalf("queue %s has waited for %d rounds:\n%s%s", leaf, rounds, lines, o)
				}
			}
			if err := s.confirm(); err != nil {
				t.Fatal(err)
			}
			bound := s.world.podNames(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
			if err := s.applyEvents("finish", bound, nil); err != nil {
				t.Fatal(err)
			}
			if round == takeover {
				if err := s.restart(); err != nil {
					t.Fatal(err)
				}
			}
			s.world.now = s.world.now.Add(time.Second)
		}
	})
}

// turn draws a job of a queue that fits an empty cluster, and sometimes one that does not.
func (d *random) turn(queue string, smallest, cores int) string {
	lines := ""
	job := func(members int) {
		d.names++
		lines += fmt.Sprintf("group j%04d min=%d queue=%s\npods j%04d-{1..%d} group=j%04d cpu=1 priority=%d age=%ds\n",
			d.names, members, queue, d.names, members, d.names, d.n(0, 3), d.n(0, 9))
	}
	if d.n(0, 3) == 0 {
		job(cores + 1)
	}
	job(d.n(smallest, cores))
	return lines
}
