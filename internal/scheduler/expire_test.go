package scheduler

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
)

// The tests of this file are about PodGroups that say for how long they are kept after they have ended.

// serveDeletion deletes a PodGroup whose UID and version are those of the call.
func (w *world) serveDeletion(call commit.Call) error {
	if w.refuseWrites != nil {
		if err := w.refuseWrites(call); err != nil {
			return err
		}
	}
	deletion := call.Write.(*commit.GroupDeletion)
	switch group := w.groups[deletion.Name]; {
	case group == nil:
		return apierrors.NewNotFound(v1alpha1.Resource("podgroups"), deletion.Name)
	case group.UID != deletion.UID || group.ResourceVersion != deletion.ResourceVersion:
		return apierrors.NewConflict(v1alpha1.Resource("podgroups"), deletion.Name, errors.New("Precondition failed"))
	default:
		delete(w.groups, deletion.Name)
		w.mailbox.Event(&cluster.GroupSeen{Group: group, Gone: true})
	}
	return nil
}

// finished is a gang of one that was started and has ended, and is kept for so many seconds.
func finished(t *testing.T, seconds int32) *world {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 1, 1)
	group := w.groups["mpi"].DeepCopy()
	group.Spec.TTLSecondsAfterFinished = &seconds
	w.group(group)
	w.play(t.Context(), time.Second)
	w.inPhase("mpi-0", corev1.PodSucceeded)
	w.play(t.Context(), time.Second)
	return w
}

func TestAGroupThatHasEndedIsDeletedWhenItsTimeIsOver(t *testing.T) {
	for name, between := range map[string]func(*world){
		"by one process":        func(*world) {},
		"by the next process":   (*world).restart,
		"without members":       func(w *world) { w.gone("mpi-0") },
		"of which none is left": func(w *world) { w.gone("mpi-0"); w.play(w.t.Context(), time.Second); w.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			w := finished(t, 60)
			end := w.groups["mpi"].Status.FinishedAt
			if end == nil {
				t.Fatalf("status %+v", w.groups["mpi"].Status)
			}
			between(w)
			w.play(t.Context(), end.Add(60*time.Second).Sub(w.clock.Now()))
			if n := kinds(w.calls)[commit.CallDeleteGroup]; n != 0 || w.groups["mpi"] == nil {
				t.Fatalf("%d deletions before its time was over", n)
			}
			if n := kinds(w.play(t.Context(), time.Second))[commit.CallDeleteGroup]; n != 1 || w.groups["mpi"] != nil {
				t.Errorf("%d deletions, want one", n)
			}
			if calls := w.play(t.Context(), time.Hour/20); len(calls) > 0 || !w.loop.machine.Idle() {
				t.Errorf("calls about a group that is deleted: %+v", calls)
			}
		})
	}
}

func TestAGroupThatIsKeptForZeroSecondsIsDeletedAtOnce(t *testing.T) {
	if w := finished(t, 0); w.groups["mpi"] != nil {
		t.Errorf("it is there a second after its end: %+v", w.groups["mpi"].Status)
	}
}

// TestANewMemberKeepsItsGroup, and the time begins again when that one has ended.
func TestANewMemberKeepsItsGroup(t *testing.T) {
	w := finished(t, 60)
	w.play(t.Context(), 50*time.Second)
	w.member("mpi", 1)
	w.play(t.Context(), time.Minute)
	if group := w.groups["mpi"]; group == nil || group.Status.FinishedAt != nil {
		t.Fatalf("with a member that runs: %+v", group)
	}
	w.inPhase("mpi-1", corev1.PodSucceeded)
	w.play(t.Context(), 50*time.Second)
	if w.groups["mpi"] == nil {
		t.Fatal("deleted before its time was over")
	}
	if w.play(t.Context(), 12*time.Second); w.groups["mpi"] != nil {
		t.Error("it stays although it has ended again")
	}
}

// TestADeletionThatIsRefusedIsTriedAgainLater, for the group as it is then.
func TestADeletionThatIsRefusedIsTriedAgainLater(t *testing.T) {
	w := finished(t, 10)
	w.refuseWrites = forbidden
	w.play(t.Context(), 10*time.Minute)
	if n := kinds(w.calls)[commit.CallDeleteGroup]; n < 4 || n > 7 || w.groups["mpi"] == nil {
		t.Errorf("%d deletions in ten minutes, want a few, further and further apart", n)
	}
	w.refuseWrites = nil
	if w.play(t.Context(), 11*time.Minute); w.groups["mpi"] != nil {
		t.Error("it stays after the API server gave in")
	}
}

// TestAGroupThatHasChangedIsReadAgain: a deletion is about the version that it was decided for.
func TestAGroupThatHasChangedIsReadAgain(t *testing.T) {
	w := finished(t, 10)
	changes := 0
	w.refuseWrites = func(call commit.Call) error {
		if changes++; changes == 1 { // a change that the loop has not seen
			group := w.groups["mpi"].DeepCopy()
			group.Spec.TTLSecondsAfterFinished = new(int32(60))
			w.group(group)
		}
		return nil
	}
	w.play(t.Context(), 40*time.Second)
	if n := kinds(w.calls)[commit.CallDeleteGroup]; n != 1 || w.groups["mpi"] == nil {
		t.Fatalf("%d deletions, want one, that is refused", n)
	}
	if w.play(t.Context(), 40*time.Second); w.groups["mpi"] != nil {
		t.Error("it stays longer than the changed group says")
	}
}
