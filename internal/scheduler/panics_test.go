package scheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/internal/telemetry"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// faulty panics over one job, or when a session opens, and counts how often.
type faulty struct {
	job    *string
	always *bool
	times  *int
}

func (faulty) Name() string { return "faulty" }

func (f faulty) ValidateJob(job *model.Job) *model.Refusal {
	if *f.job != "" && strings.HasPrefix(job.Key.Name, *f.job) {
		*f.times++
		_ = job.Tasks[len(job.Tasks)]
	}
	return nil
}

func (f faulty) OpenSession(view framework.View) {
	if *f.always {
		*f.times++
		_ = view.Snapshot().Nodes[len(view.Snapshot().Nodes)]
	}
}

// measured returns the sum of a metric over its labels, or over those with this value.
type measured func(name string, of ...string) float64

func newFaultyWorld(t tester) (*world, faulty, measured) {
	t.Helper()
	registry := prometheus.NewRegistry()
	w, f := newWorld(t), faulty{job: new(string), always: new(bool), times: new(int)}
	tier := engine.Tier{{Factory: func() framework.Plugin { return f }}}
	w.loop.profile.Tiers = append([]engine.Tier{tier}, w.loop.profile.Tiers...)
	metrics, err := telemetry.New(registry)
	if err != nil {
		t.Fatalf("metrics: %v", err)
	}
	w.loop.options.Metrics = metrics
	w.node("n1", "8")
	return w, f, func(name string, of ...string) (sum float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatalf("gather: %v", err)
		}
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			for _, metric := range family.GetMetric() {
				if len(of) > 0 && !strings.Contains(metric.String(), strconv.Quote(of[0])) {
					continue
				}
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
		return sum
	}
}

func TestPanicQuarantinesOneJob(t *testing.T) {
	w, f, sum := newFaultyWorld(t)
	*f.job = "bad"
	w.gang("bad", 2, 2)
	w.gang("good", 2, 2)
	calls := w.play(t.Context(), 10*time.Second)
	if n := kinds(calls)[commit.CallBind]; n != 2 || w.condition("good").Status != "True" {
		t.Errorf("%d binds, the good gang is %+v", n, w.condition("good"))
	}
	c := w.condition("bad")
	if c == nil || c.Status != "False" || c.Reason != "Quarantined" || !strings.HasPrefix(c.Message, "faulty panicked: runtime error: index") {
		t.Errorf("condition %+v", c)
	}
	if *f.times < 3 || *f.times > 4 { // at 0, 1 s, 3 s and 7 s
		t.Errorf("tried %d times in ten seconds", *f.times)
	}
	if n := sum("tutti_quarantined_total"); n != float64(*f.times) {
		t.Errorf("%v panics counted of %d", n, *f.times)
	}
	*f.job = ""
	w.play(t.Context(), 10*time.Second)
	if c := w.condition("bad"); c.Status != "True" {
		t.Errorf("mended, and %+v", c)
	}
}

// thousandBad adds a thousand gangs over which a plugin panics, alike or not, before two others.
func thousandBad(w *world, f faulty, alike bool) {
	w.loop.options.Verify = false
	*f.job = "bad"
	for i := range 1000 {
		request := "1"
		if !alike {
			request = fmt.Sprint(i+1001) + "m"
		}
		w.gangOf(fmt.Sprintf("bad-%04d", i), request)
	}
	w.gangOf("good", "1")
	w.gangOf("odd", "3")
}

// BenchmarkAThousandPanics is the time from when the gangs are there until the others have started; goal: two seconds.
func BenchmarkAThousandPanics(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w, f, _ := newFaultyWorld(b)
		thousandBad(w, f, false)
		b.StartTimer()
		for w.pods["good-0"].Spec.NodeName == "" {
			w.play(b.Context(), 10*time.Millisecond)
		}
	}
}

