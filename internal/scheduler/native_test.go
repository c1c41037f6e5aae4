package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// native makes or changes a group of scheduling.k8s.io, which has a status from its beginning.
func (w *world) native(name string, change func(*sources.Spec)) {
	w.foreignGroup(model.SourceNative, name, func(spec *sources.Spec) {
		if spec.Shown.HasStatus = true; change != nil {
			change(spec)
		}
	})
}

func (w *world) nativeMember(group string, i int) {
	w.member(group, i)
	w.change(fmt.Sprintf("%s-%d", group, i), func(pod *corev1.Pod) {
		delete(pod.Labels, v1alpha1.LabelPodGroup)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	})
}

func (w *world) wantNative(name, want string) {
	w.t.Helper()
	shown := w.foreign[name].Shown
	if got := strings.TrimSpace(shown.Type + " " + shown.Status + " " + shown.Reason); got != want {
		w.t.Errorf("%s shows %q, want %q: %+v", name, got, want, shown)
	}
}

const (
	nativeWaits  = "PodGroupInitiallyScheduled False Unschedulable"
	nativeStarts = "PodGroupInitiallyScheduled True Scheduled"
)

// TestTheConditionOfAGroupOfKubernetes is written when the group has all members and does not fit, and when it is bound: as
// kube-scheduler does, and never again.
func TestTheConditionOfAGroupOfKubernetes(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "1")
	w.native("g", nil)
	w.nativeMember("g", 0)
	if n := kinds(w.play(t.Context(), time.Minute))[commit.CallForeignStatus]; n != 0 {
		t.Errorf("%d writes about a group that lacks members", n)
	}
	w.wantNative("g", "")
	w.nativeMember("g", 1)
	w.play(t.Context(), time.Second)
	w.wantNative("g", nativeWaits)
	w.node("n2", "1")
	if n := kinds(w.play(t.Context(), time.Second)); n[commit.CallBind] != 2 || n[commit.CallForeignStatus] != 1 {
		t.Errorf("it started with %v", n)
	}
	w.wantNative("g", nativeStarts)
	for i := range 2 {
		w.change(fmt.Sprint("g-", i), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
	}
	if calls := w.play(t.Context(), 5*time.Minute); len(calls) != 0 {
		t.Errorf("%d calls at rest, the first %+v", len(calls), calls[0])
	}

	// A member is lost, and its replacement finds no place: the group was placed all the same, as a process sees that starts then.
	w.node("n1", "0")
	w.gone("g-0")
	w.nativeMember("g", 2)
	w.expectNoStatus(t)
	again := newWorld(t)
	again.node("n2", "1")
	again.foreign, again.version = w.foreign, w.version
	again.native("g", nil)
	again.nativeMember("g", 2)
	again.expectNoStatus(t)
	again.wantNative("g", nativeStarts)
}

// expectNoStatus wants no write about a group for an hour in which a pod says why it waits.
func (w *world) expectNoStatus(t *testing.T) {
	t.Helper()
	n := kinds(w.playBy(t.Context(), time.Hour, 100*time.Millisecond))
	if n[commit.CallForeignStatus] != 0 || n[commit.CallPodCondition] == 0 {
		t.Errorf("the calls are %v", n)
	}
}

// TestGroupsOfKubernetesWithoutMembersOfOurs may be those of kube-scheduler.
func TestGroupsOfKubernetesWithoutMembersOfOurs(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.native("empty", nil)
	w.native("wrong", func(spec *sources.Spec) { spec.Contradiction = "spec.schedulingPolicy must have one of basic and gang" })
	w.native("theirs", nil)
	w.nativeMember("theirs", 0)
	w.change("theirs-0", func(pod *corev1.Pod) { pod.Spec.SchedulerName = "default-scheduler" })
	if calls := w.play(t.Context(), time.Minute); len(calls) != 0 {
		t.Errorf("%d calls, the first %+v", len(calls), calls[0])
	}
}
