package advisor

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// world is a cluster, what the last cycle refused, and an advisor. It is also a plugin, which it asks for advice with.
type world struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	state    *cluster.State
	profile  *framework.Profile
	refusals map[model.JobKey]*model.Refusal
	advisor  *Advisor
	verify   bool
	// ready is called each time that a gate is asked in a round; asked counts that.
	ready func(*model.Job)
	asked int
}

func newWorld(t *testing.T, options Options) *world {
	w := &world{
		t: t, verify: true, clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), ready: func(*model.Job) {},
		state: cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}}),
		profile: &framework.Profile{
			Actions: []framework.Action{allocate.New()},
			Tiers:   []framework.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
		},
	}
	options.Clock = w.clock
	w.advisor = New(options)
	return w
}

func (*world) Name() string { return "world" }

func (w *world) JobReady(job *model.Job, _ framework.Readiness) *model.Refusal {
	w.asked++
	w.ready(job)
	return nil
}

// plug makes the world the first of the plugins.
func (w *world) plug() { w.profile.Tiers = w.before(w.profile.Tiers) }

func (w *world) before(tiers []framework.Tier) []framework.Tier {
	return append([]framework.Tier{{{Factory: func() framework.Plugin { return w }}}}, tiers...)
}

func (w *world) node(name, cpu string) {
	offers := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("110")}
	w.state.Apply(cluster.Event{Kind: cluster.KindNode, Node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Status:     corev1.NodeStatus{Allocatable: offers, Capacity: offers},
	}})
}

// gang makes a group and its members, each of which requests so much CPU; version is the group's.
func (w *world) gang(name string, minimum, members int, cpu string, version int) {
	about := metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(version), Generation: int64(version)}
	w.state.Apply(cluster.Event{Kind: cluster.KindGroup, Group: &v1alpha1.PodGroup{
		ObjectMeta: about, Spec: v1alpha1.PodGroupSpec{MinMember: int32(minimum)},
	}})
	for i := range members {
		pod := fmt.Sprintf("%s-%d", name, i)
		w.state.Apply(cluster.Event{Kind: cluster.KindPod, Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ml", Name: pod, UID: types.UID(pod), ResourceVersion: "1", Labels: map[string]string{v1alpha1.LabelPodGroup: name},
			},
			Spec: corev1.PodSpec{SchedulerName: "tutti", Containers: []corev1.Container{{
				Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
			}}},
		}})
	}
}

// cycle runs a session that decides nothing.
func (w *world) cycle() {
	w.refusals = framework.Run(w.state.Snapshot(w.clock.Now()), w.profile, framework.Options{})
	w.advisor.Cycled(true)
}

// round asks in place, and takes in the answers; nil is no round.
func (w *world) round() *Answers {
	answers := w.advisor.Ask(Source{State: w.state, Profile: w.profile, Refusals: w.refusals, Now: w.clock.Now(), Verify: w.verify})
	if answers != nil {
		w.advisor.Take(answers, w.state, w.refusals)
	}
	return answers
}

func (w *world) advice(name string) string {
	if advice := w.advisor.Advice(w.state.Job(model.JobKey{Namespace: "ml", Name: name})); advice != nil {
		return advice.Message
	}
	return ""
}

