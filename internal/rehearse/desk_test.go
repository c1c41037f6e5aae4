package rehearse

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// still is a live loop in which nothing happens.
type still struct {
	state   *cluster.State
	leading bool
	// busy lets it never answer.
	busy bool
	// waiting is why jobs wait, as the loop says.
	waiting map[model.JobKey]model.Code
}

func (s *still) Moment(deliver func(*scheduler.Moment)) {
	if !s.busy {
		delays := backoff.NewDelays()
		deliver(&scheduler.Moment{
			Contents: s.state.Contents(), Delays: delays, Gangs: lifecycle.New(time.Minute, delays), Leading: s.leading, Waiting: s.waiting,
		})
	}
}

// setting has one action and two plugins, and no other configuration.
func setting() *Setting {
	return &Setting{
		Profile: func(text []byte) (*engine.Profile, error) {
			if text != nil {
				return nil, fmt.Errorf("%s:1: it is wrong", text)
			}
			profile := &engine.Profile{
				Actions: []engine.Action{allocate.New()},
				Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
			}
			return profile, nil
		},
		Show: func(*cluster.State) {}, Reset: func() {},
	}
}

// small is a cluster of so many nodes with a pod each, and as many pods that wait.
func small(nodes int) *cluster.State {
	s := cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}})
	list := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("10")}
	for i := range nodes {
		node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: list}}
		node.Name = fmt.Sprintf("n%d", i)
		node.UID = types.UID(node.Name)
		s.Apply(&cluster.NodeSeen{Node: node})
		for _, name := range []string{"", node.Name} {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d%s", i, name), CreationTimestamp: metav1.NewTime(start)},
				Spec: corev1.PodSpec{SchedulerName: "tutti", NodeName: name, Containers: []corev1.Container{{
					Name: "main", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("3")}},
				}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending},
			}
			if pod.UID = types.UID(pod.Name); name != "" {
				pod.Status.Phase = corev1.PodRunning
			}
			s.Apply(&cluster.PodSeen{Pod: pod})
		}
	}
	s.Lead()
	s.Snapshot(start)
	return s
}

func oneNode(count int) *debugapi.Question {
	return &debugapi.Question{Changes: []debugapi.Change{{AddNodes: &debugapi.AddNodes{Count: count, Like: "n0"}}}}
}

func TestAQuestionIsAnswered(t *testing.T) {
	desk := NewDesk(&still{state: small(2), leading: true}, setting(), clocktesting.NewFakePassiveClock(start))
	answer, err := desk.Ask(t.Context(), oneNode(1))
	if err != nil || len(answer.Jobs) != 1 || answer.Jobs[0].Then.State != debugapi.FateStarts || answer.Same != 3 {
		t.Fatalf("%+v, %v", answer, err)
	}
	again, err := desk.Ask(t.Context(), oneNode(1))
	if err != nil || fmt.Sprint(again.Table().Rows[0].Cells) != fmt.Sprint(answer.Table().Rows[0].Cells) {
		t.Errorf("another answer the second time: %+v, %v", again, err)
	}
}

// TestACopyThatDecidesOtherwise is said in the answer, and counted.
func TestACopyThatDecidesOtherwise(t *testing.T) {
	waits := model.JobKey{Namespace: "ns", Name: "p0", Source: model.SourcePod}
	for name, c := range map[string]struct {
		waiting map[model.JobKey]model.Code
		says    string
	}{
		"nothing is known": {},
		"the same":         {waiting: map[model.JobKey]model.Code{waits: model.InsufficientResources}},
		"another code": {
			waiting: map[model.JobKey]model.Code{waits: model.NodesFiltered}, says: `pod ns/p0 waits for "NodesFiltered", and in the copy for "InsufficientResources"`,
		},
		"one that does not wait": {waiting: map[model.JobKey]model.Code{}, says: `pod ns/p0 waits for "", and in the copy for "InsufficientResources"`},
	} {
		t.Run(name, func(t *testing.T) {
			counted, counting := 0, setting()
			counting.Differs = func() { counted++ }
			desk := NewDesk(&still{state: small(1), leading: true, waiting: c.waiting}, counting, clocktesting.NewFakePassiveClock(start))
			answer, err := desk.Ask(t.Context(), oneNode(1))
			if err != nil {
				t.Fatal(err)
			}
			if said := strings.Contains(strings.Join(answer.Notes, "\n"), "the copy decides otherwise than the scheduler has: "+c.says); said != (c.says != "") {
				t.Errorf("notes %q, want %q", answer.Notes, c.says)
			}
			if counted != 0 != (c.says != "") {
				t.Errorf("counted %d times", counted)
			}
		})
	}
}

