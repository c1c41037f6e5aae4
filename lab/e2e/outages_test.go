package e2e

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
)

// TestOutages kills kube-apiserver, etcd or both again and again while gangs are being bound, and starts them again after a
// while (OUTAGES=20): what was asked without an answer is found out, and every gang becomes whole, or is undone as a whole
// where the outage was longer than a start may take. The scheduler lives on; every fourth time it is restarted after it.
func TestOutages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, noLog, cluster.Options{})
	outages, undone := number(t, "OUTAGES", 3), 0
	counts := map[string]int{}
	var back []time.Duration
	scheduler := w.start("--bind-deadline=10s")
	for i := 1; i <= outages; i++ {
		w.await(w.begin(), "binds of a batch")
		var parts []string
		switch i % 3 {
		case 0:
			parts = []string{binaries.APIServer, binaries.Etcd}
		case 1:
			parts = []string{binaries.APIServer}
		case 2:
			parts = []string{binaries.Etcd}
		}
		for _, part := range parts {
			counts[part]++
			if err := w.lab.Cluster.Crash(part); err != nil {
				t.Fatal(err)
			}
		}
		if len(w.chronicle.Partial()) > 0 { // as far as the watch has shown; the API server is away now
			w.strikes++
		}
		if i%10 == 9 {
			w.pass(12 * time.Second) // longer than a start may take
		} else {
			w.pass(upTo(5 * time.Second))
		}
		began := time.Now()
		for at := len(parts) - 1; at >= 0; at-- {
			if err := w.lab.Cluster.Revive(t.Context(), parts[at]); err != nil {
				t.Fatal(err)
			}
		}
		undone += w.settled()
		back = append(back, time.Since(began))
		w.end()
		select {
		case <-scheduler.Done():
			t.Fatal(scheduler.Failure())
		default:
		}
		if i%4 == 0 { // a watch that has been refused often is asked indefinitely less often, up to a minute apart
			scheduler.Kill()
			scheduler = w.start("--bind-deadline=10s")
		}
		if i%5 == 0 || i == outages {
			t.Logf("%d outages, %v, %d with gangs of which only some were bound, %d starts undone; in part for at most %s", i, counts, w.strikes, undone,
				w.chronicle.LongestPartial().Round(time.Millisecond))
		}
	}
	w.audited()
	t.Logf("RESULT outages: %d, etcd killed %d times, kube-apiserver %d times, %d outages with gangs bound in part; the watch that judges had "+
		"to list again %d times; gangs left in part 0, nodes that held too much 0, starts undone %d; a gang was in part for at most %s, the "+
		"outage included; from the restart until all gangs were whole or undone %s", outages, counts[binaries.Etcd], counts[binaries.APIServer],
		w.strikes, w.chronicle.Gaps(), undone, w.chronicle.LongestPartial().Round(time.Millisecond), spread(back))
}
