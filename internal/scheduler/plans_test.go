package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/model"
)

// preempting adds preemption, without arguments.
func (w *world) preempting() { w.preemptingBy(nil) }

// preemptingBy adds preemption, with arguments.
func (w *world) preemptingBy(values map[string]string) {
	arguments := config.NewArguments("action preempt", values)
	w.loop.profile.Actions = append(w.loop.profile.Actions, preempt.New(preempt.ReadArguments(arguments.Reader())))
}

// newOustingWorld has nodes for one pod each, all of them taken: low-0 on n0, low-1 on n1 and so on.
func newOustingWorld(t tester, nodes int) *world {
	w := newWorld(t)
	w.preempting()
	for i := range nodes {
		w.node(fmt.Sprintf("n%d", i), "1")
		w.low(fmt.Sprintf("low-%d", i), fmt.Sprintf("n%d", i))
	}
	w.play(t.Context(), time.Second)
	return w
}

// low is a pod of priority zero, which waits when it has no node.
func (w *world) low(name, node string) {
	w.member("", 0)
	pod := w.pods["-0"].DeepCopy()
	w.gone("-0")
	pod.Name, pod.UID, pod.Labels, pod.Spec.NodeName = name, types.UID(name), nil, node
	if node != "" {
		pod.Status.Phase = corev1.PodRunning
	}
	w.pod(pod)
}

// high is a gang of high priority.
func (w *world) high(name string, members int) {
	w.gang(name, members, members)
	for i := range members {
		w.raise(fmt.Sprintf("%s-%d", name, i))
	}
}

// equal is a waiting pod of the same priority.
func (w *world) equal(name string) {
	w.low(name, "")
	w.raise(name)
}

func (w *world) raise(name string) {
	pod := w.pods[types.UID(name)].DeepCopy()
	priority := int32(100)
	pod.Spec.Priority = &priority
	w.pod(pod)
}

// restart puts another loop, which knows nothing, in the place of the one that is.
func (w *world) restart() {
	profile := w.loop.profile
	w.mailbox = NewMailbox()
	w.loop = New(cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}}), commit.New(commit.Options{}), profile,
		w, w.mailbox, w.loop.options)
	for _, node := range w.nodes {
		w.mailbox.Event(&cluster.NodeSeen{Node: node})
	}
	for _, pod := range w.pods {
		w.mailbox.Event(&cluster.PodSeen{Pod: pod})
	}
	for _, group := range w.groups {
		w.mailbox.Event(&cluster.GroupSeen{Group: group})
	}
	w.mailbox.Lead()
}

// decided records which pods were nominated, evicted or bound, in order.
func decided(calls []commit.Call) string {
	var words []string
	for _, call := range calls {
		if call.Kind <= commit.CallDelete {
			words = append(words, strings.TrimSpace(fmt.Sprint(call.Kind, " ", call.Pod.Name, " ", call.Node)))
		}
	}
	return strings.Join(words, ", ")
}

// notes returns the events about an object, in order.
func notes(calls []commit.Call, name string) []string {
	var notes []string
	for _, call := range calls {
		if event, is := call.Write.(*commit.Event); is && event.Regarding.Name == name {
			notes = append(notes, event.Type+" "+event.Reason+": "+event.Note)
		}
	}
	return notes
}

func (w *world) expect(what string, calls []commit.Call, want string) {
	w.t.Helper()
	if got := decided(calls); got != want {
		w.t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func overBudget(call commit.Call) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: call.Pod.Name}}
	return err
}

