package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// coscheduling makes pods that name a group of scheduling.x-k8s.io.
func (w *world) coscheduling(name string, members, minMember int) {
	w.cosched(name, minMember)
	for i := range members {
		w.member(name, i)
		w.change(fmt.Sprintf("%s-%d", name, i), func(pod *corev1.Pod) {
			delete(pod.Labels, v1alpha1.LabelPodGroup)
			pod.Labels[sources.LabelCoscheduling] = name
		})
	}
}

// cosched makes or changes the object of such a group.
func (w *world) cosched(name string, minMember int) {
	spec := &sources.Spec{Source: model.SourceCoscheduling, MinMember: int32(minMember)}
	spec.Namespace, spec.Name, spec.UID = "default", name, types.UID("foreign-"+name)
	w.meta(spec)
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec})
}

func (w *world) cannotRead(how cluster.Reading) {
	w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceCoscheduling, Reading: how})
}

// TestAForeignGroupStartsAsAWhole, and its pods say why it does not.
func TestAForeignGroupStartsAsAWhole(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.coscheduling("mpi", 3, 3)
	w.cannotRead(cluster.IsRead)
	if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); len(got) != 0 {
		t.Errorf("bound %q on capacity for two", got)
	}
	first, second := w.told("mpi-0"), w.told("mpi-1")
	if first == nil || !strings.HasPrefix(first.Message, "needs 3, 2 would fit") {
		t.Errorf("the oldest says %+v", first)
	}
	if want := `waits with its group "mpi": InsufficientResources; the oldest of its pods that wait says more`; second == nil || second.Message != want {
		t.Errorf("another one says %+v", second)
	}
	w.node("n2", "2")
	if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); len(got) != 3 {
		t.Errorf("bound %q", got)
	}
}

// TestAForeignMinimumRaisedWhileVolumesArePrepared is not missed, nor is a group that cannot be read any more.
func TestAForeignMinimumRaisedWhileVolumesArePrepared(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"raised":       func(w *world) { w.cosched("mpi", 4) },
		"not served":   func(w *world) { w.cannotRead(cluster.NotServed) },
		"not readable": func(w *world) { w.cannotRead(cluster.NotAllowed) },
	} {
		k := newKeeper(t)
		k.node("n1", "8")
		k.cannotRead(cluster.IsRead)
		k.coscheduling("mpi", 3, 3)
		k.keep["mpi-2"] = commit.Call{}
		k.play(t.Context(), time.Minute)
		happens(k.world)
		calls := order(k.play(t.Context(), time.Minute))
		if strings.Contains(calls, "Bind") || strings.Count(calls, "Release") != 3 {
			t.Errorf("%s: calls: %s, want everything given back and no bind", name, calls)
		}
	}
}

// intruder does something while a session is open, after the session's snapshot was taken.
type intruder struct {
	does func()
	done bool
}

func (*intruder) Name() string { return "intruder" }

func (i *intruder) Execute(*engine.Session) {
	if !i.done {
		i.done = true
		i.does()
	}
}

// TestAForeignGroupThatChangesWhileTheSessionGoesOn holds back what that has decided.
func TestAForeignGroupThatChangesWhileTheSessionGoesOn(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"raised":     func(w *world) { w.cosched("mpi", 4) },
		"not served": func(w *world) { w.cannotRead(cluster.NotServed) },
	} {
		w := newWorld(t)
		w.loop.profile.Actions = append([]engine.Action{&intruder{does: func() { happens(w) }}}, w.loop.profile.Actions...)
		w.node("n1", "8")
		w.cannotRead(cluster.IsRead)
		w.coscheduling("mpi", 3, 3)
		if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); len(got) != 0 {
			t.Errorf("%s: bound %q", name, got)
		}
	}
}

