package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

const eightToEleven = `{"v":1,"gen":1,"source":"isolcpus","isolated":"8-11","online":"0-11","mode":"included","threadsPerCore":1,` +
	`"numa":[{"id":0,"cpus":"8-11","cores":["8","9","10","11"]}],"kubelet":{}}`

// isolating returns a node with CPUs 8-11 isolated, in the given version.
func isolating(name string, version int) *corev1.Node {
	n := node(name)
	n.ResourceVersion = fmt.Sprint(version)
	n.Annotations = map[string]string{isolated.TopologyAnnotation: eightToEleven}
	return n
}

// holding is of a pod on node n that holds CPUs, since so many seconds after the start.
func holding(cpus string, since int) podOption {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = "n"
		annotation(isolated.RequestAnnotation, "true")(p)
		annotation(isolated.AssignedAnnotation, fmt.Sprintf(
			`{"v":1,"node":"n","uid":%q,"cpus":%q,"containers":{"main":%q}}`, p.UID, cpus, cpus))(p)
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(start.Add(time.Duration(since) * time.Second)),
		}}
	}
}

// TestIsolatedCPUsAreReadBack: a state that begins with what the API server has knows who holds what, in whatever order it
// comes.
func TestIsolatedCPUsAreReadBack(t *testing.T) {
	events := []Event{
		&NodeSeen{Node: isolating("n", 1)},
		&PodSeen{Pod: pod("a", holding("8-9", 1))},
		&PodSeen{Pod: pod("b", holding("10", 1), deleting(start))},
		&PodSeen{Pod: pod("c", holding("11", 1), phase(corev1.PodSucceeded))},
		&PodSeen{Pod: pod("d", holding("11", 1), func(p *corev1.Pod) { p.Spec.NodeName = "" })},
		&PodSeen{Pod: pod("e", holding("11", 1), func(p *corev1.Pod) { p.UID = "another" })},
	}
	for seed := range uint64(20) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		s := newState()
		for _, event := range events {
			s.Apply(event)
		}
		n := s.Snapshot(start).Node("n")
		if held, soon := n.HeldCPUs(false), n.HeldCPUs(true); held.String() != "8-10" || soon.String() != "8-9" {
			t.Errorf("CPUs %s are held, %s when who leaves has left; want 8-10 and 8-9", held, soon)
		}
	}
}

// TestAssumedCPUsAreHeldUntilForgotten follows a bind in flight.
func TestAssumedCPUsAreHeldUntilForgotten(t *testing.T) {
	s := newState()
	s.Apply(&NodeSeen{Node: isolating("n", 1)})
	s.Apply(&PodSeen{Pod: pod("p", revised(2), annotation(isolated.RequestAnnotation, "true"))})
	given := &isolated.Assignment{Version: 1, Node: "n", UID: "p", CPUs: isolated.NewCPUSet(8, 9)}
	decision := model.Decision{Binds: []model.Bind{{Pod: model.PodRef{UID: "p"}, Node: "n", Isolated: &model.Isolation{Assignment: given}}}}
	held := func() string { return s.Snapshot(start).Node("n").HeldCPUs(false).String() }
	s.Assume(decision)
	if held() != "8-9" {
		t.Errorf("%q are held while the bind is in flight", held())
	}
	s.Apply(&PodSeen{Pod: pod("p", revised(3), annotation(isolated.RequestAnnotation, "true"), label("a", "b"))})
	if held() != "8-9" {
		t.Errorf("%q are held after an update of the pod", held())
	}
	if s.Forget("p"); held() != "" {
		t.Errorf("%q are held after the bind was forgotten", held())
	}
	s.Assume(decision)
	s.Apply(&PodSeen{Pod: pod("p", holding("10", 1), revised(4))})
	if held() != "10" {
		t.Errorf("%q are held, and 10 stands on the pod", held())
	}
}