func TestVictimsLeaveAndTheGangStarts(t *testing.T) {
	w := newOustingWorld(t, 4)
	w.raise("low-3")
	w.high("mpi", 3)
	calls := w.play(t.Context(), 10*time.Second)
	w.expect("the plan", calls, "Nominate mpi-0 n0, Nominate mpi-1 n1, Nominate mpi-2 n2, Evict low-0 n0, Evict low-1 n1, Evict low-2 n2")
	if c := w.condition("mpi"); c == nil || c.Reason != "WaitingForVictims" {
		t.Errorf("condition %+v", c)
	}
	for i := range 3 {
		victim := fmt.Sprintf("low-%d", i)
		want := fmt.Sprintf("Normal Preempted: Evicted from node n%d to free capacity for PodGroup default/mpi, whose priority is 100", i)
		if got := notes(calls, victim); len(got) != 1 || got[0] != want {
			t.Errorf("the events of %s are %q, want %q", victim, got, want)
		}
	}
	want := "Normal Preempting: Evicted 3 pods on 3 nodes to free capacity for 3 members: default/low-0, default/low-1, default/low-2"
	if got := notes(calls, "mpi"); !slices.Contains(got, want) || len(got) > 2 {
		t.Errorf("the events of the gang are %q, want %q and why it waits", got, want)
	}
	w.equal("a-late") // its turn comes first; it may not have what the others paid for
	w.gone("low-0")
	w.gone("low-2")
	w.expect("one victim is there", w.play(t.Context(), 10*time.Second), "")
	w.gone("low-1")
	w.expect("all are gone", w.play(t.Context(), 10*time.Second), "Bind mpi-0 n0, Bind mpi-1 n1, Bind mpi-2 n2")
	if holds := w.loop.state.Snapshot(w.clock.Now()).Held(); len(holds) != 0 || !w.loop.machine.Idle() || w.loop.sizes() != (sizes{}) {
		t.Errorf("kept at rest: %v, %+v", holds, w.loop.sizes())
	}
	if later := w.play(t.Context(), time.Minute); decided(later) != "" {
		t.Errorf("decided later: %s", decided(later))
	}
}

// TestGangThatGoesIsToldOnce, beside its members.
func TestGangThatGoesIsToldOnce(t *testing.T) {
	w := newOustingWorld(t, 0)
	w.node("n0", "1")
	w.node("n1", "1")
	w.gang("train", 2, 2)
	w.play(t.Context(), time.Second)
	w.high("mpi", 2)
	calls := w.play(t.Context(), time.Second)
	want := "Normal Preempted: Evicted 2 members to free capacity for PodGroup default/mpi, whose priority is 100"
	if got := notes(calls, "train"); !slices.Contains(got, want) {
		t.Errorf("the events of the gang are %q, want %q", got, want)
	}
	for _, call := range calls {
		if event, is := call.Write.(*commit.Event); is && event.Reason == report.ReasonPreempted {
			if event.Related == nil || event.Related.UID != "group-mpi" || event.Related.Kind != "PodGroup" {
				t.Errorf("%s is related to %+v", event.Regarding.Name, event.Related)
			}
		}
	}
	if n := kinds(calls)[commit.CallEvict]; n != 2 {
		t.Errorf("%d evictions", n)
	}
}

// TestRestartKeepsThePromise: a scheduler that restarts while victims leave evicts no other pod, gives the capacity to no other
// job, and binds when the capacity is free.
func TestRestartKeepsThePromise(t *testing.T) {
	w := newOustingWorld(t, 2)
	w.high("mpi", 2)
	w.play(t.Context(), time.Second)
	w.gone("low-1")
	w.restart()
	w.equal("a-late")
	w.expect("after the restart", w.play(t.Context(), time.Minute), "")
	w.gone("low-0")
	w.expect("all are gone", w.play(t.Context(), time.Minute), "Bind mpi-0 n0, Bind mpi-1 n1")
	w.restart()
	w.expect("after another restart", w.play(t.Context(), time.Minute), "")
}

// TestCrashBeforeTheEvictions: nominations without victims are not enough, and the job is planned for again.
func TestCrashBeforeTheEvictions(t *testing.T) {
	w := newOustingWorld(t, 2)
	w.drop = func(call commit.Call) bool { return call.Kind == commit.CallEvict }
	w.high("mpi", 2)
	w.expect("before the crash", w.play(t.Context(), time.Second), "Nominate mpi-0 n0, Nominate mpi-1 n1")
	w.drop = nil
	w.restart()
	w.expect("after the crash", w.play(t.Context(), time.Second),
		"Nominate mpi-0 n0, Nominate mpi-1 n1, Evict low-0 n0, Evict low-1 n1")
	w.gone("low-0")
	w.gone("low-1")
	w.expect("all are gone", w.play(t.Context(), time.Second), "Bind mpi-0 n0, Bind mpi-1 n1")
}

