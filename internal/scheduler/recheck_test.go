package scheduler

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

func (w *world) minimum(group string, minMember int32) {
	changed := w.groups[group].DeepCopy()
	changed.Spec.MinMember = minMember
	changed.Generation++
	w.group(changed)
}

// TestMinimumRaisedWhileVolumesArePrepared is not missed: nothing is bound of a gang that has too few members by then.
func TestMinimumRaisedWhileVolumesArePrepared(t *testing.T) {
	k := newKeeper(t)
	k.node("n1", "8")
	k.gang("mpi", 3, 3)
	k.keep["mpi-2"] = commit.Call{}
	k.play(t.Context(), time.Minute)
	k.minimum("mpi", 4)
	calls := order(k.play(t.Context(), time.Minute))
	if strings.Contains(calls, "Bind") || strings.Count(calls, "Release") != 3 {
		t.Errorf("calls: %s, want everything given back and no bind", calls)
	}
	if c := k.condition("mpi"); c == nil || c.Reason != string(model.NotEnoughMembers) {
		t.Errorf("condition %+v", c)
	}
}

// TestAGroupThatBecomesAnotherWhileVolumesArePrepared: a role that no pod has is needed as well, or the group contradicts
// itself.
func TestAGroupThatBecomesAnotherWhileVolumesArePrepared(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.PodGroupSpec){
		"a role":          func(spec *v1alpha1.PodGroupSpec) { spec.Roles = []v1alpha1.Role{{Name: "launcher", MinMember: 1}} },
		"a contradiction": func(spec *v1alpha1.PodGroupSpec) { spec.MinMember = 0 },
	} {
		k := newKeeper(t)
		k.node("n1", "8")
		k.gang("mpi", 3, 3)
		k.keep["mpi-2"] = commit.Call{}
		k.play(t.Context(), time.Minute)
		changed := k.groups["mpi"].DeepCopy()
		change(&changed.Spec)
		changed.Generation++
		k.group(changed)
		if calls := order(k.play(t.Context(), time.Minute)); strings.Contains(calls, "Bind") || strings.Count(calls, "Release") != 3 {
			t.Errorf("%s: calls: %s, want everything given back and no bind", name, calls)
		}
	}
}

// meddler raises a gang's minimum while a session is open, after the session's snapshot was taken.
type meddler struct {
	w    *world
	done bool
}

func (*meddler) Name() string { return "meddler" }

func (m *meddler) Execute(*engine.Session) {
	if !m.done {
		m.done = true
		m.w.minimum("mpi", 4)
	}
}

func TestMinimumRaisedWhileTheSessionGoesOn(t *testing.T) {
	w := newWorld(t)
	w.loop.profile.Actions = append([]engine.Action{&meddler{w: w}}, w.loop.profile.Actions...)
	w.node("n1", "8")
	w.gang("mpi", 3, 3)
	if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); len(got) != 0 {
		t.Errorf("bound %q although the gang needs 4 by then", got)
	}
	w.member("mpi", 3)
	w.play(t.Context(), time.Minute)
	if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v with four members", c)
	}
}
