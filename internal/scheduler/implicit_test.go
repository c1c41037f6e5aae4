package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// implicit makes pods of one batch Job that say how many of them must start together.
func (w *world) implicit(name string, members, minMember int) {
	for i := range members {
		w.implied(name, i, minMember)
	}
}

func (w *world) implied(name string, i, minMember int) {
	w.member(name, i)
	w.change(fmt.Sprintf("%s-%d", name, i), func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "batch/v1", Kind: "Job", Name: name, UID: "job-" + pod.UID[:len(name)], Controller: new(true),
		}}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationMinMember, fmt.Sprint(minMember))
	})
}

// change stores a changed copy of a pod.
func (w *world) change(name string, alter func(*corev1.Pod)) {
	for uid, pod := range w.pods {
		if pod.Name == name {
			pod = w.pods[uid].DeepCopy()
			alter(pod)
			w.pod(pod)
			return
		}
	}
	w.t.Fatalf("no pod %s", name)
}

func (w *world) told(name string) *corev1.PodCondition {
	for _, pod := range w.pods {
		if pod.Name == name {
			return model.PodScheduled(pod)
		}
	}
	return nil
}

// boundPods counts the pods that have a node.
func (w *world) boundPods() (n int) {
	for _, pod := range w.pods {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// TestImplicitGroupIsToldOnItsPods: the first that waits says it with numbers, and alone follows when they change.
func TestImplicitGroupIsToldOnItsPods(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.implicit("big", 4, 4)
	calls := w.play(t.Context(), 2*time.Second)
	if counts := kinds(calls); counts[commit.CallBind] != 0 || counts[commit.CallPodCondition] != 4 || counts[commit.CallEvent] != 1 {
		t.Errorf("calls %v, want four conditions, one event and no bind", counts)
	}
	want := map[string]string{
		"big-0": "needs 4, 2 would fit; 1 node lacks cpu; 2 members short of 1 cpu each; closest: node n1, missing 1 cpu",
		"big-3": `waits with its group "big": InsufficientResources; the oldest of its pods that wait says more`,
	}
	for name, message := range want {
		if c := w.told(name); c == nil || c.Message != message || c.Reason != corev1.PodReasonUnschedulable {
			t.Errorf("the condition of %s is %+v", name, c)
		}
	}
	if notes := events(calls, "FailedScheduling"); !slices.Equal(notes, []string{want["big-0"]}) {
		t.Errorf("events %q", notes)
	}
	if first := kinds(w.play(t.Context(), time.Minute)); len(first) != 1 || first[commit.CallEvent] != 3 {
		t.Errorf("calls %v, want an event of each other member's first refusal", first)
	}
	if later := w.play(t.Context(), time.Minute); len(later) != 0 {
		t.Errorf("%d calls for an unchanged cluster, the first %+v", len(later), later[0])
	}
	w.node("n2", "1")
	if counts := kinds(w.play(t.Context(), time.Minute)); counts[commit.CallPodCondition] != 1 || counts[commit.CallEvent] != 0 {
		t.Errorf("calls %v when nothing but the numbers has changed", counts)
	}
	w.node("n3", "1")
	w.play(t.Context(), time.Second)
	if n := w.boundPods(); n != 4 {
		t.Errorf("%d are bound when there is capacity for all", n)
	}
}

func TestMalformedMinimumIsToldOnItsPod(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.implicit("mpi", 3, 2)
	w.change("mpi-0", func(pod *corev1.Pod) { pod.Annotations[v1alpha1.AnnotationMinMember] = "two" })
	calls := w.play(t.Context(), 2*time.Second)
	if got := sent(calls, commit.CallBind); !slices.Equal(got, []string{"mpi-1 n1", "mpi-2 n1"}) {
		t.Errorf("bound %q", got)
	}
	c := w.told("mpi-0")
	if c == nil || c.Reason != string(model.InvalidGroup) || !strings.Contains(c.Message, `min-member is "two"`) {
		t.Errorf("the condition is %+v", c)
	}
	if notes := events(calls, "FailedScheduling"); len(notes) != 1 || notes[0] != c.Message {
		t.Errorf("events %q", notes)
	}
}

// TestInterruptedStartOfAnImplicitGroupIsUndone, with an event on the controller; the rest is as with any other.
func TestInterruptedStartOfAnImplicitGroupIsUndone(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuseTo("mpi-1")
	w.implicit("mpi", 3, 3)
	if got := sent(w.play(t.Context(), 29*time.Second), commit.CallDeleteStarted); len(got) != 0 {
		t.Fatalf("undone before the deadline: %q", got)
	}
	calls := w.play(t.Context(), 2*time.Second)
	if got := sent(calls, commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-0 n1", "mpi-2 n1"}) {
		t.Errorf("undone %q, want the two that were bound", got)
	}
	for _, call := range calls {
		if call.Kind == commit.CallEvent && call.Write.(*commit.Event).Reason == report.ReasonStartUndone {
			if about := call.Write.(*commit.Event).Regarding; about.Kind != "Job" || about.Name != "mpi" || about.UID != "job-mpi" {
				t.Errorf("the event is about %+v", about)
			}
		}
	}
	if notes := events(calls, report.ReasonStartUndone); len(notes) != 1 || !strings.Contains(notes[0], "only 2 of 3 were bound in time") {
		t.Errorf("events %q", notes)
	}
	w.refuse = nil
	w.implied("mpi", 3, 3)
	w.implied("mpi", 4, 3)
	if n := kinds(w.play(t.Context(), 28*time.Second))[commit.CallBind]; n != 0 {
		t.Errorf("%d binds of a job that is left alone", n)
	}
	w.play(t.Context(), 5*time.Second)
	if n := w.boundPods(); n != 3 {
		t.Errorf("%d are bound after the rest", n)
	}
	w.play(t.Context(), 10*time.Minute)
	for name := range w.pods {
		w.change(string(name), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
	}
	w.play(t.Context(), 10*time.Minute)
	if !w.loop.machine.Idle() || w.loop.sizes() != (sizes{}) {
		t.Errorf("kept at rest: %+v", w.loop.sizes())
	}
}

// TestAnInterruptedStartWithoutAnOwnerIsUndone, too: bare pods have no controller, and those of Kueue none that counts.
func TestAnInterruptedStartWithoutAnOwnerIsUndone(t *testing.T) {
	for name, mark := range map[string]func(*corev1.Pod){
		"implicit": func(pod *corev1.Pod) { pod.OwnerReferences = nil },
		"kueue": func(pod *corev1.Pod) {
			pod.OwnerReferences, pod.Annotations = nil, map[string]string{sources.KueueTotal: "3"}
			pod.Labels = map[string]string{sources.KueueGroup: "mpi"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", "8")
			w.play(t.Context(), time.Minute) // or it is taken for one that was found
			w.refuseTo("mpi-1")
			w.implicit("mpi", 3, 3)
			for i := range 3 {
				w.change(fmt.Sprintf("mpi-%d", i), mark)
			}
			if got := sent(w.play(t.Context(), 29*time.Second), commit.CallDeleteStarted); len(got) != 0 {
				t.Errorf("undone before the deadline: %q", got)
			}
			if got := sent(w.play(t.Context(), 2*time.Second), commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-0 n1", "mpi-2 n1"}) {
				t.Errorf("undone %q, want the two that were bound", got)
			}
		})
	}
}

// boundAnHourAgo makes a pod one that a process before has bound to n1 for its job.
func (w *world) boundAnHourAgo(pod *corev1.Pod) {
	pod.Spec.NodeName = "n1"
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now().Add(-time.Hour)),
	}}
	call := commit.Call{Job: sources.Of(pod).Job, MinBinds: 3}
	for key, value := range call.Annotations() {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
}

// leaderWorkers makes the leader of a group of a LeaderWorkerSet with an exclusive topology, bound so long ago, or its workers.
func (w *world) leaderWorkers(name string, size int, from, to int, alter func(*corev1.Pod)) {
	for i := from; i < to; i++ {
		w.member(name, i)
		w.change(fmt.Sprintf("%s-%d", name, i), func(pod *corev1.Pod) {
			pod.Labels = map[string]string{sources.LWSGroupKey: name, sources.LWSRevision: "r", sources.LWSWorkerIndex: fmt.Sprint(i)}
			pod.Annotations = map[string]string{sources.LWSSize: fmt.Sprint(size), sources.LWSExclusiveTopology: "zone"}
			alter(pod)
		})
	}
}

// TestALateRoleAfterARestart: what had all that it needed is no interrupted start, although no container runs yet. A bind of the
// late part that fails undoes that part alone.
func TestALateRoleAfterARestart(t *testing.T) {
	for _, others := range []bool{false, true} {
		w := newWorld(t)
		w.node("n1", "8")
		w.leaderWorkers("lws", 3, 0, 1, func(pod *corev1.Pod) {
			w.boundAnHourAgo(pod)
		})
		workers := func() { w.leaderWorkers("lws", 3, 1, 3, func(*corev1.Pod) {}) }
		w.refuseTo("lws-2")
		if others { // before the process begins to lead
			workers()
		}
		calls := w.play(t.Context(), time.Minute)
		if !others {
			workers()
			calls = append(calls, w.play(t.Context(), 5*time.Minute)...)
		}
		if got := sent(calls, commit.CallDeleteStarted); !slices.Equal(got, []string{"lws-1 n1"}) || !slices.Equal(w.bound(), []string{"lws-0"}) {
			t.Errorf("workers there %t: undone %q, and %q are bound", others, got, w.bound())
		}
	}
}

// TestALatePartThatHasBegun before the process leads, and has no room for the rest: it is undone, and its leader is not.
func TestALatePartThatHasBegun(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.leaderWorkers("lws", 3, 0, 2, func(pod *corev1.Pod) {
		w.boundAnHourAgo(pod)
	})
	w.leaderWorkers("lws", 3, 2, 3, func(*corev1.Pod) {})
	calls := w.play(t.Context(), 5*time.Minute)
	if got := sent(calls, commit.CallDeleteStarted); !slices.Equal(got, []string{"lws-1 n1"}) || !slices.Equal(w.bound(), []string{"lws-0"}) {
		t.Errorf("undone %q, and %q are bound", got, w.bound())
	}
}

// TestImplicitGroupsAfterARestart: what a new process does with a gang in part follows from the pods alone. One of which
// nothing runs is an interrupted start; one that runs has been whole, and is left alone.
func TestImplicitGroupsAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		first func(*corev1.Pod)
		want  []string
	}{
		"nothing runs": {func(*corev1.Pod) {}, []string{"mpi-0 n1", "mpi-1 n1"}},
		"one runs":     {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning }, nil},
		"an init container runs": {func(pod *corev1.Pod) {
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "init", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
		}, nil},
		"one has failed": {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, []string{"mpi-1 n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", "8")
			w.implicit("mpi", 2, 3)
			for i := range 2 {
				w.change(fmt.Sprintf("mpi-%d", i), func(pod *corev1.Pod) {
					w.boundAnHourAgo(pod)
					if i == 0 {
						c.first(pod)
					}
					*pod = *cluster.StripPod(pod) // as the watch delivers it
				})
			}
			if got := sent(w.play(t.Context(), 9*time.Second), commit.CallDeleteStarted); len(got) != 0 {
				t.Errorf("undone %q before a new process could complete it", got)
			}
			if got := sent(w.play(t.Context(), time.Minute), commit.CallDeleteStarted); !slices.Equal(got, c.want) {
				t.Errorf("undone %q, want %q", got, c.want)
			}
			if c.want != nil {
				return
			}
			w.implied("mpi", 2, 3)
			w.play(t.Context(), time.Second)
			if n := w.boundPods(); n != 3 {
				t.Errorf("%d are bound once there is another one", n)
			}
		})
	}
}

