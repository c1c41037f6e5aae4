package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/bench/load"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// number is a count from the environment, such as KILLS=200, or the one for every day.
func number(t *testing.T, variable string, everyDay int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return everyDay
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		t.Fatalf("%s=%s: want a number from 1 on", variable, text)
	}
	return count
}

// bystanders is where the pods are that nothing happens to.
const bystanders = "bystanders"

// world is a cluster of its own that is almost full, so that every member of a batch of gangs has to go exactly where the
// others do not: NODES nodes for PODS pods, of which all but a batch are there from the start. Whatever happens to its pods
// is taken down and judged.
type world struct {
	*testing.T
	lab       *harness.Env
	load      *load.Client
	chronicle *audit.History
	writes    writeLog
	program   string
	nodes     int
	pods      int
	// room is how many pods find capacity beside those that are there from the start, batch how many of them a batch of gangs
	// has.
	room, batch int
	// shared reports that another scheduler gives capacity to its pods, too.
	shared bool

	// kinds are those of the gangs, in turn.
	kinds []*gangKind
	// check judges what else must hold at any moment; nil is nothing.
	check func()

	batches, schedulers int
	// strikes is how often a fault came while a gang was bound in part, torn how many gangs of each kind were, by its name.
	strikes int
	torn    map[string]int
	// gangs are those of the batch, by name.
	gangs map[string]gangOfBatch
}

// gangOfBatch is a gang of a batch.
type gangOfBatch struct {
	size int
	kind *gangKind
}

// newWorld makes a world whose server keeps such a log.
func newWorld(t *testing.T, policy string, options cluster.Options) *world {
	t.Helper()
	w := &world{T: t, nodes: number(t, "NODES", 40), pods: number(t, "PODS", 400), kinds: []*gangKind{ourKind()}, torn: map[string]int{}}
	var err error
	if w.program, err = binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler); err != nil {
		t.Fatal(err)
	}
	w.lab, w.writes = bareCluster(t, policy, options)
	if w.load, err = load.NewClient(w.lab.Cluster.Config(), 16); err != nil {
		t.Fatal(err)
	}
	each := max(2, w.pods/w.nodes)
	nodes := cluster.Nodes("node", w.nodes, map[string]string{"cpu": strconv.Itoa(each)})
	if err := w.load.CreateNodes(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	if err := w.load.Namespace(t.Context(), bystanders); err != nil {
		t.Fatal(err)
	}
	w.room = min(200, w.pods/2)
	w.batch = w.room
	var standing []*corev1.Pod
	for i := range each*w.nodes - w.room {
		on := harness.OnNode(fmt.Sprintf("node-%d", i%w.nodes))
		standing = append(standing, w.lab.Pod(bystanders, fmt.Sprintf("pod-%d", i), oneCPU, on))
	}
	if _, err := w.load.CreatePods(t.Context(), standing); err != nil {
		t.Fatal(err)
	}
	w.chronicle = audit.NewChronicle(nodes...)
	if err := w.chronicle.Follow(t.Context(), w.lab.Clientset); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes, %d pods, capacity for %d", w.nodes, each*w.nodes, w.room)
	return w
}

// start runs one more scheduler, and does not wait for it.
func (w *world) start(args ...string) *harness.Scheduler {
	w.Helper()
	return w.startAs("", args...)
}

