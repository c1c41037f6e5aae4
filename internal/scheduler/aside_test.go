package scheduler

import (
	"context"
	"errors"
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
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// keeper sets something aside for every pod, and keeps the accounting.
type keeper struct {
	*world
	held map[types.UID]bool
	// said is what the loop said of pods.
	said []string
	// fail answers a call that prepares with an error; nil answers all with yes. keep are those it does not answer.
	fail func(commit.Call) error
	keep map[string]commit.Call
	// stranded is the pod that holds something since before.
	stranded string
	// late names the pod whose call of a kind has an effect and is not answered; unsaid are these answers.
	late   map[commit.Kind]string
	unsaid []commit.Reply
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{world: newWorld(t), held: map[types.UID]bool{}, keep: map[string]commit.Call{}}
	k.loop.profile.Tiers = append(k.loop.profile.Tiers, engine.Tier{{Factory: func() framework.Plugin { return k }}})
	k.loop.sender, k.loop.options.Reservations = k, k
	return k
}

func (*keeper) Name() string { return "keeper" }

func (k *keeper) Reserve(task *model.Task, _ *model.Node) (bool, *model.Refusal) {
	if k.held[task.UID] {
		k.t.Errorf("%s is set aside twice", task)
	}
	k.held[task.UID] = true
	return true, nil
}

func (k *keeper) Unreserve(task *model.Task) { k.end(task.UID) }

func (k *keeper) Confirm(pod types.UID) {
	k.end(pod)
	k.said = append(k.said, "confirm "+string(pod))
}

func (k *keeper) Abandon(pod types.UID) {
	k.said = append(k.said, "abandon "+string(pod))
	call := k.keep[string(pod)]
	k.mailbox.Reply(commit.Reply{ID: call.ID, Err: context.Canceled})
}

func (k *keeper) IsOrphaned(pod *corev1.Pod) bool {
	if k.stranded != pod.Name {
		return false
	}
	k.stranded, k.held[pod.UID] = "", true
	return true
}

func (k *keeper) end(pod types.UID) {
	if !k.held[pod] {
		k.t.Errorf("nothing is set aside for %s", pod)
	}
	delete(k.held, pod)
}

func (k *keeper) Send(call commit.Call) {
	switch call.Kind {
	case commit.CallPrepare:
		if k.fail != nil {
			if err := k.fail(call); err != nil {
				k.calls = append(k.calls, call)
				k.mailbox.Reply(commit.Reply{ID: call.ID, Err: err})
				return
			}
		}
		if _, keep := k.keep[string(call.Pod.UID)]; keep {
			k.keep[string(call.Pod.UID)] = call
			return
		}
	case commit.CallRelease:
		k.end(call.Pod.UID)
	}
	if name, late := k.late[call.Kind]; late && name == call.Pod.Name {
		k.calls, k.unsaid = append(k.calls, call), append(k.unsaid, commit.Reply{ID: call.ID})
		return
	}
	k.world.Send(call)
}

// order returns what was sent about pods, in words.
func order(calls []commit.Call) string {
	var words []string
	for _, call := range calls {
		if call.Kind <= commit.CallBind {
			words = append(words, call.Kind.String()+" "+call.Pod.Name)
		}
	}
	return strings.Join(words, ", ")
}

func TestWhatIsSetAsideIsPreparedBeforeTheBinds(t *testing.T) {
	k := newKeeper(t)
	k.node("n1", "8")
	k.gang("mpi", 2, 2)
	if got, want := order(k.play(t.Context(), time.Second)), "Prepare mpi-0, Prepare mpi-1, Bind mpi-0, Bind mpi-1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(k.held) != 0 || !slices.Equal(k.said, []string{"confirm mpi-0", "confirm mpi-1"}) {
		t.Errorf("held %v, said %q", k.held, k.said)
	}
}

func TestGangThatIsNotPreparedGivesAllBackAndIsTriedAgain(t *testing.T) {
	k := newKeeper(t)
	k.node("n1", "8")
	k.gang("mpi", 3, 3)
	k.keep["mpi-2"] = commit.Call{}
	k.fail = func(call commit.Call) error {
		if call.Pod.Name == "mpi-1" {
			return errors.New("no space")
		}
		return nil
	}
	calls := order(k.play(t.Context(), 900*time.Millisecond))
	if strings.Contains(calls, "Bind") || strings.Count(calls, "Release") != 6 {
		t.Errorf("calls: %s, want no bind and everything given back, twice: immediately and after a tenth of a second", calls)
	}
	if len(k.held) != 0 || !slices.Equal(k.said, []string{"abandon mpi-2", "abandon mpi-2"}) {
		t.Errorf("held %v, said %q", k.held, k.said)
	}
	condition := k.condition("mpi")
	if condition == nil || condition.Reason != string(model.BindFailed) || !strings.Contains(condition.Message, "no space") {
		t.Errorf("condition %+v, want BindFailed with the reason", condition)
	}
	k.fail = nil
	delete(k.keep, "mpi-2")
	if got := kinds(k.play(t.Context(), 2*time.Second))[commit.CallBind]; got != 3 {
		t.Errorf("%d binds after the back-off, want 3", got)
	}
}