func TestRefusedQuestions(t *testing.T) {
	text := "broken.yaml"
	for name, c := range map[string]struct {
		loop     *still
		question *debugapi.Question
		setting  *Setting
		is       func(error) bool
		says     string
	}{
		"not leading":   {loop: &still{}, question: oneNode(1), is: apierrors.IsServiceUnavailable, says: "does not lead"},
		"too many":      {question: &debugapi.Question{Changes: make([]debugapi.Change, 33)}, is: apierrors.IsBadRequest, says: "33 changes"},
		"too long":      {question: &debugapi.Question{For: metav1.Duration{Duration: 8 * 24 * time.Hour}}, is: apierrors.IsBadRequest, says: "192h"},
		"empty":         {question: &debugapi.Question{Changes: make([]debugapi.Change, 1)}, is: apierrors.IsBadRequest, says: "exactly one field"},
		"configuration": {question: &debugapi.Question{Changes: []debugapi.Change{{Config: &text}}}, is: apierrors.IsBadRequest, says: "broken.yaml:1"},
		"panic": {
			question: oneNode(1), is: apierrors.IsInternalError, says: "panicked in the rehearsal, not in the scheduler",
			setting: &Setting{Profile: setting().Profile, Show: func(*cluster.State) { panic("a plugin") }, Reset: func() {}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.loop == nil {
				c.loop = &still{leading: true}
			}
			c.loop.state = small(1)
			if c.setting == nil {
				c.setting = setting()
			}
			desk := NewDesk(c.loop, c.setting, clocktesting.NewFakePassiveClock(start))
			for range 2 { // the turn is given back
				answer, err := desk.Ask(t.Context(), c.question)
				if answer != nil || !c.is(err) || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%+v, %v: want %q", answer, err, c.says)
				}
			}
		})
	}
}

// TestQuestionsWaitForTheirTurn: as many as are let wait, and the next one is refused; none of them is answered while the
// loop is busy.
func TestQuestionsWaitForTheirTurn(t *testing.T) {
	loop := &still{state: small(1), leading: true, busy: true}
	desk := NewDesk(loop, setting(), clocktesting.NewFakePassiveClock(start))
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan error, maxWaiting)
	for range maxWaiting {
		go func() {
			_, err := desk.Ask(ctx, oneNode(1))
			answers <- err
		}()
	}
	for desk.waiting.Load() < maxWaiting {
		select {
		case err := <-answers:
			t.Fatal(err)
		default:
		}
	}
	if _, err := desk.Ask(t.Context(), oneNode(1)); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more: %v", err)
	}
	cancel()
	for range maxWaiting {
		if err := <-answers; !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) {
			t.Error(err)
		}
	}
}

// TestQuestionsTakeATenthOfTheTime: after thirty seconds together there is a pause, ten times as long as what is overdrawn.
func TestQuestionsTakeATenthOfTheTime(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	slow := setting()
	slow.Reset = func() { clock.SetTime(clock.Now().Add(8 * time.Second)) } // after each of two plays
	desk := NewDesk(&still{state: small(1), leading: true}, slow, clock)
	for i := range 3 {
		if _, err := desk.Ask(t.Context(), oneNode(1)); err != nil {
			t.Fatalf("question %d: %v", i, err)
		}
	}
	_, err := desk.Ask(t.Context(), oneNode(1))
	wait, known := apierrors.SuggestsClientDelay(err)
	if !apierrors.IsTooManyRequests(err) || !known || wait < 100 || wait > 160 {
		t.Fatalf("%v, after %d s", err, wait)
	}
	clock.SetTime(clock.Now().Add(time.Duration(wait) * time.Second))
	if _, err := desk.Ask(t.Context(), oneNode(1)); err != nil {
		t.Errorf("after %d s: %v", wait, err)
	}
}

func TestAPlayThatIsTooLongIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	moment := &scheduler.Moment{Contents: small(1).Contents(), Delays: backoff.NewDelays(), Leading: true}
	r, err := newRehearsal(moment, setting(), nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if c, err := r.play(ctx, time.Hour); c != nil || !errors.Is(err, ErrTooLong) {
		t.Errorf("%+v, %v", c, err)
	}
}