// TestAThousandPanicsDelayNoOtherJobByMoreThanTwoSeconds, counted in cycles of virtual time: a plugin panics over every one of
// them, alike or not, and they come first. BenchmarkAThousandPanics measures the time that the panics take.
func TestAThousandPanicsDelayNoOtherJobByMoreThanTwoSeconds(t *testing.T) {
	for _, alike := range []bool{true, false} {
		t.Run(fmt.Sprintf("alike=%t", alike), func(t *testing.T) {
			w, f, sum := newFaultyWorld(t)
			thousandBad(w, f, alike)
			started := func(name string) {
				t.Helper()
				if w.pods[types.UID(name+"-0")].Spec.NodeName == "" {
					t.Errorf("%s waits", name)
				}
			}
			if alike {
				w.play(t.Context(), 500*time.Millisecond)
				if n := sum("tutti_quarantined_total"); n != 1 {
					t.Errorf("%v panics before a job had its turn that is like none of them, want 1", n)
				}
				started("odd")
			}
			w.play(t.Context(), 1250*time.Millisecond)
			started("good")
			started("odd")
			if n := sum("tutti_quarantined_total"); n < 1000 {
				t.Errorf("%v panics, want one for each job", n)
			}
			if !alike {
				return
			}
			w.play(t.Context(), time.Second)
			w.gangOf("late", "1") // when they are about to be tried again
			w.play(t.Context(), time.Second)
			started("late")
			if n := sum("tutti_quarantined_total"); n > 1200 {
				t.Errorf("%v panics of jobs that are alike, want one of each, and few when they are tried again", n)
			}
		})
	}
}

// TestNoJobIsTriedAgainBeforeTheOthersHadTheirTurn, though it takes longer than it is held back.
func TestNoJobIsTriedAgainBeforeTheOthersHadTheirTurn(t *testing.T) {
	w, f, _ := newFaultyWorld(t)
	*f.job = "bad"
	for i := range 200 {
		w.gangOf(fmt.Sprintf("bad-%04d", i), fmt.Sprint(i+1)+"m")
	}
	w.gangOf("good", "1")
	w.playBy(t.Context(), 1500*time.Millisecond, 100*time.Millisecond) // 16 panics at a time
	if pod := w.pods["good-0"]; *f.times < 200 || pod.Spec.NodeName == "" {
		t.Errorf("after %d panics the other job waits", *f.times)
	}
}

func TestPanicWithoutAJobPostponesCycles(t *testing.T) {
	w, f, sum := newFaultyWorld(t)
	*f.always = true
	w.gang("good", 2, 2)
	for range 20 {
		w.play(t.Context(), 500*time.Millisecond)
		w.node("n1", "8") // something always happens
	}
	if *f.times < 3 || *f.times > 4 {
		t.Errorf("tried %d times in ten seconds", *f.times)
	}
	if c := w.condition("good"); c == nil || c.Reason != "CycleFailed" {
		t.Errorf("condition %+v", c)
	}
	jobs, _ := w.askJobs("default")
	trail := jobs["good"].Trail
	if len(trail) != 1 || trail[0].Action != engine.Engine || trail[0].Reason != w.condition("good").Message {
		t.Errorf("its reason came from %+v", trail)
	}
	if sum("tutti_cycle_failing") != 1 {
		t.Error("no metric says that cycles fail")
	}
	*f.always = false
	w.play(t.Context(), 10*time.Second)
	if c := w.condition("good"); c.Status != "True" || sum("tutti_cycle_failing") != 0 {
		t.Errorf("mended, and %+v", c)
	}
	*f.always, *f.times = true, 0
	w.node("n2", "8")
	w.play(t.Context(), 2*time.Second)
	if *f.times != 2 {
		t.Errorf("tried %d times in two seconds, want immediately and after 1 s: delays begin again", *f.times)
	}
}

