package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// volcano makes or changes a group of scheduling.volcano.sh.
func (w *world) volcano(name string, change func(*sources.Spec)) {
	w.foreignGroup(model.SourceVolcano, name, change)
}

// foreignGroup makes or changes a group of two of a foreign source.
func (w *world) foreignGroup(source model.Source, name string, change func(*sources.Spec)) {
	spec := &sources.Spec{Source: source, MinMember: 2}
	spec.Namespace, spec.Name, spec.UID = "default", name, types.UID("foreign-"+name)
	if before := w.foreign[name]; before != nil {
		*spec = *before
	}
	if change != nil {
		change(spec)
	}
	w.meta(spec)
	w.foreign[name] = spec
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec})
}

func (w *world) volcanoMember(group string, i int) {
	w.member(group, i)
	w.change(fmt.Sprintf("%s-%d", group, i), func(pod *corev1.Pod) {
		delete(pod.Labels, v1alpha1.LabelPodGroup)
		pod.Annotations = map[string]string{v1alpha1.AnnotationKubeBatchGroup: group}
	})
}

// serveForeign changes the status of a group, as the API server applies the patch.
func (w *world) serveForeign(status *commit.ForeignStatus) error {
	spec := w.foreign[status.Group.Name]
	switch {
	case spec == nil || spec.UID != status.UID:
		return apierrors.NewNotFound(status.Resource.GroupResource(), status.Group.Name)
	case spec.Shown.HasStatus != status.HasStatus || spec.Shown.HasConditions != status.HasConditions && status.Condition != nil:
		w.t.Errorf("the patch of %s does not fit its status %+v", status.Group, spec.Shown)
	}
	w.foreignGroup(status.Group.Source, status.Group.Name, func(spec *sources.Spec) {
		shown := &spec.Shown
		shown.HasStatus = true
		if n := status.Counts; n != nil {
			shown.Running, shown.Succeeded, shown.Failed = n.Running, n.Succeeded, n.Failed
		}
		if status.Phase != "" {
			shown.Phase = status.Phase
		}
		if c := status.Condition; c != nil {
			shown.HasConditions, shown.Type, shown.Status, shown.Reason, shown.Message = true, c.Type, string(c.Status), c.Reason, c.Message
		}
	})
	return nil
}

func (w *world) wantVolcano(name, want string) {
	w.t.Helper()
	shown := w.foreign[name].Shown
	if got := strings.TrimSpace(shown.Phase + " " + shown.Type + " " + shown.Reason); got != want {
		w.t.Errorf("%s shows %q, want %q: %+v", name, got, want, shown)
	}
}

// TestAnOperatorThatWaitsForInqueue makes pods when the group says so. A process that starts in the middle goes on.
func TestAnOperatorThatWaitsForInqueue(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "1")
	w.volcano("ray", func(spec *sources.Spec) { spec.Shown.HasStatus, spec.Shown.Phase = true, sources.VolcanoPending })
	w.play(t.Context(), time.Second)
	w.wantVolcano("ray", "Inqueue")
	w.volcanoMember("ray", 0)
	w.play(t.Context(), time.Second)
	w.wantVolcano("ray", "Inqueue Unschedulable NotEnoughTasks")

	again := newWorld(t)
	again.node("n1", "1")
	again.foreign, again.version = w.foreign, w.version
	again.volcano("ray", nil)
	again.volcanoMember("ray", 0)
	if calls := again.play(t.Context(), time.Minute); kinds(calls)[commit.CallForeignStatus] != 0 {
		t.Errorf("after a restart it writes what is there: %+v", calls)
	}
	again.volcanoMember("ray", 1)
	if calls := again.play(t.Context(), time.Second); len(sent(calls, commit.CallBind)) != 0 {
		t.Error("a part was bound")
	}
	again.wantVolcano("ray", "Inqueue Unschedulable NotEnoughResources")
	again.node("n2", "1")
	if calls := again.play(t.Context(), time.Second); len(sent(calls, commit.CallBind)) != 2 {
		t.Error("it did not start")
	}
	again.wantVolcano("ray", "Running Scheduled Scheduled")
	if calls := again.play(t.Context(), 5*time.Minute); len(calls) != 0 {
		t.Errorf("%d calls at rest, the first %+v", len(calls), calls[0])
	}
	for i := range 2 {
		again.change(fmt.Sprint("ray-", i), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
	}
	again.play(t.Context(), 2*time.Second)
	again.wantVolcano("ray", "Completed Scheduled Scheduled")
}