// TestForeignGroupsAfterARestart: what a new process does with a gang follows from its pods and its object. One of which all are
// bound is no interrupted start, though nothing of it runs yet, and of one whose object is not known nothing is deleted.
func TestForeignGroupsAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		bound   int
		first   corev1.PodPhase
		reading cluster.Reading
		gone    bool
		singly  bool
		raised  bool
		want    []string
	}{
		"all are bound, and nothing runs":  {bound: 3, reading: cluster.IsRead},
		"in part, and nothing runs":        {bound: 2, reading: cluster.IsRead, want: []string{"mpi-0 n1", "mpi-1 n1"}},
		"all, before the minimum was 4":    {bound: 3, raised: true, reading: cluster.IsRead},
		"as before, and one has succeeded": {bound: 3, first: corev1.PodSucceeded, raised: true, reading: cluster.IsRead},
		"in part, bound one by one":        {bound: 2, reading: cluster.IsRead, singly: true},
		"in part, and one runs":            {bound: 2, first: corev1.PodRunning, reading: cluster.IsRead},
		"in part, and one has succeeded":   {bound: 2, first: corev1.PodSucceeded, reading: cluster.IsRead},
		"in part, and its object is gone":  {bound: 2, reading: cluster.IsRead, gone: true},
		"in part, and it cannot be read":   {bound: 2, reading: cluster.NotAllowed, gone: true},
		"in part, and it is not read yet ": {bound: 2, reading: cluster.NotRead, gone: true},
	} {
		w := newWorld(t)
		w.node("n1", "8")
		w.coscheduling("mpi", c.bound, 3)
		if c.raised {
			w.object("foreign-mpi", 4, false)
		}
		if c.gone {
			spec := &sources.Spec{Source: model.SourceCoscheduling}
			spec.Namespace, spec.Name, spec.UID = "default", "mpi", "foreign-mpi"
			w.meta(spec)
			w.mailbox.Event(&cluster.ForeignSeen{Spec: spec, Gone: true})
		}
		w.cannotRead(c.reading)
		for i := range c.bound {
			w.change(fmt.Sprintf("mpi-%d", i), func(pod *corev1.Pod) {
				w.boundAnHourAgo(pod)
				if c.singly || i == 0 && c.first == corev1.PodSucceeded { // nothing of it is kept once a pod has ended
					delete(pod.Annotations, v1alpha1.AnnotationJob)
				}
				if i == 0 {
					pod.Status.Phase = c.first
				}
			})
		}
		if got := sent(w.play(t.Context(), 2*time.Minute), commit.CallDeleteStarted); !slices.Equal(got, c.want) {
			t.Errorf("%s: undone %q, want %q", name, got, c.want)
		}
	}
}

// TestAStatusOfAForeignGroupCostsNoCycle, by any writer.
func TestAStatusOfAForeignGroupCostsNoCycle(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "1")
	w.coscheduling("mpi", 3, 3)
	w.cannotRead(cluster.IsRead)
	w.play(t.Context(), time.Minute)
	before := w.loop.state.Snapshot(w.clock.Now()).Version
	for range 10 {
		w.cosched("mpi", 3)
		w.play(t.Context(), time.Second)
	}
	if after := w.loop.state.Snapshot(w.clock.Now()).Version; after != before {
		t.Errorf("version %d became %d", before, after)
	}
}

// marked gives a pod the marks of a group of a source, of three members.
func marked(source model.Source, pod *corev1.Pod, group string, i int) {
	delete(pod.Labels, v1alpha1.LabelPodGroup)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	switch source {
	case model.SourceCoscheduling:
		pod.Labels[sources.LabelCoscheduling] = group
	case model.SourceVolcano:
		pod.Annotations[v1alpha1.AnnotationKubeBatchGroup] = group
	case model.SourceNative:
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	case model.SourceKueue:
		pod.Labels[sources.KueueGroup], pod.Annotations[sources.KueueTotal] = group, "3"
	case model.SourceLeaderWorkerSet:
		pod.Labels[sources.LWSGroupKey], pod.Labels[sources.LWSWorkerIndex], pod.Annotations[sources.LWSSize] = group, fmt.Sprint(i), "3"
	case model.SourceJobSet:
		pod.Labels["jobset.sigs.k8s.io/jobset-name"], pod.Labels["jobset.sigs.k8s.io/replicatedjob-name"] = group, "workers"
	case model.SourceMPIJob:
		pod.Labels["training.kubeflow.org/job-name"], pod.Labels["training.kubeflow.org/operator-name"] = group, "mpi-operator"
		pod.Labels["training.kubeflow.org/job-role"] = []string{"launcher", "worker", "worker"}[i]
	}
}