func (w *world) startAs(kubeconfig string, args ...string) *harness.Scheduler {
	w.Helper()
	w.schedulers++
	s, err := harness.StartScheduler(w.Context(), w.lab.Cluster, harness.SchedulerOptions{
		Name: fmt.Sprintf("scheduler-%d", w.schedulers), Path: w.program, Args: args, Kubeconfig: kubeconfig, NotReady: true,
	})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// begin creates a batch of gangs, of two to forty members, and all of their members. The objects of groups come last, so that
// they start one right after the other. It returns a channel that is closed when any number of members are bound, but not all.
func (w *world) begin() (some <-chan struct{}) {
	w.Helper()
	w.batches++
	w.gangs = map[string]gangOfBatch{}
	var objects []client.Object
	var pods []*corev1.Pod
	for left := w.batch; left > 0; {
		size := min(2+rand.IntN(39), left)
		if left-size == 1 {
			size = left
		}
		name := fmt.Sprintf("gang-%d-%d", w.batches, len(w.gangs))
		kind := w.kinds[(w.batches+len(w.gangs))%len(w.kinds)]
		w.gangs[name] = gangOfBatch{size, kind}
		w.chronicle.Expect(metav1.NamespaceDefault, name, size)
		if kind.object != nil {
			objects = append(objects, kind.object(metav1.NamespaceDefault, name, size))
		}
		for i := range size {
			pods = append(pods, w.member(name, i))
		}
		left -= size
	}
	some = w.chronicle.More(1 + rand.IntN(w.batch-1))
	if _, err := w.load.CreatePods(w.Context(), pods); err != nil {
		w.Fatal(err)
	}
	err := load.Each(w.Context(), w.load, objects, func(ctx context.Context, _ int, object client.Object) error {
		return w.lab.Client.Create(ctx, object)
	})
	if err != nil {
		w.Fatal(err)
	}
	return some
}

// end deletes the gangs of the batch and waits until they are gone.
func (w *world) end() {
	w.Helper()
	w.lab.Eventually(w.T, func() error {
		in := client.InNamespace(metav1.NamespaceDefault)
		for _, kind := range w.kinds {
			if kind.object == nil {
				continue
			}
			if err := w.lab.Client.DeleteAllOf(w.Context(), kind.object("", "", 2), in); err != nil {
				return err
			}
		}
		if err := w.lab.Client.DeleteAllOf(w.Context(), &corev1.Pod{}, in, client.GracePeriodSeconds(0)); err != nil {
			return err
		}
		for name := range w.gangs {
			if left := w.chronicle.Bound(metav1.NamespaceDefault, name); left > 0 {
				return fmt.Errorf("%d members of %s are still there", left, name)
			}
		}
		return nil
	})
	w.gangs = nil
}

// settled waits until every gang of the batch has started, or was undone as a whole, and returns how many were undone.
// Nothing may have been seen that must not be.
func (w *world) settled() (undone int) {
	w.Helper()
	w.lab.Eventually(w.T, func() error {
		undone = 0
		for name, gang := range w.gangs {
			switch bound := w.chronicle.Bound(metav1.NamespaceDefault, name); {
			case bound == gang.size:
			case bound == 0 && w.incomplete(name, gang.size):
				undone++
			default:
				return fmt.Errorf("%d of %d members of %s (%s) are bound", bound, gang.size, name, gang.kind.name)
			}
		}
		return nil
	})
	w.clean()
	return undone
}

// incomplete reports whether members of a gang are gone: those of a start that was undone do not come back by themselves.
func (w *world) incomplete(name string, size int) bool {
	pods, err := w.lab.Pods(w.Context(), metav1.NamespaceDefault, client.MatchingLabels{audit.LabelGang: name})
	return err == nil && len(pods) < size
}

// clean fails the test when anything was seen that must not be.
func (w *world) clean() {
	w.Helper()
	if found := w.chronicle.Found(); len(found) > 0 {
		w.Fatalf("%d findings, the first: %v", len(found), found[:min(5, len(found))])
	}
	if overs := w.chronicle.Overs(); len(overs) > 0 && !w.shared {
		w.Fatalf("%d times a node came to hold too much, the first: %v", len(overs), overs[:min(5, len(overs))])
	}
	if w.check != nil {
		w.check()
	}
}

// audited wants an audit of what is there in the end to find nothing, by two lists instead of by what was seen.
func (w *world) audited() {
	w.Helper()
	w.clean()
	c, err := audit.Read(w.Context(), w.lab.Cluster.Config())
	if err != nil {
		w.Fatal(err)
	}
	report := audit.Audit(c, harness.SchedulerName)
	for _, check := range []audit.Check{audit.Partial, audit.Overcommitted, audit.Misplaced} {
		if found := report.Found[check]; len(found) > 0 {
			w.Errorf("%d %s, the first: %s", len(found), check, found[0])
		}
	}
	if torn, _ := w.waiting(); len(torn) > 0 { // which the audit does not see of groups of other projects
		w.Errorf("gangs in part: %v", torn)
	}
}

// strike takes note of whether a scheduler was hit while some gang was bound in part, as a quorum says, and returns how many
// members wait.
func (w *world) strike() (waiting int) {
	w.Helper()
	w.pass(100 * time.Millisecond) // what the server was asked before has taken effect
	torn, waiting := w.waiting()
	if len(torn) > 0 {
		w.strikes++
	}
	for _, name := range torn {
		w.torn[w.gangs[name].kind.name]++
	}
	return waiting
}

// waiting returns the gangs of the batch of which some members are bound and some not, and how many members are not.
func (w *world) waiting() (torn []string, waiting int) {
	w.Helper()
	pods, err := w.lab.Pods(w.Context(), metav1.NamespaceDefault)
	if err != nil {
		w.Fatal(err)
	}
	bound := map[string]int{}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			bound[pods[i].Labels[audit.LabelGang]]++
		} else {
			waiting++
		}
	}
	for name, count := range bound {
		if count < w.gangs[name].size {
			torn = append(torn, name)
		}
	}
	return torn, waiting
}

// pass lets time pass, or ends the test when it is over.
func (w *world) pass(d time.Duration) {
	w.Helper()
	w.within(nil, d)
}

// within waits for something, and no longer than this; it reports whether it came.
func (w *world) within(something <-chan struct{}, d time.Duration) bool {
	w.Helper()
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-something:
		return true
	case <-over.C:
		return false
	case <-w.Context().Done():
		w.Fatal("interrupted")
		return false
	}
}

// await waits for something that must come.
func (w *world) await(something <-chan struct{}, what string) {
	w.Helper()
	if !w.within(something, patience) {
		binds, last := w.chronicle.Binds()
		w.Fatalf("not within %s: %s; %d pods were bound so far, the last %s ago", patience, what, binds, time.Since(last))
	}
}

// upTo is a random time below a limit.
func upTo(limit time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(limit))) }

// takings are how long something took, each time.
type takings []time.Duration

// String says what they were like.
func (k takings) String() string { return spread(k) }

// check fails the test when the slowest took too long, where the run is a measurement (HOLD_TIMES=1), as "make faults" is:
// how long something takes depends on what else the machine does, and a test holds on any machine.
func (k takings) check(t *testing.T, what string, most time.Duration) {
	t.Helper()
	slowest := slices.Max(append(slices.Clone(k), 0))
	t.Logf("%s took %s; promised on a free machine: %s", what, slowest.Round(time.Millisecond), most)
	if slowest > most && holdTimes() {
		t.Errorf("%s took %s, want at most %s", what, slowest, most)
	}
}

// holdTimes reports that the machine is free, so that times can be judged.
func holdTimes() bool { return os.Getenv("HOLD_TIMES") == "1" }

// mean is how long it took on average.
func (k takings) mean() (mean time.Duration) {
	for _, took := range k {
		mean += took / time.Duration(len(k))
	}
	return mean
}

// spread says what times were like.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(times))
	round := func(at int) time.Duration { return sorted[at].Round(10 * time.Millisecond) }
	return fmt.Sprintf("p50 %s, p99 %s, longest %s of %d", round(len(sorted)/2), round((len(sorted)-1)*99/100), round(len(sorted)-1), len(sorted))
}