// TestMinimumOfAnImplicitGroupRaisedWhileVolumesArePrepared is not missed; nor is a PodGroup that comes then, which takes over.
func TestMinimumOfAnImplicitGroupRaisedWhileVolumesArePrepared(t *testing.T) {
	for name, raise := range map[string]func(*world){
		"by a member": func(w *world) {
			w.change("mpi-0", func(pod *corev1.Pod) { pod.Annotations[v1alpha1.AnnotationMinMember] = "4" })
		},
		"by a new member": func(w *world) { w.implied("mpi", 3, 5) },
		"by a PodGroup":   func(w *world) { w.gang("mpi", 0, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t)
			k.node("n1", "8")
			k.implicit("mpi", 3, 3)
			k.keep["mpi-2"] = commit.Call{}
			k.play(t.Context(), time.Minute)
			raise(k.world)
			calls := order(k.play(t.Context(), time.Minute))
			if strings.Contains(calls, "Bind") || strings.Count(calls, "Release") != 3 {
				t.Errorf("calls: %s, want everything given back and no bind", calls)
			}
			delete(k.keep, "mpi-2")
			k.implied("mpi", 3, 4)
			k.implied("mpi", 4, 4)
			k.play(t.Context(), time.Minute)
			if n := k.boundPods(); n != 5 {
				t.Errorf("%d are bound when there are enough", n)
			}
		})
	}
}