// TestARoundRunsBesideTheLoop: the loop changes its snapshot while the round looks at its copy. The race detector sees what both
// use. An answer about a job that has changed since is dropped.
func TestARoundRunsBesideTheLoop(t *testing.T) {
	began, goOn, delivered := make(chan struct{}), make(chan struct{}), make(chan *Answers)
	w := newWorld(t, Options{Deliver: func(answers *Answers) { delivered <- answers }})
	for i := range 20 {
		w.node(fmt.Sprintf("n%02d", i), "2")
	}
	w.gang("same", 3, 3, "3", 1)
	w.gang("other", 2, 3, "4", 1)
	w.cycle()
	var first sync.Once
	replica := &world{t: t, ready: func(*model.Job) {
		first.Do(func() { close(began) })
		<-goOn
	}}
	w.profile.Replica = &framework.Profile{Tiers: replica.before(w.profile.Tiers)}
	if answers := w.round(); answers != nil {
		t.Fatal("the round ran in place")
	}
	<-began
	if next := w.advisor.Next(); !next.IsZero() || w.round() != nil {
		t.Errorf("another round may begin at %s, and one is under way", next)
	}
	w.gang("other", 3, 3, "4", 2)
	w.node("n99", "1")
	w.gang("new", 1, 1, "1", 1)
	close(goOn)
	w.cycle()
	w.advisor.Take(<-delivered, w.state, w.refusals)
	if got, want := w.advice("same"), "add 3 nodes with 3 cpu each"; got != want {
		t.Errorf("advice %q, want %q", got, want)
	}
	if got := w.advice("other"); got != "" {
		t.Errorf("advice %q for a job that is not what it was", got)
	}
	if w.profile.Replica = nil; w.advisor.Next().IsZero() {
		t.Fatal("no other round is due")
	}
	w.clock.SetTime(w.advisor.Next())
	w.round()
	if got, want := w.advice("other"), "add 3 nodes with 4 cpu each"; got != want {
		t.Errorf("advice %q, want %q", got, want)
	}
}

// TestJobsOfOneClassShareAnAnswer: fifty cost what one does, and those with another minimum or number of members have their own.
func TestJobsOfOneClassShareAnAnswer(t *testing.T) {
	cost := func(gangs int) int {
		w := newWorld(t, Options{})
		w.node("n1", "2")
		for i := range gangs {
			w.gang(fmt.Sprintf("g%d", i), 3, 3, "1", 1)
		}
		w.cycle()
		w.plug()
		w.round()
		for i := range gangs {
			if got, want := w.advice(fmt.Sprintf("g%d", i)), "add 1 node with 1 cpu, or lower minMember from 3 to 2"; got != want {
				t.Errorf("advice %q, want %q", got, want)
			}
		}
		return w.asked
	}
	if one, fifty := cost(1), cost(50); one == 0 || fifty != one {
		t.Errorf("one gang takes %d questions to gates, fifty take %d", one, fifty)
	}
	w := newWorld(t, Options{})
	w.node("n1", "2")
	w.gang("a", 3, 3, "1", 1)
	w.gang("aa", 3, 4, "1", 1)
	w.gang("b", 4, 4, "1", 1)
	w.gang("c", 3, 2, "1", 1)
	w.cycle()
	w.round()
	for name, want := range map[string]string{
		"a": "add 1 node with 1 cpu, or lower minMember from 3 to 2", "aa": "add 1 node with 1 cpu, or lower minMember from 3 to 2", "b": "add 1 node with 2 cpu, or lower minMember from 4 to 2",
		"c": "create 1 more pod of the group and add 1 node with 1 cpu, or lower minMember from 3 to 2",
	} {
		if got := w.advice(name); got != want {
			t.Errorf("%s: advice %q, want %q", name, got, want)
		}
	}
}

// backlog makes gangs each of which asks something of its own.
func (w *world) backlog(gangs int) {
	w.node("n1", "1")
	for i := range gangs {
		w.gang(fmt.Sprintf("g%02d", i), 2, 2, fmt.Sprintf("%dm", 1001+i), 1)
	}
	w.cycle()
	w.plug()
}

func (w *world) advised() (said int) {
	for key := range w.refusals {
		if w.advice(key.Name) != "" {
			said++
		}
	}
	return said
}