// foreignObject shows the object of a group of three, if its source has one, and that objects of its kind can be read.
func (w *world) foreignObject(source model.Source, name string) {
	if source < model.SourceCoscheduling {
		return
	}
	spec := &sources.Spec{Source: source, MinMember: 3}
	spec.Namespace, spec.Name, spec.UID = "default", name, types.UID("foreign-"+name)
	switch source {
	case model.SourceVolcano:
		w.foreign[name] = spec
	case model.SourceJobSet:
		spec.Roles = []model.Role{{Name: "workers", MinMember: 3}}
	case model.SourceMPIJob:
		spec.Roles = []model.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: 2}}
	}
	w.meta(spec)
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec})
	w.mailbox.Event(&cluster.ReadingChanged{Source: source, Reading: cluster.IsRead})
}

// next is a new process with the nodes and pods that this one has left.
func (w *world) next(t tester) *world {
	next := newWorld(t)
	next.clock.SetTime(w.clock.Now())
	next.version = w.version
	for name := range w.nodes {
		next.node(name, w.nodes[name].Status.Allocatable.Cpu().String())
	}
	for _, pod := range w.pods {
		next.pod(pod.DeepCopy())
	}
	return next
}

// sourcesOfGroups are those whose groups other projects describe.
func sourcesOfGroups() []model.Source {
	return []model.Source{
		model.SourceCoscheduling, model.SourceVolcano, model.SourceNative, model.SourceKueue, model.SourceLeaderWorkerSet,
		model.SourceJobSet, model.SourceMPIJob,
	}
}

// bindsOf lets a process bind so many members of a gang of three, none of which runs, and ends it then.
func bindsOf(t *testing.T, source model.Source, most int) *world {
	t.Helper()
	w := newWorld(t)
	w.node("n1", "3")
	w.foreignObject(source, "mpi")
	for i := range 3 {
		w.member("mpi", i)
		w.change(fmt.Sprintf("mpi-%d", i), func(pod *corev1.Pod) { marked(source, pod, "mpi", i) })
	}
	binds := 0
	w.drop = func(call commit.Call) bool {
		if call.Kind == commit.CallBind {
			binds++
		}
		return binds > most || binds == 3 && call.Kind != commit.CallBind // it is killed by then
	}
	w.play(t.Context(), 10*time.Second)
	bound := 0
	for _, pod := range w.pods {
		if pod.Spec.NodeName != "" {
			bound++
		}
	}
	if bound != most {
		t.Fatalf("%s: bound %d, want %d", source.Kind(), bound, most)
	}
	return w
}

// TestALeaderKilledAfterTheLastBind of a group of another project, before any container runs, leaves a gang that is whole:
// the next one takes it for no interrupted start, whenever it can read the object.
func TestALeaderKilledAfterTheLastBind(t *testing.T) {
	for _, source := range sourcesOfGroups() {
		for _, unread := range []time.Duration{0, 5 * time.Second, time.Minute} {
			next := bindsOf(t, source, 3).next(t)
			calls := next.play(t.Context(), unread)
			next.foreignObject(source, "mpi")
			calls = append(calls, next.play(t.Context(), 5*time.Minute)...)
			if done := kinds(calls); done[commit.CallDeleteStarted]+done[commit.CallDelete]+done[commit.CallEvict] > 0 || len(next.pods) != 3 {
				t.Errorf("%s, read after %s: %v, %d pods left", source.Kind(), unread, done, len(next.pods))
			}
		}
	}
}

// TestALeaderKilledInTheMiddleOfAForeignGroup leaves an interrupted start: the next one completes it where there is capacity, and
// undoes it where there is none, whenever it can read the object.
func TestALeaderKilledInTheMiddleOfAForeignGroup(t *testing.T) {
	for _, source := range sourcesOfGroups() {
		for _, unread := range []time.Duration{0, 5 * time.Second, time.Minute} {
			for _, cpu := range []string{"3", "2"} {
				next := bindsOf(t, source, 2).next(t)
				next.node("n1", cpu)
				next.play(t.Context(), unread)
				next.foreignObject(source, "mpi")
				next.play(t.Context(), 5*time.Minute)
				bound := 0
				for _, pod := range next.pods {
					if pod.Spec.NodeName != "" {
						bound++
					}
				}
				if want := map[string]int{"3": 3, "2": 0}[cpu]; bound != want {
					t.Errorf("%s, read after %s, %s CPUs: %d are bound, want %d", source.Kind(), unread, cpu, bound, want)
				}
			}
		}
	}
}