// TestNominationInVain: capacity that pods are nominated for and do not need any more is free for every job.
func TestNominationInVain(t *testing.T) {
	w := newOustingWorld(t, 2)
	w.high("mpi", 2)
	w.play(t.Context(), time.Second)
	w.node("n2", "2")
	w.expect("capacity elsewhere", w.play(t.Context(), time.Second), "Bind mpi-0 n2, Bind mpi-1 n2")
	w.gone("low-0")
	w.gone("low-1")
	w.low("late-0", "")
	w.low("late-1", "")
	w.expect("the nominated capacity", w.play(t.Context(), time.Second), "Bind late-0 n0, Bind late-1 n1")
}

// TestDeletedHolderFreesItsRoomAtOnce.
func TestDeletedHolderFreesItsRoomAtOnce(t *testing.T) {
	w := newOustingWorld(t, 2)
	w.high("mpi", 2)
	w.play(t.Context(), time.Second)
	w.low("late-0", "")
	w.gone("low-0")
	w.expect("while it waits", w.play(t.Context(), time.Second), "")
	w.mailbox.Event(&cluster.GroupSeen{Group: w.groups["mpi"], Gone: true})
	delete(w.groups, "mpi")
	w.gone("mpi-0")
	w.gone("mpi-1")
	w.expect("when it is gone", w.play(t.Context(), 200*time.Millisecond), "Bind late-0 n0")
	if holds := w.loop.state.Snapshot(w.clock.Now()).Held(); len(holds) != 0 {
		t.Errorf("kept at rest: %v", holds)
	}
}

// TestRefusedVictimIsSpared: the next plan is another one, and the one that was refused is asked again later and later.
func TestRefusedVictimIsSpared(t *testing.T) {
	w := newOustingWorld(t, 2)
	w.refusePlan = func(call commit.Call) error {
		if call.Kind == commit.CallEvict && call.Pod.Name == "low-0" {
			return overBudget(call)
		}
		return nil
	}
	w.high("mpi", 1)
	calls := w.play(t.Context(), time.Second)
	w.expect("another victim", calls, "Nominate mpi-0 n0, Evict low-0 n0, Nominate mpi-0 n1, Evict low-1 n1")
	if got := notes(calls, "low-0"); len(got) != 0 {
		t.Errorf("the pod that stays has the events %q", got)
	}
	w.gone("low-1")
	w.expect("it is gone", w.play(t.Context(), time.Second), "Bind mpi-0 n1")

	w.high("more", 1)
	if asked := kinds(w.play(t.Context(), 72*time.Second))[commit.CallEvict]; asked != 3 { // after 10 s, 20 s, 40 s
		t.Errorf("low-0 was asked to go %d times within 72 seconds", asked)
	}
	if asked := kinds(w.play(t.Context(), 18*time.Minute))[commit.CallEvict]; asked != 4 { // after 80 s, 160 s, 5 min, 5 min
		t.Errorf("low-0 was asked to go %d times within 18 minutes more", asked)
	}
	w.gone("low-0")
	w.play(t.Context(), time.Second)
	if w.loop.sizes().delays != 0 {
		t.Errorf("delayed although gone: %+v", w.loop.sizes())
	}
}

// TestPromiseThatIsRefusedIsNoStorm: a refused nomination is retried a few times only, and no pod is evicted.
func TestPromiseThatIsRefusedIsNoStorm(t *testing.T) {
	w := newOustingWorld(t, 2)
	w.refusePlan = forbidden
	w.high("mpi", 2)
	counts := kinds(w.play(t.Context(), 30*time.Second))
	if n := counts[commit.CallNominate]; n < 4 || n > 14 || counts[commit.CallEvict] > 0 {
		t.Errorf("%d nominations and %d evictions in half a minute, want a few of the former", n, counts[commit.CallEvict])
	}
	if c := w.condition("mpi"); c == nil || c.Reason != "BindFailed" || !strings.Contains(c.Message, "could not be nominated") {
		t.Errorf("condition %+v", c)
	}
	w.refusePlan = nil
	w.play(t.Context(), time.Minute)
	if n := len(w.loop.state.Snapshot(w.clock.Now()).Held()); n != 2 {
		t.Errorf("%d nominations after the API server gave in", n)
	}
}