// TestConflicts has each kind, found in any order of events: who was bound first keeps its CPUs.
func TestConflicts(t *testing.T) {
	events := []Event{
		&NodeSeen{Node: isolating("n", 1)},
		&PodSeen{Pod: pod("x", holding("8-9", 1))},
		&PodSeen{Pod: pod("b", holding("9-10", 2))},
		&PodSeen{Pod: pod("y", holding("11-12", 3))},
		&PodSeen{Pod: pod("c", holding("11", 4))},
		&PodSeen{Pod: pod("none", on("n"), annotation(isolated.RequestAnnotation, "true"))},
		&PodSeen{Pod: pod("stolen", holding("8", 5), func(p *corev1.Pod) { p.UID = "other" })},
		&PodSeen{Pod: pod("plain", on("n"))},
		&PodSeen{Pod: pod("grown", holding("8", 6), on("n"), asking("cpu", "1500m"), phase(corev1.PodRunning))},
		&PodSeen{Pod: pod("waits", annotation(isolated.RequestAnnotation, "true"))},
	}
	want := []string{
		"mismatch stolen: isolcpu.tutti.dev/assigned is of pod \"stolen\" on node \"n\"", "outside-set y: it holds CPUs 12, which are not isolated",
		"overlap b: it holds CPUs 9, which pod ns/x was given before",
		"overlap c: it holds CPUs 11, which pod ns/y was given before",
		"overlap grown: it holds CPUs 8, which pod ns/x was given before",
		"resized grown: its container main asks for 1500m, and holds CPUs 8; the rest is ordinary CPU",
		"unassigned none: it asks for isolated CPUs, and was bound without any",
	}
	for seed := range uint64(20) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		s := newState()
		for _, event := range events {
			s.Apply(event)
		}
		if got := told(s.TakeConflicts()); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if again := s.TakeConflicts(); again != nil {
			t.Errorf("returned twice: %v", again)
		}
		s.Apply(&PodSeen{Pod: pod("x", holding("8-9", 1), revised(7), phase(corev1.PodRunning))})
		smaller := isolating("n", 8)
		smaller.Annotations[isolated.TopologyAnnotation] = strings.NewReplacer(`"8-11"`, `"8-10"`, `,"11"]`, `]`).Replace(eightToEleven)
		s.Apply(&NodeSeen{Node: smaller})
		if got := told(s.TakeConflicts()); len(got) != 1 || !strings.HasPrefix(got[0], "outside-set c") {
			t.Errorf("after CPU 11 is not isolated any more: %q", got)
		}
	}
}

// TestOnlyWhoCanNeverRunYields: a pod yields to the one that was bound first, in the same second to the one with the smaller
// UID, and never to a pod that yields to a third.
func TestOnlyWhoCanNeverRunYields(t *testing.T) {
	events := []Event{
		&NodeSeen{Node: isolating("n", 1)},
		&PodSeen{Pod: pod("first", holding("8-9", 1))},
		&PodSeen{Pod: pod("second", holding("9-10", 2))},
		&PodSeen{Pod: pod("third", holding("10", 3))}, // which it has when the second is gone
		&PodSeen{Pod: pod("e", holding("11", 4))},
		&PodSeen{Pod: pod("d", holding("11", 4))},
		&PodSeen{Pod: pod("leaves", holding("8", 5), deleting(start))},
		&PodSeen{Pod: pod("theirs", holding("8", 6), by("another"))},
		// No scheduler has bound it: it was created on the node.
		&PodSeen{Pod: pod("created", holding("8", 0), func(p *corev1.Pod) { p.Status.Conditions = nil }, created(start.Add(7*time.Second)))},
	}
	yielding := func(s *State) []string {
		s.TakeConflicts()
		return told(s.ConflictLosers())
	}
	for seed := range uint64(20) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		s := newState()
		for _, event := range events {
			s.Apply(event)
		}
		want := []string{
			"overlap created: it holds CPUs 8, which pod ns/first was given before",
			"overlap e: it holds CPUs 11, which pod ns/d was given before", "overlap second: it holds CPUs 9, which pod ns/first was given before",
		}
		if got := yielding(s); !slices.Equal(got, want) {
			t.Errorf("%q yield, want %q", got, want)
		}
		evicted := model.Eviction{Pod: model.PodRef{UID: "second"}}
		s.Assume(model.Decision{Evictions: []model.Eviction{evicted}})
		if got := yielding(s); !slices.Equal(got, want[:2]) {
			t.Errorf("%q yield while one is being evicted, want %q", got, want[:2])
		}
		if s.ForgetEviction("second"); !slices.Equal(yielding(s), want) {
			t.Errorf("%q yield after the eviction failed, want %q", yielding(s), want)
		}
		s.Apply(&PodSeen{Pod: pod("first", holding("8-9", 1), revised(9), phase(corev1.PodSucceeded))})
		// Both who is leaving and the second are free to go on; they were bound before these.
		want[0] = "overlap created: it holds CPUs 8, which pod ns/leaves was given before"
		want[2] = "overlap third: it holds CPUs 10, which pod ns/second was given before"
		if got := yielding(s); !slices.Equal(got, want) {
			t.Errorf("%q yield when the first is gone, want %q", got, want)
		}
	}
}