func TestWhatIsSetAsideIsKeptWhileABindIsInDoubt(t *testing.T) {
	k := newKeeper(t)
	k.node("n1", "8")
	k.gang("mpi", 1, 1)
	lost := true
	k.refuseRead = forbidden
	k.refuse = func(commit.Call) error {
		if lost {
			return errors.New("connection reset")
		}
		return nil
	}
	k.play(t.Context(), 50*time.Second)
	if len(k.held) != 1 {
		t.Errorf("held %v while it is not known", k.held)
	}
	lost = false
	calls := order(k.play(t.Context(), time.Minute))
	if want := "Release mpi-0, Prepare mpi-0, Bind mpi-0"; calls != want {
		t.Errorf("calls: %s, want %s", calls, want)
	}
	if len(k.held) != 0 {
		t.Errorf("held %v", k.held)
	}
}

// TestGangWithoutRoomGivesBackWhatItHeldBefore, which one that has capacity need not.
func TestGangWithoutRoomGivesBackWhatItHeldBefore(t *testing.T) {
	for cpu, want := range map[string]string{"1": "Release mpi-1", "2": "Prepare mpi-0, Prepare mpi-1, Bind mpi-0, Bind mpi-1"} {
		k := newKeeper(t)
		k.stranded = "mpi-1"
		k.node("n1", cpu)
		k.gang("mpi", 2, 2)
		for i := range 2 {
			pod := k.pods[types.UID(fmt.Sprintf("mpi-%d", i))].DeepCopy()
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
			k.pod(pod)
		}
		if got := order(k.play(t.Context(), time.Second)); got != want {
			t.Errorf("with %s CPU: %q, want %q", cpu, got, want)
		}
	}
}

// TestJobThatWaitsForOthersGivesBackWhatItHeldBefore: it was changed while no scheduler ran, so that it cannot start.
func TestJobThatWaitsForOthersGivesBackWhatItHeldBefore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*keeper)
		why    model.Code
	}{
		"a member was deleted": {func(k *keeper) { k.mailbox.Event(&cluster.PodSeen{Pod: k.pods["mpi-0"], Gone: true}) }, model.NotEnoughMembers},
		"a member has a gate": {func(k *keeper) {
			k.change("mpi-0", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} })
		}, model.SchedulingGated},
		"the group was deleted": {func(k *keeper) { k.mailbox.Event(&cluster.GroupSeen{Group: k.groups["mpi"], Gone: true}) }, model.GroupNotFound},
		"the group contradicts itself": {func(k *keeper) {
			group := k.groups["mpi"].DeepCopy()
			group.Spec.Roles = []v1alpha1.Role{{Name: "worker", MinMember: 3}}
			k.group(group)
		}, model.InvalidGroup},
	} {
		k := newKeeper(t)
		k.stranded = "mpi-1"
		k.node("n1", "8")
		k.gang("mpi", 2, 2)
		k.change("mpi-1", func(pod *corev1.Pod) { pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })
		c.change(k)
		calls := order(k.play(t.Context(), time.Second))
		refusal := k.loop.refusals[model.JobKey{Namespace: "default", Name: "mpi"}]
		if calls != "Release mpi-1" || refusal == nil || refusal.Code != c.why {
			t.Errorf("%s: calls %q, refused: %v", name, calls, refusal)
		}
	}
}

// TestGangIsPlacedBeforeTheAnswerToARelease: what a member holds since before is given back, and the answer is taken in by a
// session that has placed the member by then. The member stays bound.
func TestGangIsPlacedBeforeTheAnswerToARelease(t *testing.T) {
	k := newKeeper(t)
	k.stranded = "mpi-1"
	k.node("n1", "1")
	k.gang("first", 1, 1)
	k.gang("mpi", 2, 2)
	pod := k.pods["mpi-1"].DeepCopy()
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	k.pod(pod)
	k.late = map[commit.Kind]string{commit.CallRelease: "mpi-1"}
	k.play(t.Context(), time.Second)
	if k.stranded != "" || len(k.unsaid) != 1 {
		t.Fatalf("%q is stranded, answers to come: %v", k.stranded, k.unsaid)
	}
	decided := k.loop.options.Decided
	k.loop.options.Decided = func(decision model.Decision) {
		if decided(decision); decision.Job.Name == "mpi" {
			for _, reply := range k.unsaid {
				k.mailbox.Reply(reply)
			}
			k.unsaid = nil
		}
	}
	k.node("n2", "8")
	if got, want := order(k.play(t.Context(), time.Second)), "Prepare mpi-0, Prepare mpi-1, Bind mpi-0, Bind mpi-1"; got != want {
		t.Errorf("calls: %q, want %q", got, want)
	}
}

// TestWhatIsPreparedForAStartThatIsInPartEndsWithIt: the member that completes it gets a volume that is never ready.
func TestWhatIsPreparedForAStartThatIsInPartEndsWithIt(t *testing.T) {
	k := newKeeper(t)
	k.node("n1", "8")
	k.refuse = func(call commit.Call) error {
		if call.Pod.Name != "mpi-2" {
			return nil
		}
		k.keep["mpi-2"] = commit.Call{} // from now on there is no answer
		return forbidden(call)
	}
	k.gang("mpi", 3, 3)
	if got := sent(k.play(t.Context(), 29*time.Second), commit.CallDeleteStarted); len(got) != 0 || k.keep["mpi-2"].ID == 0 {
		t.Fatalf("undone %q before the deadline; prepared is %+v", got, k.keep["mpi-2"])
	}
	if got := sent(k.play(t.Context(), 2*time.Second), commit.CallDeleteStarted); len(got) != 2 || !slices.Contains(k.said, "abandon mpi-2") {
		t.Errorf("undone %q, said %q", got, k.said)
	}
}