// TestBudgetsBlockAndAreCounted, or are only preferred: then the victim is deleted whose eviction the API server refuses.
func TestBudgetsBlockAndAreCounted(t *testing.T) {
	const blocked = string(metrics.BlockedJobs) + " by=budget"
	protect := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all", ResourceVersion: "1", UID: "all"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
	}
	for budgets, want := range map[string]string{"respect": "", "prefer": "Nominate mpi-0 n0, Evict low-0 n0, DisruptionTarget low-0 n0, Delete low-0 n0"} {
		w, sum := newMeasuredWorld(t)
		w.preemptingBy(map[string]string{"budgets": budgets})
		w.node("n0", "1")
		w.grace = ptr.To[int64](3600)
		w.low("low-0", "n0")
		w.mailbox.Event(&cluster.BudgetSeen{Budget: protect})
		w.refusePlan = func(call commit.Call) error {
			if call.Kind == commit.CallEvict {
				return overBudget(call)
			}
			return nil
		}
		w.high("mpi", 1)
		calls := w.play(t.Context(), 2*time.Second)
		w.expect(budgets, calls, want)
		for _, call := range calls {
			if (call.Kind == commit.CallEvict || call.Kind == commit.CallDelete) && call.GraceSeconds != 300 {
				t.Errorf("%s gives %d s, want no more than maxGrace", call.Kind, call.GraceSeconds)
			}
		}
		if budgets == "prefer" {
			expectMetrics(t, sum, map[string]float64{blocked: 0})
			continue
		}
		expectMetrics(t, sum, map[string]float64{blocked: 1})
		if c := w.condition("mpi"); c == nil || !strings.HasSuffix(c.Message, "protected by PodDisruptionBudget default/all: 0 of 1 evictions allowed") {
			t.Errorf("condition %+v", c)
		}
		w.refusePlan = nil
		w.mailbox.Event(&cluster.BudgetSeen{Budget: protect, Gone: true})
		w.expect("without the budget", w.play(t.Context(), 2*time.Second), "Nominate mpi-0 n0, Evict low-0 n0")
		expectMetrics(t, sum, map[string]float64{blocked: 0})
	}
}

// TestVictimThatIsDeletedIsToldOnce.
func TestVictimThatIsDeletedIsToldOnce(t *testing.T) {
	w := newOustingWorld(t, 1)
	w.loop.profile.Actions = w.loop.profile.Actions[:1]
	w.high("mpi", 1)
	w.play(t.Context(), time.Second)
	decision := model.Decision{
		Job:         model.JobKey{Namespace: "default", Name: "mpi"},
		Nominations: []model.Nomination{{Pod: ref(w.pods["mpi-0"]), Node: "n0"}},
		Evictions:   []model.Eviction{{Pod: ref(w.pods["low-0"]), Node: "n0", Method: model.ByDeletion}},
	}
	w.loop.state.Assume(decision)
	w.loop.machine.Submit(w.clock.Now(), decision)
	calls := w.play(t.Context(), time.Second)
	w.expect("the plan", calls, "Nominate mpi-0 n0, DisruptionTarget low-0 n0, Delete low-0 n0")
	if got := notes(calls, "low-0"); len(got) != 1 {
		t.Errorf("the victim has the events %q", got)
	}
}