func told(all []Conflict) []string {
	var lines []string
	for _, c := range all {
		lines = append(lines, fmt.Sprintf("%s %s: %s", c.Kind, c.Pod.Name, c.Detail))
	}
	slices.Sort(lines)
	return lines
}

func lease(node string, version int, renewed time.Time) *coordinationv1.Lease {
	seconds, at := int32(40), metav1.NewMicroTime(renewed)
	l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at, LeaseDurationSeconds: &seconds}}
	l.Name, l.UID, l.ResourceVersion = isolated.LeasePrefix+node, "lease", fmt.Sprint(version)
	return l
}

// TestLeases: only that an agent comes or goes is news, in whole seconds.
func TestLeases(t *testing.T) {
	s := New(Options{SchedulerNames: []string{"tutti"}, AgentLeases: LeasesWatched})
	version := 1
	renew := func(at time.Time) Effect {
		version++
		return s.Apply(&LeaseSeen{Lease: lease("n", version, at)})
	}
	stale := func(now time.Time) bool { return s.Snapshot(now).Node("n").AgentExpired }
	s.Apply(&NodeSeen{Node: isolating("n", 1)})
	s.Apply(&NodeSeen{Node: node("ordinary")})
	if !stale(start) || s.Snapshot(start).Node("ordinary").AgentExpired {
		t.Error("a node without an agent is fresh, or one that needs none stale")
	}
	if !renew(start).Schedule || stale(start) {
		t.Error("the first Lease is no news")
	}
	if at, ok := s.NextWake(start); !ok || !at.Equal(start.Add(40*time.Second)) {
		t.Errorf("wakes at %v, %v; want after 40 s", at, ok)
	}
	mark, before := s.snapshot.Journal.Cursor(), s.snapshot.Version
	for i := range 5 {
		now := start.Add(time.Duration(10*i+10) * time.Second)
		if effect := renew(now); effect.Schedule || effect.Report || stale(now) {
			t.Errorf("renewing is news: %+v", effect)
		}
	}
	if mark != s.snapshot.Journal.Cursor() || s.snapshot.Version != before {
		t.Error("renewing is in the journal, or makes another snapshot")
	}
	end := start.Add(90 * time.Second)
	if stale(end.Add(-time.Millisecond)) || !stale(end) || mark == s.snapshot.Journal.Cursor() || s.snapshot.Version == before {
		t.Error("it does not expire when it should")
	}
	if _, ok := s.NextWake(end); ok {
		t.Error("wakes for a Lease that has expired")
	}
	if !renew(end).Schedule || stale(end) {
		t.Error("that the agent is back is no news")
	}
	if gone := (&LeaseSeen{Lease: lease("n", 99, end), Gone: true}); !s.Apply(gone).Schedule || !stale(end) {
		t.Error("a Lease that is deleted is no news")
	}
	other := lease("n", 100, end)
	other.Name = "tutti-scheduler"
	if s.Apply(&LeaseSeen{Lease: other}).Schedule {
		t.Error("another Lease is news")
	}
}

// TestLeasesAfterAFreshStart: nodes that are made again after a panic are no fresher than they were.
func TestLeasesAfterAFreshStart(t *testing.T) {
	s := New(Options{SchedulerNames: []string{"tutti"}, AgentLeases: LeasesWatched})
	for _, event := range []Event{
		&NodeSeen{Node: isolating("n", 1)}, &NodeSeen{Node: isolating("there", 1)}, &LeaseSeen{Lease: lease("there", 1, start)},
	} {
		s.Apply(event)
	}
	s.Snapshot(start)
	s.Apply(&PodSeen{Pod: pod("bad")})
	panicOver(s, identity{kindPod, "ns", "bad"})
	snapshot := s.Snapshot(start)
	if n, there := snapshot.Node("n"), snapshot.Node("there"); len(s.TakeMalformed()) == 0 || !n.AgentExpired || there.AgentExpired {
		t.Errorf("without an agent expired is %v, with one %v", n.AgentExpired, there.AgentExpired)
	}
}

// TestLeasesAreNotLookedAtUnlessAskedFor: no node is gated by default.
func TestLeasesAreNotLookedAtUnlessAskedFor(t *testing.T) {
	s := newState()
	s.Apply(&NodeSeen{Node: isolating("n", 1)})
	if s.Snapshot(start).Node("n").AgentExpired {
		t.Error("a node is stale, and Leases are not watched")
	}
}

