package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned/fake"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

func queue(name string, version string, change func(*v1alpha1.Queue)) *v1alpha1.Queue {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: version}}
	if q.Spec.NamespaceSelector = &(metav1.LabelSelector{}); change != nil {
		change(q)
	}
	return q
}

// TestAStatusOfAQueueDecidesNothing: a report compares it with what is to be written, but no cycle follows, and no revision
// is new.
func TestAStatusOfAQueueDecidesNothing(t *testing.T) {
	s := newState(node("n1", "cpu", "4"), queue("a", "1", nil), pod("p", label(v1alpha1.LabelQueue, "a")))
	before, revision := s.Snapshot(start).Version, s.snapshot.Journal.Revision()
	said := queue("a", "2", func(q *v1alpha1.Queue) { q.Status.Running = 7 })
	if effect := s.Apply(seen(said)); effect != (Effect{Report: true}) || s.Queue("a").Status.Running != 7 {
		t.Errorf("a status has the effect %+v", effect)
	}
	again := queue("a", "2.1", func(q *v1alpha1.Queue) { q.Status.Running = 7 })
	if effect := s.Apply(seen(again)); effect != (Effect{}) {
		t.Errorf("a version that says the same has the effect %+v", effect)
	}
	if after := s.Snapshot(start); after.Version != before || after.Journal.Revision() != revision {
		t.Error("a status changes the snapshot")
	}
	limited := queue("a", "3", func(q *v1alpha1.Queue) { q.Spec.Limit = list("cpu", "1") })
	if effect := s.Apply(seen(limited)); !effect.Schedule || !effect.Report {
		t.Errorf("a limit has the effect %+v", effect)
	}
	if after := s.Snapshot(start); after.Version == before || after.Journal.Revision() == revision {
		t.Error("a limit changes no snapshot")
	}
}

// TestALimitAboveWhatAPodMayAskFor: a limit for all nodes together is not cut to what is possible for one pod.
func TestALimitAboveWhatAPodMayAskFor(t *testing.T) {
	for _, test := range []struct {
		name corev1.ResourceName
		text string
		want int64
	}{
		{"cpu", "1500m", 1500}, {"memory", "15Pi", 15 << 50}, {"memory", "9Ei", 1<<63 - 1}, {"cpu", "99999999999999999999", 1<<63 - 1}, {"cpu", "0", 0},
	} {
		if got := amountOf(test.name, list("x", test.text)["x"]); got != test.want {
			t.Errorf("%s %s is %d, want %d", test.text, test.name, got, test.want)
		}
	}
}

// TestTheQueueOfAJobIsThatOfANewProcess: whatever changes in the object, and in whatever order.
func TestTheQueueOfAJobIsThatOfANewProcess(t *testing.T) {
	versions := map[string]func(*v1alpha1.Queue){
		"open":       func(*v1alpha1.Queue) {},
		"closed":     func(q *v1alpha1.Queue) { q.Spec.NamespaceSelector = nil },
		"unreadable": func(q *v1alpha1.Queue) { q.Spec.NamespaceSelector, q.Spec.Limit = nil, list("cpu", "-1") },
		"paused":     func(q *v1alpha1.Queue) { q.Spec.NamespaceSelector, q.Spec.Paused = nil, true },
	}
	named := pod("p", label(v1alpha1.LabelQueue, "a"))
	for from, before := range versions {
		for to, after := range versions {
			s := newState(node("n1", "cpu", "4"), queue("a", "1", before), named)
			s.Snapshot(start)
			s.Apply(seen(queue("a", "2", after)))
			fresh := newState(node("n1", "cpu", "4"), queue("a", "2", after), named)
			got, want := s.Snapshot(start).Jobs[0], fresh.Snapshot(start).Jobs[0]
			if got.Queue != want.Queue || got.RefusedBy != want.RefusedBy {
				t.Errorf("%s, then %s: in %q, refused by %q; want %q, %q", from, to, got.Queue, got.RefusedBy, want.Queue, want.RefusedBy)
			}
		}
	}
}