// TestGroupsAreCountedThatAreEvictedForOtherQueues, but not when the API server has refused one of the evictions.
func TestGroupsAreCountedThatAreEvictedForOtherQueues(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	w.node("n0", "2")
	w.gang("old", 2, 2)
	w.play(t.Context(), time.Second)
	w.runAll()
	w.preempting()
	w.loop.profile.Actions = w.loop.profile.Actions[:1]
	w.high("mpi", 1)
	w.play(t.Context(), time.Second)
	reclaim := func() (calls []commit.Call, reclaims int32) {
		decision := model.Decision{
			Job:         model.JobKey{Namespace: "default", Name: "mpi"},
			Nominations: []model.Nomination{{Pod: ref(w.pods["mpi-0"]), Node: "n0"}},
		}
		for _, name := range []string{"old-0", "old-1"} {
			decision.Evictions = append(decision.Evictions, model.Eviction{
				Pod: ref(w.pods[types.UID(name)]), Job: model.JobKey{Namespace: "default", Name: "old"}, Node: "n0", Right: model.ByShare, Queue: "b",
			})
		}
		w.loop.state.Assume(decision)
		w.loop.machine.Submit(w.clock.Now(), decision)
		calls = w.play(t.Context(), 10*time.Second)
		return calls, w.loop.state.Snapshot(w.clock.Now()).Job(model.JobKey{Namespace: "default", Name: "old"}).Reclaims
	}
	const reclaimed = string(metrics.Reclaimed) + " right=share"
	w.refusePlan = func(call commit.Call) error {
		if call.Kind == commit.CallEvict {
			return overBudget(call)
		}
		return nil
	}
	if _, n := reclaim(); n != 0 {
		t.Errorf("%d after no pod was evicted", n)
	}
	expectMetrics(t, sum, map[string]float64{reclaimed: 0})
	w.refusePlan = nil
	calls, n := reclaim()
	if n != 1 {
		t.Errorf("%d after all pods were evicted", n)
	}
	if got, want := notes(calls, "old-0"), []string{"Normal Reclaimed: Evicted from node n0 to free capacity for queue b, by its share"}; !slices.Equal(got, want) {
		t.Errorf("the victim has the events %q, want %q", got, want)
	}
	expectMetrics(t, sum, map[string]float64{reclaimed: 2})
	if shown := w.groups["old"].Status.Reclaims; shown != 1 {
		t.Errorf("the PodGroup says %d", shown)
	}
}

func ref(pod *corev1.Pod) model.PodRef {
	return model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

// TestPromiseOvertakenIsNotForgotten: what is assumed then is the newer one.
func TestPromiseOvertakenIsNotForgotten(t *testing.T) {
	w := newOustingWorld(t, 1)
	w.drop = func(call commit.Call) bool { return call.Kind == commit.CallNominate }
	w.high("mpi", 1)
	w.play(t.Context(), time.Second)
	failed := commit.Outcome{
		Kind: commit.NominationFailed, Job: model.JobKey{Namespace: "default", Name: "mpi"}, Pod: ref(w.pods["mpi-0"]), Node: "n0", Superseded: true,
	}
	for _, want := range []int{1, 0} {
		w.loop.handleOutcomes(t.Context(), []commit.Outcome{failed})
		if got := len(w.loop.state.Snapshot(w.clock.Now()).Held()); got != want {
			t.Errorf("overtaken %t: %d nominations are assumed, want %d", failed.Superseded, got, want)
		}
		failed.Superseded = false
	}
}

func (w *world) servePlan(call commit.Call) error {
	if w.refusePlan != nil {
		if err := w.refusePlan(call); err != nil {
			return err
		}
	}
	w.carryOut(call)
	return nil
}

func (w *world) carryOut(call commit.Call) {
	pod := w.pods[call.Pod.UID].DeepCopy()
	switch call.Kind {
	case commit.CallNominate:
		pod.Status.NominatedNodeName = call.Node
	case commit.CallSetCondition:
		pod.Status.Conditions = append(pod.Status.Conditions, call.Write.(*commit.PodCondition).Condition)
	default:
		pod.DeletionTimestamp = &metav1.Time{Time: w.clock.Now().Add(time.Hour)}
	}
	w.pod(pod)
}

// TestAVictimWhoseBindTheWatchShowsLate may go soon after that: what the cycles before have found holds no longer.
func TestAVictimWhoseBindTheWatchShowsLate(t *testing.T) {
	w := newWorld(t)
	w.preempting()
	w.node("n1", "1")
	w.late = func(pod *corev1.Pod) bool { return pod.Name == "low" && pod.Spec.NodeName != "" }
	w.low("low", "")
	w.play(t.Context(), time.Second)
	w.high("high", 1)
	w.expect("the watch has not shown it", w.play(t.Context(), 20*time.Second), "")
	w.late = nil
	w.pod(w.pods["low"].DeepCopy())
	w.expect("the watch has shown it", w.play(t.Context(), 10*time.Second), "Nominate high-0 n1, Evict low n1")
}
