package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// inSteps shows a JobSet whose role work, of three, is made when the two of prepare run.
func (w *world) inSteps() {
	w.stepsOf(model.Role{Name: "prepare", MinMember: 2}, model.Role{Name: "work", MinMember: 3, MadeLater: true})
}

// stepsOf shows a JobSet with such roles, by name.
func (w *world) stepsOf(roles ...model.Role) {
	spec := &sources.Spec{Source: model.SourceJobSet, Roles: roles}
	for _, role := range roles {
		spec.MinMember += role.MinMember
	}
	spec.Namespace, spec.Name, spec.UID = "default", "train", "foreign-train"
	w.meta(spec)
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec})
	w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceJobSet, Reading: cluster.IsRead})
}

// step makes pods of a role of it.
func (w *world) step(role string, names ...string) {
	for _, name := range names {
		w.member("train", 99)
		pod := w.pods["train-99"].DeepCopy()
		w.gone("train-99")
		marked(model.SourceJobSet, pod, "train", 0)
		pod.Labels["jobset.sigs.k8s.io/replicatedjob-name"] = role
		pod.Name, pod.UID = name, types.UID(name)
		w.pod(pod)
	}
}

// firstStepRuns is a process in which the first step runs and the second one has just been made.
func firstStepRuns(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.node("n1", "5")
	w.inSteps()
	w.step("prepare", "p-0", "p-1")
	w.play(t.Context(), time.Minute)
	for _, name := range []string{"p-0", "p-1"} {
		w.change(name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
	}
	w.play(t.Context(), time.Minute)
	w.step("work", "w-0", "w-1", "w-2")
	return w
}

// bound are the names of the pods with a node, sorted.
func (w *world) bound() (names []string) {
	for _, pod := range w.pods {
		if pod.Spec.NodeName != "" {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestALateStepOfWhichABindFails is undone, as the start of a gang is, and what runs stays: it starts again as a whole.
func TestALateStepOfWhichABindFails(t *testing.T) {
	w := firstStepRuns(t)
	w.refuseTo("w-1")
	if got := sent(w.play(t.Context(), 29*time.Second), commit.CallDeleteStarted); len(got) != 0 {
		t.Fatalf("undone before the deadline: %q", got)
	}
	calls := w.play(t.Context(), 2*time.Second)
	if got := sent(calls, commit.CallDeleteStarted); !slices.Equal(got, []string{"w-0 n1", "w-2 n1"}) {
		t.Errorf("undone %q, want the members of the second step", got)
	}
	notes := events(calls, report.ReasonStartUndone)
	if len(notes) != 1 || !strings.Contains(notes[0], "the start was undone, since only 2 of 3 of role work were bound in time: pod w-1 could not be bound") {
		t.Errorf("events %q", notes)
	}
	if told := w.told("w-1"); told == nil || !strings.Contains(told.Message, "only 2 of 3 of role work") {
		t.Errorf("w-1 says %+v", told)
	}
	w.refuse = nil
	w.step("work", "w-3", "w-4")
	if got := sent(w.play(t.Context(), 25*time.Second), commit.CallBind); len(got) != 0 {
		t.Errorf("bound %q of a job that is left alone", got)
	}
	w.play(t.Context(), time.Minute)
	if got := w.bound(); !slices.Equal(got, []string{"p-0", "p-1", "w-1", "w-3", "w-4"}) {
		t.Errorf("bound are %q", got)
	}
	w.play(t.Context(), 12*time.Minute)
	for _, name := range []string{"w-1", "w-3", "w-4"} {
		w.change(name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
	}
	w.play(t.Context(), time.Minute)
	if w.loop.sizes() != (sizes{}) {
		t.Errorf("kept at rest: %+v", w.loop.sizes())
	}
}

// TestALateStepIsCompleted before others of a higher priority start, as the start of a gang is.
func TestALateStepIsCompleted(t *testing.T) {
	w := firstStepRuns(t)
	w.refuseTo("w-1")
	w.play(t.Context(), 10*time.Millisecond)
	w.node("n1", "4")
	w.play(t.Context(), 20*time.Second)
	w.refuse = nil
	w.high("urgent", 1)
	w.node("n1", "5")
	calls := w.play(t.Context(), time.Minute)
	if got := sent(calls, commit.CallBind); !slices.Equal(got, []string{"w-1 n1"}) || len(sent(calls, commit.CallDeleteStarted)) != 0 {
		t.Errorf("bound %q, undone %q", got, sent(calls, commit.CallDeleteStarted))
	}
}

// TestALateStepThatWasWhole and loses a member before a container of it runs is no interrupted start, in the process that has
// started it.
func TestALateStepThatWasWhole(t *testing.T) {
	w := firstStepRuns(t)
	w.play(t.Context(), 5*time.Minute)
	w.gone("w-1")
	w.step("work", "w-3")
	w.refuseTo("w-3")
	if got := sent(w.play(t.Context(), 5*time.Minute), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("undone %q", got)
	}
}

// stepKilled ends a process after so many binds of the second step, before any container of that runs.
func stepKilled(t *testing.T, most int) *world {
	t.Helper()
	w := firstStepRuns(t)
	binds := 0
	w.drop = func(call commit.Call) bool {
		if call.Kind == commit.CallBind {
			binds++
		}
		return binds > most || binds == 3 && call.Kind != commit.CallBind
	}
	w.play(t.Context(), 10*time.Second)
	if got := len(w.bound()); got != 2+most {
		t.Fatalf("%d are bound", got)
	}
	return w
}

// TestALeaderKilledInTheMiddleOfALateStep leaves an interrupted start: the next one completes it where there is capacity, and
// undoes it where there is none, whenever it can read the object; what runs stays. Pods that do not say that they were bound for
// the job are not undone.
func TestALeaderKilledInTheMiddleOfALateStep(t *testing.T) {
	whole, first := []string{"p-0", "p-1", "w-0", "w-1", "w-2"}, []string{"p-0", "p-1"}
	for _, unread := range []time.Duration{0, 5 * time.Second, time.Minute} {
		for name, c := range map[string]struct {
			binds  int
			cpu    string
			singly bool
			want   []string
		}{
			"in the middle, with capacity": {2, "5", false, whole},
			"in the middle, without":       {2, "4", false, first},
			"after the first, without":     {1, "4", false, first},
			"after the last":               {3, "5", false, whole},
			"each was bound for itself":    {2, "4", true, whole[:4]},
		} {
			next := stepKilled(t, c.binds).next(t)
			next.node("n1", c.cpu)
			if c.singly {
				for _, name := range next.bound() {
					next.change(name, func(pod *corev1.Pod) { delete(pod.Annotations, v1alpha1.AnnotationJob) })
				}
			}
			next.play(t.Context(), unread)
			next.inSteps()
			next.play(t.Context(), 5*time.Minute)
			if got := next.bound(); !slices.Equal(got, c.want) {
				t.Errorf("%s, read after %s: bound are %q, want %q", name, unread, got, c.want)
			}
		}
	}
}

// TestAForgedJobOfABind on a pod that a PodGroup of ours has as a member, or one without a PodGroup, changes nothing: only where
// other projects mark the group does a scheduler write it.
func TestAForgedJobOfABind(t *testing.T) {
	for _, forged := range []string{"", "default/mpi 1", "default/mpi 2", "default/mpi 99", "default/mpi/JobSet 2"} {
		for _, implicit := range []bool{false, true} {
			w := newWorld(t)
			w.node("n1", "8")
			if implicit {
				w.implicit("mpi", 2, 3)
			} else {
				w.gang("mpi", 2, 3)
			}
			for _, name := range []string{"mpi-0", "mpi-1"} {
				w.change(name, func(pod *corev1.Pod) {
					w.boundAnHourAgo(pod)
					metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationJob, forged)
				})
			}
			if got := sent(w.play(t.Context(), time.Minute), commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-0 n1", "mpi-1 n1"}) {
				t.Errorf("%q, implicit %t: undone %q", forged, implicit, got)
			}
		}
	}
}