// TestQueuesThatCannotBeRead: each stops itself, and says why.
func TestQueuesThatCannotBeRead(t *testing.T) {
	s := newState(
		queue("negative", "1", func(q *v1alpha1.Queue) { q.Spec.Guarantee = list("cpu", "-1") }),
		queue("selector", "1", func(q *v1alpha1.Queue) {
			q.Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles"}}
		}),
		queue("fine", "1", nil), node("n1", "cpu", "4"), pod("p", label(v1alpha1.LabelQueue, "selector")))
	snapshot := s.Snapshot(start)
	if got := snapshot.Jobs[0].Queue; got != "selector" {
		t.Errorf("a job of a queue whose selector cannot be read counts in %q", got)
	}
	for name, invalid := range map[string]bool{"negative": true, "selector": true, "fine": false, v1alpha1.DefaultQueue: false} {
		if got := snapshot.Queue(name).Invalid; (got != nil) != invalid || invalid && got.Code != model.QueueInvalid {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhyAQueueIsNotActive: each error has a word of its own, also for the queues below.
func TestWhyAQueueIsNotActive(t *testing.T) {
	under := func(name, parent string) *v1alpha1.Queue {
		return queue(name, "1", func(q *v1alpha1.Queue) { q.Spec.Parent = parent })
	}
	objects := []any{
		under("orphan", "missing"), under("of-orphan", "orphan"), under("x", "y"), under("y", "x"),
		queue("stopped", "1", func(q *v1alpha1.Queue) { q.Spec.Paused = true }), under("of-stopped", "stopped"),
		queue("negative", "1", func(q *v1alpha1.Queue) { q.Spec.Limit = list("cpu", "-1") }), under("d0", ""),
	}
	for i := range 8 {
		objects = append(objects, under(fmt.Sprintf("d%d", i+1), fmt.Sprintf("d%d", i)))
	}
	snapshot := newState(objects...).Snapshot(start)
	for name, want := range map[string]string{
		"orphan": "ParentNotFound", "of-orphan": "ParentNotFound", "x": "Cycle", "y": "Cycle", "d7": "", "d8": "TooDeep",
		"stopped": "Paused", "of-stopped": "Paused", "negative": "Invalid", v1alpha1.DefaultQueue: "",
	} {
		if got := snapshot.Queue(name); got.Inactive != want || (got.Invalid == nil) != (want == "") {
			t.Errorf("%s: %q, want %q; %v", name, got.Inactive, want, got.Invalid)
		}
	}
}

// TestServesQueues: where they are not served, or forbidden, there are none; another error is one.
func TestServesQueues(t *testing.T) {
	resource := v1alpha1.Resource("queues")
	for _, test := range []struct {
		answer         error
		serves, failed bool
	}{
		{nil, true, false}, {apierrors.NewNotFound(resource, ""), false, false},
		{apierrors.NewForbidden(resource, "", errors.New("no right")), false, false}, {errors.New("down"), false, true},
	} {
		client := fake.NewClientset()
		client.PrependReactor("list", "queues", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &v1alpha1.QueueList{}, test.answer
		})
		serves, err := ServesQueues(context.Background(), client)
		if serves != test.serves || (err != nil) != test.failed {
			t.Errorf("the answer is %v: serves %t, %v", test.answer, serves, err)
		}
	}
}

// TestLastStart: what was decided counts until a status says something later, and ends with the queue.
func TestLastStart(t *testing.T) {
	says := func(version string, seconds int) *v1alpha1.Queue {
		return queue("inner", version, func(q *v1alpha1.Queue) {
			q.Status.LastStart = &metav1.MicroTime{Time: start.Add(time.Duration(seconds) * time.Second)}
		})
	}
	s := newState(node("n1", "cpu", "4"), says("1", 10), queue("leaf", "1", func(q *v1alpha1.Queue) { q.Spec.Parent = "inner" }),
		pod("p", label(v1alpha1.LabelQueue, "leaf")))
	want := func(what string, inner, leaf int) {
		t.Helper()
		snapshot := s.Snapshot(start)
		for name, seconds := range map[string]int{"inner": inner, "leaf": leaf} {
			wanted := time.Time{}
			if seconds > 0 {
				wanted = start.Add(time.Duration(seconds) * time.Second)
			}
			if got := snapshot.Queue(name).LastStart; !got.Equal(wanted) {
				t.Errorf("%s: %s is %s, want %s", what, name, got, wanted)
			}
		}
	}
	want("as written", 10, 0)
	decision := bind("p", "n1")
	decision.Job, decision.LastStart = s.snapshot.Jobs[0].Key, start.Add(20*time.Second)
	s.Assume(decision)
	want("decided", 20, 20)
	s.snapshot.Queue("leaf").LastStart = start.Add(time.Hour)
	want("left by a session and not decided", 20, 20)
	s.Apply(seen(says("2", 15)))
	want("an older status", 20, 20)
	version := s.Snapshot(start).Version
	s.Apply(seen(says("3", 30)))
	want("a later status", 30, 20)
	if s.Snapshot(start).Version == version {
		t.Error("a session may rest although the order has changed")
	}
	decision.LastStart = start.Add(40 * time.Second)
	s.Assume(decision) // and no snapshot before the queue ends
	s.Apply(&QueueSeen{Queue: queue("leaf", "2", nil), Gone: true})
	s.Apply(seen(queue("leaf", "3", func(q *v1alpha1.Queue) { q.UID, q.Spec.Parent = "another", "inner" })))
	want("made again", 40, 0)
}

// TestALeaderReadsBackWhatTheLastOneStarted: of the starts that no status of a queue says, from the pods that run, and from the
// groups of those that have ended.
func TestALeaderReadsBackWhatTheLastOneStarted(t *testing.T) {
	at := func(seconds int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second)) }
	bound := func(seconds int) podOption {
		return func(p *corev1.Pod) {
			p.Spec.NodeName = "n"
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(seconds)}}
		}
	}
	whole := func(seconds int) func(*v1alpha1.PodGroup) {
		return func(g *v1alpha1.PodGroup) {
			g.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, LastTransitionTime: at(seconds)}}
		}
	}
	ended := func(seconds int) func(*v1alpha1.PodGroup) {
		return func(g *v1alpha1.PodGroup) {
			g.Status.Phase, g.Status.FinishedAt = v1alpha1.PodGroupSucceeded, ptr.To(at(seconds))
		}
	}
	inQueue := func(name string) func(*v1alpha1.PodGroup) {
		return func(g *v1alpha1.PodGroup) {
			g.Spec.Queue, g.Spec.SchedulerName, g.Status.SchedulerName = name, "tutti", "tutti"
		}
	}
	in := func(name string) podOption { return label(v1alpha1.LabelQueue, name) }
	for _, test := range []struct {
		name    string
		objects []any
		says    int // what the status of the queue says, in seconds; 0 is nothing
		want    time.Duration
	}{
		{"nothing has started", []any{pod("p", in("q"))}, 0, 0},
		{"a pod", []any{pod("p", in("q"), bound(20))}, 10, 20 * time.Second},
		{"a pod, and the queue has no status", []any{pod("p", in("q"), bound(20))}, 0, 20 * time.Second},
		{"the last of two", []any{pod("a", in("q"), bound(20)), pod("b", in("q"), bound(21)), pod("c", in("other"), bound(30))}, 10, 21 * time.Second},
		{"it is in the status already", []any{pod("p", in("q"), bound(11))}, 10, 10 * time.Second},
		{"the status says a later one", []any{pod("p", in("q"), bound(20))}, 25, 25 * time.Second},
		{"a gang", []any{group("g", 2, inQueue("q")), pod("a", of("g"), bound(20)), pod("b", of("g"), bound(21))}, 10, 20 * time.Second},
		{"a gang whose start is not complete", []any{group("g", 2, inQueue("q")), pod("a", of("g"), bound(20)), pod("b", of("g"))}, 10, 20 * time.Second},
		{"a member beyond the minimum", []any{group("g", 1, inQueue("q"), whole(5)), pod("a", of("g"), bound(5)), pod("b", of("g"), bound(20))}, 5, 5 * time.Second},
		{"members in place of lost ones", []any{group("g", 2, inQueue("q"), whole(5)), pod("a", of("g"), bound(20)), pod("b", of("g"), bound(21))}, 5, 5 * time.Second},
		{"a gang that has ended", []any{group("g", 2, inQueue("q"), whole(20), ended(25))}, 10, 20 * time.Second},
		{"a gang that has ended before it was seen whole", []any{group("g", 2, inQueue("q"), ended(20))}, 10, 20 * time.Second},
		{"a gang that has ended, with its pods", []any{group("g", 1, inQueue("q"), whole(20)), pod("a", of("g"), bound(20), phase(corev1.PodSucceeded))}, 10, 20 * time.Second},
		{"a gang that waits again", []any{group("g", 1, inQueue("q")), pod("a", of("g"))}, 10, 10 * time.Second},
	} {
		objects := append([]any{node("n", "cpu", "9"), queue("all", "1", nil), queue("other", "1", nil), queue("q", "1", func(q *v1alpha1.Queue) {
			if q.Spec.Parent = "all"; test.says > 0 {
				q.Status.LastStart = &metav1.MicroTime{Time: start.Add(time.Duration(test.says) * time.Second)}
			}
		})}, test.objects...)
		s := newState(objects...)
		said := s.Snapshot(start).Queue("q").LastStart
		s.Lead()
		for range 2 {
			snapshot, want := s.Snapshot(start), time.Time{}
			if test.want > 0 {
				want = start.Add(test.want)
			}
			if got := snapshot.Queue("q").LastStart; !got.Equal(want) {
				t.Errorf("%s: %s, want %s", test.name, got, want)
			}
			if above := snapshot.Queue("all").LastStart; !want.Equal(said) && !above.Equal(want) {
				t.Errorf("%s: the queue above says %s, want %s", test.name, above, want)
			}
		}
	}
}