// TestTheSecondPanicInARowMakesTheSnapshotAgain, since the first may have left something broken in it.
func TestTheSecondPanicInARowMakesTheSnapshotAgain(t *testing.T) {
	for panics, want := range map[int]metav1.ConditionStatus{1: metav1.ConditionFalse, 2: metav1.ConditionTrue} {
		w, f, _ := newFaultyWorld(t)
		w.loop.options.Verify = false
		w.play(t.Context(), time.Second)
		node := w.loop.state.Snapshot(w.clock.Now()).Node("n1")
		tasks := slices.Clone(node.Tasks)
		node.Place(&model.Task{Request: model.Resources{node.Idle(model.CPU)}, Placement: model.Placement{Status: model.Running, Node: "n1"}})
		node.Tasks = tasks // so that the accounting is wrong
		*f.job = "bad"
		for i := range panics {
			w.gangOf(fmt.Sprint("bad-", i), fmt.Sprint(i+1))
		}
		w.gang("good", 2, 2)
		w.play(t.Context(), 900*time.Millisecond)
		if c := w.condition("good"); c == nil || c.Status != want {
			t.Errorf("after %d panics: %+v", panics, c)
		}
	}
}

// TestObjectsThatCannotBeReadAreCounted by a process that does not lead, too.
func TestObjectsThatCannotBeReadAreCounted(t *testing.T) {
	w, _, sum := newFaultyWorld(t)
	w.mailbox.take() // the letter that makes it the leader
	w.loop.state.Configure([]model.RequestTranslator{unreadable{}}, model.DefaultMaxGrace)
	w.gang("bad", 2, 2)
	w.play(t.Context(), time.Second)
	if n := sum("tutti_quarantined_total"); n != 2 {
		t.Errorf("%v objects counted, want both pods", n)
	}
}

// unreadable panics over every pod.
type unreadable struct{}

func (unreadable) Counts() []corev1.ResourceName { return nil }

func (unreadable) TranslateRequest(_ *model.ResourceIndex, task *model.Task, _ *model.Resources) *model.Refusal {
	_ = task.Name[len(task.Name)]
	return nil
}

func (unreadable) TranslateCapacity(*model.ResourceIndex, *corev1.Node, *model.Resources) *model.Refusal {
	return nil
}

// TestAPanicOverAnOutcomeCostsItsJob: the code that is called after a bind panics. The loop goes on, and what is assumed does not
// stay so indefinitely.
func TestAPanicOverAnOutcomeCostsItsJob(t *testing.T) {
	w, _, sum := newFaultyWorld(t)
	fragile := &fragile{}
	w.loop.options.Reservations = fragile
	fragile.over = "bad"
	w.gang("bad", 2, 2)
	w.gang("good", 2, 2)
	w.play(t.Context(), 2*time.Second)
	for _, name := range []string{"bad", "good"} {
		if c := w.condition(name); c == nil || c.Status != "True" {
			t.Errorf("%s is %+v, and all of it is bound", name, c)
		}
	}
	if n := sum("tutti_quarantined_total"); n != 4 {
		t.Errorf("%v panics counted, want one for each member and answer, and one when the watch shows it", n)
	}
	w.play(t.Context(), time.Minute)
	if fragile.asked < 4 || w.loop.sizes().uncertain != 2 {
		t.Errorf("asked %d times, %d uncertain binds", fragile.asked, w.loop.sizes().uncertain)
	}
	fragile.over = ""
	w.play(t.Context(), time.Minute)
	if w.loop.sizes().uncertain != 0 || !w.loop.machine.Idle() {
		t.Errorf("kept at rest: %+v", w.loop.sizes())
	}
}

// fragile panics over the pods of a gang.
type fragile struct {
	noReservations
	over  string
	asked int
}

func (f *fragile) Confirm(pod types.UID) {
	if f.over != "" && strings.HasPrefix(string(pod), f.over) {
		f.asked++
		_ = f.over[len(f.over)]
	}
}