// TestAVolcanoStatusCostsNoCycle, whatever is written in it by another program: no cycle runs, and no job is read again.
func TestAVolcanoStatusCostsNoCycle(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "1")
	w.volcano("waits", func(spec *sources.Spec) {
		spec.MinResources = []sources.Amount{{Name: "memory", Quantity: resource.MustParse("1.5Gi")}}
	})
	w.volcanoMember("waits", 0)
	w.volcanoMember("waits", 1)
	w.volcano("later", nil) // has no members
	w.play(t.Context(), 2*resyncPeriod+5*time.Second)
	look := func() (version, cycles uint64, job *model.Job) {
		snapshot := w.loop.state.Snapshot(w.clock.Now())
		return snapshot.Version, w.loop.history.Last(), snapshot.Job(w.foreign["waits"].Key())
	}
	version, cycles, job := look()
	read := job.Version
	for name, change := range map[string]func(*sources.Spec){
		"phase":      func(spec *sources.Spec) { spec.Shown.Phase = sources.VolcanoRunning },
		"numbers":    func(spec *sources.Spec) { spec.Shown.Running, spec.Shown.Failed = 7, 8 },
		"message":    func(spec *sources.Spec) { spec.Shown.Message = "of another writer" },
		"conditions": func(spec *sources.Spec) { spec.Shown.At++ },
		"no status":  func(spec *sources.Spec) { spec.Shown = sources.Shown{} },
		"the rest":   func(*sources.Spec) {},
	} {
		for _, group := range []string{"waits", "later"} {
			w.volcano(group, change)
			w.play(t.Context(), 2*time.Second)
		}
		if after, ran, job := look(); after != version || ran != cycles || job.Version != read {
			t.Errorf("%s: version %d became %d, cycle %d became %d, the job's %d became %d", name, version, after, cycles, ran, read, job.Version)
			version, cycles, read = after, ran, job.Version
		}
	}
}

// TestAStandbyWritesNoForeignStatus; who leads then writes all that is due.
func TestAStandbyWritesNoForeignStatus(t *testing.T) {
	w := newWorld(t)
	w.mailbox.take() // the Lease belongs to another process
	w.node("n1", "8")
	for i := range 300 {
		w.volcano(fmt.Sprint("g", i), nil)
	}
	if calls := w.play(t.Context(), time.Second); len(calls) != 0 {
		t.Fatalf("a standby made %d calls", len(calls))
	}
	w.mailbox.Lead()
	if n := kinds(w.play(t.Context(), 4*time.Second))[commit.CallForeignStatus]; n != 300 {
		t.Errorf("%d writes, want 300", n)
	}
	if calls := w.play(t.Context(), time.Minute); len(calls) != 0 {
		t.Errorf("%d calls at rest", len(calls))
	}
}

// TestAForeignStatusThatIsForbidden is said on each group, and all else goes on.
func TestAForeignStatusThatIsForbidden(t *testing.T) {
	w := newWorld(t)
	w.refuseWrites = func(call commit.Call) error {
		if call.Kind == commit.CallForeignStatus {
			return forbidden(call)
		}
		return nil
	}
	w.node("n1", "8")
	w.volcano("a", nil)
	w.volcano("b", nil)
	w.gang("mpi", 2, 2)
	calls := w.playBy(t.Context(), time.Hour, 100*time.Millisecond)
	told := map[string]int{}
	for _, call := range calls {
		if event, is := call.Write.(*commit.Event); is && event.Reason == "StatusRefused" {
			told[event.Regarding.Name]++
		}
	}
	if n := kinds(calls)[commit.CallForeignStatus]; n < 10 || n > 50 || told["a"] != 1 || told["b"] != 1 || len(sent(calls, commit.CallBind)) != 2 {
		t.Errorf("%d writes, events %v", n, told)
	}
	w.refuseWrites = nil
	w.playBy(t.Context(), 15*time.Minute, 100*time.Millisecond)
	w.wantVolcano("a", "Inqueue")
	w.wantVolcano("b", "Inqueue")
}