// TestABacklogIsAskedAboutInRounds, and nothing is asked when all have an answer.
func TestABacklogIsAskedAboutInRounds(t *testing.T) {
	w := newWorld(t, Options{Budget: 60})
	w.backlog(30)
	rounds, before := 0, 0
	for ; w.advised() < 30; rounds++ {
		if answers := w.round(); answers == nil || w.advised() == before {
			t.Fatalf("round %d: %+v, %d jobs have advice", rounds, answers, w.advised())
		}
		before = w.advised()
		next := w.advisor.Next()
		if next.IsZero() {
			break
		}
		if w.round() != nil {
			t.Fatal("a round has begun during the pause")
		}
		w.clock.SetTime(next)
	}
	if rounds < 3 || w.advised() < 30 {
		t.Errorf("%d jobs have advice after %d rounds", w.advised(), rounds)
	}
	w.clock.Step(time.Hour)
	w.advisor.Cycled(false)
	if w.round() != nil || !w.advisor.Next().IsZero() {
		t.Error("something is asked at rest")
	}
	w.advisor.Cycled(true)
	if answers := w.round(); answers == nil || len(answers.known) == 0 {
		t.Errorf("%+v: nothing is asked again after a change", answers)
	}
}

// TestARoundAnswersAllJobsOfItsClasses, wherever they are in the order, also those behind the question that spends the budget.
func TestARoundAnswersAllJobsOfItsClasses(t *testing.T) {
	w := newWorld(t, Options{Budget: 1})
	w.node("n1", "1")
	for i := range 10 {
		w.gang(fmt.Sprintf("g%d", i), 2, 2, fmt.Sprintf("%dm", 1001+i%2), 1)
	}
	w.cycle()
	w.round()
	if w.advised() != 5 || w.advice("g0") == "" || w.advice("g8") == "" {
		t.Errorf("%d jobs have advice after one round, want the 5 of the first class", w.advised())
	}
	w.clock.SetTime(w.advisor.Next())
	w.round()
	if w.advised() != 10 {
		t.Errorf("%d jobs have advice after two rounds, want all", w.advised())
	}
}

// TestRoundsTakeAPartOfTheTime, however many questions there are, and however long each takes.
func TestRoundsTakeAPartOfTheTime(t *testing.T) {
	w := newWorld(t, Options{Budget: 60})
	w.backlog(90)
	var taken time.Duration
	w.ready = func(*model.Job) {
		w.clock.Step(5 * time.Millisecond)
		taken += 5 * time.Millisecond
	}
	began := w.clock.Now()
	for range 5 {
		if w.round() == nil || w.advisor.Next().IsZero() {
			t.Fatal("no question is left")
		}
		w.clock.SetTime(w.advisor.Next())
	}
	if passed := w.clock.Since(began); taken == 0 || taken > passed/10 {
		t.Errorf("rounds took %s of %s", taken, passed)
	}
}

// TestAPanicCostsOneJobItsAdvice, and ends the round; the others are asked about in the next one.
func TestAPanicCostsOneJobItsAdvice(t *testing.T) {
	w := newWorld(t, Options{})
	w.verify = false
	w.backlog(3)
	panics := 0
	w.ready = func(job *model.Job) {
		if job.Key.Name == "g01" {
			panics++
			panic("over g01")
		}
	}
	if answers := w.round(); answers == nil || answers.Panic != "over g01" || answers.Stack == "" || w.advised() != 1 {
		t.Fatalf("%+v, %d jobs have advice", answers, w.advised())
	}
	w.clock.SetTime(w.advisor.Next())
	if answers := w.round(); answers == nil || answers.Panic != "" || w.advised() != 2 || panics != 1 {
		t.Errorf("%+v, %d jobs have advice after %d panics", answers, w.advised(), panics)
	}
	if !w.advisor.Next().IsZero() {
		t.Error("the job is asked about again, though it has not changed")
	}
}

// TestAPanicBeforeTheFirstQuestion does not come again and again without a pause.
func TestAPanicBeforeTheFirstQuestion(t *testing.T) {
	w := newWorld(t, Options{Follow: func(*cluster.Copy) { panic("no view") }})
	w.verify = false
	w.backlog(1)
	answers := w.round()
	if next := w.advisor.Next(); answers == nil || answers.Panic != "no view" || next.Sub(w.clock.Now()) < refreshPeriod {
		t.Errorf("%+v, and the next round is at %s", answers, next)
	}
}