// TestMalformedPodKeepsItsCPUs: the CPUs of a pod that cannot be read are given to no other pod.
func TestMalformedPodKeepsItsCPUs(t *testing.T) {
	s := New(Options{SchedulerNames: []string{"tutti"}, Translators: []model.RequestTranslator{tripping{}}})
	s.Apply(&NodeSeen{Node: isolating("n", 1)})
	s.Apply(&PodSeen{Pod: pod("p", holding("8-9", 1), tripOver)})
	if held := s.Snapshot(start).Node("n").HeldCPUs(false).String(); held != "8-9" {
		t.Errorf("%q are held, want 8-9", held)
	}
}

// TestAnAssignmentCountsWithinItsNode: what a user writes on a pod that runs takes no ordinary CPU off it, but for CPUs that the
// node publishes while agents enforce them.
func TestAnAssignmentCountsWithinItsNode(t *testing.T) {
	four := asking("cpu", "4")
	for name, c := range map[string]struct {
		node   *corev1.Node
		leases AgentLeases
		cpus   string
		idle   int64
		held   string
	}{
		"none published":        {node("n"), LeasesIgnored, "8-11", 6000, ""},
		"all published":         {isolating("n", 1), LeasesIgnored, "8-11", 10_000, "8-11"},
		"half of it published":  {isolating("n", 1), LeasesIgnored, "10-13", 8000, "10-11"},
		"others published":      {isolating("n", 1), LeasesIgnored, "0-3", 6000, ""},
		"Leases watched":        {isolating("n", 1), LeasesWatched, "8-11", 10_000, "8-11"},
		"Leases not watched":    {isolating("n", 1), LeasesUnwatched, "8-11", 6000, ""},
		"fewer than it asks":    {isolating("n", 1), LeasesIgnored, "8", 7000, "8"},
		"more than it asks for": {isolating("n", 1), LeasesIgnored, "8-11", 10_000, "8-11"},
	} {
		for _, nodeFirst := range []bool{true, false} {
			s := New(Options{SchedulerNames: []string{"tutti"}, AgentLeases: c.leases, Translators: []model.RequestTranslator{charging{}}})
			if nodeFirst {
				s.Apply(seen(c.node))
			}
			s.Apply(seen(pod("p", four, holding(c.cpus, 1))))
			if !nodeFirst {
				s.Snapshot(start)
				s.Apply(seen(c.node))
			}
			n := s.Snapshot(start).Node("n")
			if got := n.Idle(model.CPU); got != c.idle || n.HeldCPUs(false).String() != c.held {
				t.Errorf("%s, node first %v: idle %d, held %s; want %d and %s", name, nodeFirst, got, n.HeldCPUs(false), c.idle, c.held)
			}
			if conflicts := s.TakeConflicts(); c.leases == LeasesUnwatched && len(conflicts) > 0 {
				t.Errorf("%s: %v", name, conflicts)
			}
		}
	}
}

// TestANodeThatPublishesNothingAnyMore has the pods on it counted again.
func TestANodeThatPublishesNothingAnyMore(t *testing.T) {
	s := New(Options{SchedulerNames: []string{"tutti"}, Translators: []model.RequestTranslator{charging{}}})
	s.Apply(seen(isolating("n", 1)))
	s.Apply(seen(pod("p", asking("cpu", "4"), holding("8-11", 1))))
	idle := func() int64 { return s.Snapshot(start).Node("n").Idle(model.CPU) }
	if got := idle(); got != 10_000 {
		t.Fatalf("idle %d", got)
	}
	ordinary := node("n")
	ordinary.ResourceVersion = "2"
	if s.Apply(seen(ordinary)); idle() != 6000 {
		t.Errorf("idle %d when nothing is published any more", idle())
	}
	if s.Apply(seen(isolating("n", 3))); idle() != 10_000 {
		t.Errorf("idle %d when all is published again", idle())
	}
	s.Apply(&NodeSeen{Node: isolating("n", 4), Gone: true})
	back := node("n")
	back.ResourceVersion, back.UID = "5", "another"
	if s.Apply(seen(back)); idle() != 6000 {
		t.Errorf("idle %d on another node of the name", idle())
	}
}

// charging charges ordinary CPU as plugin isolcpu does.
type charging struct{}

func (charging) Counts() []corev1.ResourceName { return []corev1.ResourceName{isolated.Resource} }

func (charging) TranslateRequest(_ *model.ResourceIndex, task *model.Task, request *model.Resources) *model.Refusal {
	if held := task.Isolated; held != nil {
		request.Set(model.CPU, isolated.SharedPoolRequest(task.Pod, held))
	}
	return nil
}

func (charging) TranslateCapacity(*model.ResourceIndex, *corev1.Node, *model.Resources) *model.Refusal {
	return nil
}