func BenchmarkAsk(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			moment := &scheduler.Moment{Contents: small(nodes).Contents(), Delays: backoff.NewDelays(), Leading: true}
			for b.Loop() {
				if _, err := answerTo(b.Context(), oneNode(1), nil, moment, setting()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// listening is a live loop that keeps the findings that it receives.
type listening struct {
	*still
	version  uint64
	rounds   int
	findings map[model.JobKey]scheduler.Finding
}

func (l *listening) Refused() (version uint64, jobs int) { return l.version, 1 }

func (l *listening) Advise(findings map[model.JobKey]scheduler.Finding) {
	l.findings, l.rounds = findings, l.rounds+1
}

func (l *listening) Moment(deliver func(*scheduler.Moment)) {
	l.still.Moment(func(moment *scheduler.Moment) {
		refusal := &model.Refusal{Code: model.InsufficientResources, Needs: 1}
		refusals := map[model.JobKey]*model.Refusal{{Namespace: "ns", Name: "p0", Source: model.SourcePod}: refusal}
		moment.Version, moment.Refused = l.version, scheduler.RefusedOf(l.state.LastSnapshot(), refusals)
		deliver(moment)
	})
}

// TestRoundsLookForAdvice once something has changed, again when an answer is old, and not while questions have taken half
// of their time. What they take is measured.
func TestRoundsLookForAdvice(t *testing.T) {
	clock, took := clocktesting.NewFakePassiveClock(start), map[string]int{}
	measured := setting()
	measured.Took = func(purpose string, _ time.Duration) { took[purpose]++ }
	live := &listening{still: &still{state: small(1), leading: true}, version: 1}
	desk, r := NewDesk(live, measured, clock), &rounds{}
	round := func(want int) {
		t.Helper()
		if desk.round(t.Context(), live, r); live.rounds != want {
			t.Fatalf("%d rounds, want %d", live.rounds, want)
		}
	}
	round(1)
	said := live.findings[model.JobKey{Namespace: "ns", Name: "p0", Source: model.SourcePod}]
	if said.Advice == nil || said.Advice.Message != "add 1 node like n0" || said.Version != 1 {
		t.Fatalf("%+v", said.Advice)
	}
	round(1) // nothing has changed
	live.version = 2
	round(2)
	if again := live.findings[model.JobKey{Namespace: "ns", Name: "p0", Source: model.SourcePod}]; again.Version != 1 {
		t.Error("an answer is looked for again that is not old")
	}
	clock.SetTime(clock.Now().Add(answerLasts))
	round(3)
	if again := live.findings[model.JobKey{Namespace: "ns", Name: "p0", Source: model.SourcePod}]; again.Version != 2 {
		t.Error("an old answer is kept after a change")
	}
	live.version = 3
	desk.pay(maxCredit/2 + time.Second)
	round(3)
	clock.SetTime(clock.Now().Add(time.Minute))
	round(4)
	if took[forRound] != 4 {
		t.Errorf("measured: %v", took)
	}
}

// TestATrialIsTakenBack: after all candidates the copy is as it was.
func TestATrialIsTakenBack(t *testing.T) {
	state, delays := small(3), backoff.NewDelays()
	node := state.LastSnapshot().Node("n2").Object.DeepCopy()
	node.Spec.Unschedulable = true
	state.Apply(&cluster.NodeSeen{Node: node})
	state.Apply(&cluster.PriorityClassSeen{Class: &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 9}})
	state.Snapshot(start)
	trials, err := newTrials(&scheduler.Moment{
		Contents: state.Contents(), Delays: delays, Gangs: lifecycle.New(time.Minute, delays), Leading: true,
	}, setting())
	if err != nil {
		t.Fatal(err)
	}
	versions := regexp.MustCompile(`v[0-9]+\b`) // of objects, which are newer afterwards
	text := func() string { return versions.ReplaceAllString(trials.state.Snapshot(start).Text(), "v") }
	before, refusal := text(), &model.Refusal{Code: model.InsufficientResources, Needs: 1}
	for _, of := range scheduler.RefusedOf(state.LastSnapshot(), map[model.JobKey]*model.Refusal{
		{Namespace: "ns", Name: "p0", Source: model.SourcePod}: refusal, {Namespace: "ns", Name: "p1", Source: model.SourcePod}: refusal,
	}) {
		if advice := trials.advise(&of); advice == nil {
			t.Errorf("%s: no advice", of.Key)
		}
		if after := text(); after != before {
			t.Errorf("after the trials for %s the copy is another one:\n%s\nbefore\n%s", of.Key, after, before)
		}
	}
}