// TestMinimumRaisedBeforeTheDecisionOfTheSameSession: what is heard with the first decision counts for the next ones.
func TestMinimumRaisedBeforeTheDecisionOfTheSameSession(t *testing.T) {
	w := newWorld(t)
	w.loop.profile.Actions = append([]engine.Action{&meddler{w: w}}, w.loop.profile.Actions...)
	w.node("n1", "8")
	w.gang("first", 1, 1)
	w.gang("mpi", 3, 3)
	w.implicit("own", 2, 2)
	if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); !slices.Equal(got, []string{"first-0 n1", "own-0 n1", "own-1 n1"}) {
		t.Errorf("bound %q although the gang mpi needs 4 by then", got)
	}
}

// TestALeaderWithoutWorkersAfterARestart is no interrupted start, also while its LeaderWorkerSet is not read. One with some of
// its workers is.
func TestALeaderWithoutWorkersAfterARestart(t *testing.T) {
	for bound, want := range map[int][]string{1: nil, 2: {"lws-0 n1", "lws-1 n1"}} {
		w := newWorld(t)
		w.node("n1", "8")
		w.leaderWorkers("lws", 3, 0, bound, func(pod *corev1.Pod) {
			delete(pod.Annotations, sources.LWSExclusiveTopology)
			w.boundAnHourAgo(pod)
		})
		if got := sent(w.play(t.Context(), 2*time.Minute), commit.CallDeleteStarted); !slices.Equal(got, want) {
			t.Errorf("of %d: undone %q, want %q", bound, got, want)
		}
	}
}