// TestAPanicOverAStartCostsItsJob: when the start of one gang is to end cannot be determined. Others are undone in their time.
func TestAPanicOverAStartCostsItsJob(t *testing.T) {
	w, _, sum := newFaultyWorld(t)
	w.refuse = func(call commit.Call) error {
		if strings.HasSuffix(call.Pod.Name, "-1") {
			return forbidden(call)
		}
		return nil
	}
	w.gang("bad", 2, 2)
	w.gang("good", 2, 2)
	w.play(t.Context(), time.Second)
	now := w.clock.Now()
	snapshot := w.loop.state.Snapshot(now)
	broken := snapshot.Job(jobKey("bad"))
	whole := broken.Present.Tasks
	broken.Present.Tasks = append(whole[:len(whole):len(whole)], nil) // code that looks at all of them panics over the last
	over, _ := w.loop.checkGangs(t.Context(), snapshot, now)
	if why := over[jobKey("bad")]; why == nil || why.Code != model.Quarantined || !strings.HasPrefix(why.Detail, "starts panicked: ") {
		t.Errorf("the bad gang is refused: %v", why)
	}
	if over, _ := w.loop.checkGangs(t.Context(), snapshot, now); len(over) != 0 || sum("tutti_quarantined_total") != 1 {
		t.Errorf("looked at again: %v", over)
	}
	broken.Present.Tasks = whole
	if got := sent(w.play(t.Context(), 31*time.Second), commit.CallDeleteStarted); len(got) != 2 {
		t.Errorf("undone %q, want the member of each that is bound", got)
	}
}

// TestAPanicOverAReportCostsItsJob: the status of one gang cannot be made. The others have theirs, and the loop goes on.
func TestAPanicOverAReportCostsItsJob(t *testing.T) {
	w, _, sum := newFaultyWorld(t)
	over := "bad"
	w.loop.reporter = report.NewReporter(report.Source{
		Group: w.loop.state.Group, Whole: w.loop.gangs.Observed,
		Reservation: func(job *model.Job) *v1alpha1.Reservation {
			if job.Key.Name == over {
				_ = job.Tasks[len(job.Tasks)]
			}
			return w.loop.state.Reservation(job)
		},
	})
	w.gang("bad", 2, 2)
	w.gang("good", 2, 2)
	w.play(t.Context(), 500*time.Millisecond)
	w.gang("late", 2, 2)
	w.play(t.Context(), 500*time.Millisecond)
	for _, name := range []string{"good", "late"} {
		if c := w.condition(name); c == nil || c.Status != "True" {
			t.Errorf("%s is %+v", name, c)
		}
	}
	why := w.loop.delays.Panics.Reason(backoff.Of(w.loop.state.Job(jobKey("bad"))))
	if why == nil || why.Code != model.Quarantined || !strings.HasPrefix(why.Detail, "reports panicked: runtime error: index") {
		t.Errorf("the bad gang is held back with %v", why)
	}
	if c, n := w.condition("bad"), sum("tutti_quarantined_total"); c != nil || n == 0 || n != sum("tutti_quarantined_total", "reports") {
		t.Errorf("condition %+v after %v panics, %v of them in reports", c, n, sum("tutti_quarantined_total", "reports"))
	}
	over = ""
	w.play(t.Context(), time.Minute)
	if c := w.condition("bad"); c == nil || c.Status != "True" {
		t.Errorf("mended, and %+v", c)
	}
}

// TestStartsEndWhileCyclesFail: a start ends in its time, even when a plugin panics in every cycle.
func TestStartsEndWhileCyclesFail(t *testing.T) {
	w, f, _ := newFaultyWorld(t)
	w.refuseTo("mpi-1")
	w.gang("mpi", 2, 2)
	w.play(t.Context(), 17*time.Second)
	*f.always = true // in cycles from now on, the next ones after 1 s, 3 s, 7 s and 15 s, which is too late
	w.node("n2", "1")
	if got := sent(w.play(t.Context(), 12*time.Second), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("undone %q before the time is over", got)
	}
	if got := sent(w.play(t.Context(), 2*time.Second), commit.CallDeleteStarted); len(got) != 1 {
		t.Errorf("undone %q, %d panics so far", got, *f.times)
	}
}
