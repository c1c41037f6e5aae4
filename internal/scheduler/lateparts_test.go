package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// The tests of this file are about parts of a gang that lacks members elsewhere, or whose object says something else meanwhile.

// firstStepOf runs the first step, of two, of a JobSet with such steps after it, and lets pass more than the time in which a new
// leader looks for starts.
func (w *world) firstStepOf(later ...model.Role) {
	w.stepsOf(append([]model.Role{{Name: "prepare", MinMember: 2}}, later...)...)
	w.step("prepare", "p-0", "p-1")
	w.play(w.t.Context(), time.Minute)
	w.run("p-0", "p-1")
	w.play(w.t.Context(), time.Minute)
}

// twoLateSteps are two that depend on the first one.
func twoLateSteps() []model.Role {
	return []model.Role{{Name: "side", MinMember: 2, MadeLater: true}, {Name: "work", MinMember: 3, MadeLater: true}}
}

// refuseToAll refuses the binds of some pods, to all nodes.
func (w *world) refuseToAll(pods ...string) {
	w.refuse = func(call commit.Call) error {
		if slices.Contains(pods, call.Pod.Name) {
			return forbidden(call)
		}
		return nil
	}
}

// attempt says of pods in which attempt of their JobSet they were made.
func (w *world) attempt(n string, names ...string) {
	for _, name := range names {
		w.change(name, func(pod *corev1.Pod) { pod.Labels["jobset.sigs.k8s.io/restart-attempt"] = n })
	}
}

// wantBound are all pods with a node.
func (w *world) wantBound(when string, names ...string) {
	w.t.Helper()
	if got := w.bound(); !slices.Equal(got, names) {
		w.t.Errorf("%s: bound are %q, want %q", when, got, names)
	}
}

// TestALateStepIsFoundWhileMembersAreMissing: a process that begins to lead finds two of three bound, and a replacement of the
// first step that waits. That lowers what is needed in this cycle, and does not make the later step whole.
func TestALateStepIsFoundWhileMembersAreMissing(t *testing.T) {
	w := stepKilled(t, 2)
	w.gone("w-2")
	w.gone("p-1")
	next := w.next(t)
	next.node("n1", "4")
	next.inSteps()
	next.step("prepare", "p-2")
	next.play(t.Context(), time.Second)
	next.step("work", "w-3")
	next.play(t.Context(), 2*time.Minute)
	next.wantBound("no capacity for the third", "p-0", "p-2")
}

// TestABindThatAddsToALateStep is not made while a member is missing, also where a replacement of the first step waits: the step
// would be no more whole with it.
func TestABindThatAddsToALateStep(t *testing.T) {
	work := model.Role{Name: "work", MinMember: 4, MadeLater: true}
	w := newWorld(t)
	w.node("n1", "6")
	w.firstStepOf(work)
	w.refuseToAll("w-1", "w-3")
	w.step("work", "w-0", "w-1", "w-2", "w-3")
	w.play(t.Context(), time.Second)
	w.gone("w-1")
	w.gone("p-1")
	next := w.next(t)
	next.refuseTo("p-2")
	next.stepsOf(model.Role{Name: "prepare", MinMember: 2}, work)
	next.step("prepare", "p-2")
	next.play(t.Context(), 5*time.Second)
	next.wantBound("none is added", "p-0", "w-0", "w-2")
	next.node("n1", "5")
	next.refuse = nil
	next.step("work", "w-4")
	next.play(t.Context(), 2*time.Minute)
	next.wantBound("no capacity for the fourth", "p-0", "p-2")
}

// TestALateStepWithoutPodsThatWait is undone also while another one lacks a member.
func TestALateStepWithoutPodsThatWait(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "7")
	w.firstStepOf(twoLateSteps()...)
	w.step("side", "s-0", "s-1")
	w.play(t.Context(), time.Minute)
	w.run("s-0", "s-1")
	w.play(t.Context(), time.Minute)
	w.refuseTo("w-1")
	w.step("work", "w-0", "w-1", "w-2")
	w.play(t.Context(), 5*time.Second)
	w.gone("w-1")
	w.gone("s-1")
	w.play(t.Context(), 2*time.Minute)
	w.wantBound("neither is made again", "p-0", "p-1", "s-0")
}

// TestAnEarlierAttemptMakesNoStepWhole: a member of it that has succeeded, or is bound and was whole with others, says nothing of
// the attempt of now.
func TestAnEarlierAttemptMakesNoStepWhole(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.inSteps()
	w.step("work", "o-0")
	w.change("o-0", func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodSucceeded })
	w.attempt("0", "o-0")
	w.step("prepare", "p-0", "p-1")
	w.attempt("1", "p-0", "p-1")
	w.play(t.Context(), time.Minute)
	w.run("p-0", "p-1")
	w.play(t.Context(), time.Minute)
	w.refuseTo("w-1")
	w.step("work", "w-0", "w-1", "w-2")
	w.attempt("1", "w-0", "w-1", "w-2")
	w.play(t.Context(), time.Minute)
	w.wantBound("one has succeeded", "o-0", "p-0", "p-1")

	w = newWorld(t)
	w.node("n1", "8")
	w.inSteps()
	w.step("prepare", "o-0", "o-1")
	w.attempt("0", "o-0", "o-1")
	w.play(t.Context(), time.Minute)
	w.gone("o-0")
	w.refuseTo("p-1")
	w.step("prepare", "p-0", "p-1")
	w.attempt("1", "p-0", "p-1")
	w.play(t.Context(), time.Minute)
	w.wantBound("one is bound", "o-1")
}

// TestAnUndoThatIsRefusedIsTriedAgainWithoutCapacity, where nothing is bound for the start any more: of a gang, and of a later
// step.
func TestAnUndoThatIsRefusedIsTriedAgainWithoutCapacity(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newWorld(t)
		cpus := 3
		left := []string(nil)
		if late {
			w = firstStepRuns(t)
			cpus, left = 5, []string{"p-0", "p-1"}
			w.refuseTo("w-1")
		} else {
			w.node("n1", "3")
			w.refuseTo("mpi-1")
			w.gang("mpi", 3, 3)
		}
		w.play(t.Context(), 20*time.Millisecond)
		w.node("n1", fmt.Sprint(cpus-1))
		w.refuse, w.refuseUndo = nil, forbidden
		w.play(t.Context(), time.Minute)
		w.refuseUndo = nil
		w.play(t.Context(), 5*time.Minute)
		w.wantBound(fmt.Sprintf("late %t", late), left...)
	}
}

// TestTwoLateStepsHaveDeadlinesOfTheirOwn: one is bound 20 s after the other, since an answer was lost for as long. That the
// other is undone does not put off its own undo.
func TestTwoLateStepsHaveDeadlinesOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "7")
	w.firstStepOf(twoLateSteps()...)
	lost := true
	w.refuse = func(call commit.Call) error {
		switch {
		case call.Pod.Name == "w-1" || call.Pod.Name == "s-1":
			return forbidden(call)
		case call.Pod.Name == "s-0" && lost:
			return errors.New("connection reset")
		}
		return nil
	}
	w.step("work", "w-0", "w-1", "w-2")
	w.step("side", "s-0", "s-1")
	w.play(t.Context(), 20*time.Second)
	lost = false
	w.play(t.Context(), 9*time.Second)
	w.wantBound("in part", "p-0", "p-1", "s-0", "w-0", "w-2")
	w.play(t.Context(), 11*time.Second)
	w.wantBound("the first deadline is over", "p-0", "p-1", "s-0")
	w.play(t.Context(), 18*time.Second)
	w.wantBound("both deadlines are over", "p-0", "p-1")
}

// jobSetUnread lets no JobSet be read for so long.
func (w *world) jobSetUnread(d time.Duration) {
	w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceJobSet, Reading: cluster.NotServed})
	w.play(w.t.Context(), d)
	w.inSteps()
}

// TestAStartWhoseObjectIsNotReadForAWhile, or is made again, is not forgotten: one of three has no node and no capacity, and what
// is bound is undone as soon as that is known.
func TestAStartWhoseObjectIsNotReadForAWhile(t *testing.T) {
	steps := func(w *world) {
		w.firstStepOf(model.Role{Name: "work", MinMember: 3, MadeLater: true})
		w.refuseTo("w-1")
		w.step("work", "w-0", "w-1", "w-2")
	}
	train := func(w *world) {
		w.foreignGroup(model.SourceCoscheduling, "train", func(spec *sources.Spec) {
			spec.MinMember = 5
			spec.OwnerReferences = []metav1.OwnerReference{{Kind: "TrainJob", Name: "train", Controller: new(true)}}
		})
		w.cannotRead(cluster.IsRead)
		w.inSteps()
		step := func(role string, names ...string) {
			w.step(role, names...)
			for _, name := range names {
				w.change(name, func(pod *corev1.Pod) { pod.Labels[sources.LabelCoscheduling] = "train" })
			}
			w.play(t.Context(), 20*time.Millisecond)
		}
		step("prepare", "p-0", "p-1")
		w.run("p-0", "p-1")
		w.play(t.Context(), time.Minute)
		w.refuseTo("w-1")
		step("work", "w-0", "w-1", "w-2")
	}
	gang := func(w *world) {
		w.cannotRead(cluster.IsRead)
		w.coscheduling("other", 2, 2)
		w.play(t.Context(), time.Minute)
		w.refuseTo("mpi-1")
		w.coscheduling("mpi", 3, 3)
	}
	notRead := func(w *world) { w.jobSetUnread(2 * time.Minute) }
	for name, c := range map[string]struct {
		begins, happens func(*world)
		left            []string
	}{
		"a JobSet":                 {steps, notRead, []string{"p-0", "p-1"}},
		"the JobSet of a TrainJob": {train, notRead, []string{"p-0", "p-1"}},
		"a group that is not served": {gang, func(w *world) {
			w.cannotRead(cluster.NotServed)
			w.play(t.Context(), 2*time.Minute)
			w.cosched("other", 2)
			w.object("foreign-mpi", 3, false)
			w.cannotRead(cluster.IsRead)
		}, []string{"other-0", "other-1"}},
		"a group that is made again": {gang, func(w *world) {
			w.object("foreign-mpi", 3, true)
			w.play(t.Context(), time.Second)
			w.object("another", 3, false)
		}, []string{"other-0", "other-1"}},
	} {
		w := newWorld(t)
		w.node("n1", "5")
		c.begins(w)
		w.play(t.Context(), 20*time.Millisecond)
		w.node("n1", "4")
		w.refuse = nil
		w.play(t.Context(), 5*time.Second)
		if n := w.boundPods(); n != 4 {
			t.Fatalf("%s: %d are bound", name, n)
		}
		c.happens(w)
		w.play(t.Context(), 2*time.Minute)
		w.wantBound(name, c.left...)
	}
}

// TestAStartWhoseObjectIsNotReadForAWhileIsNotCompletedByAnEarlierAttempt: a member of that is still on its node, and makes three
// with the two that are bound.
func TestAStartWhoseObjectIsNotReadForAWhileIsNotCompletedByAnEarlierAttempt(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "6")
	w.firstStepOf(model.Role{Name: "work", MinMember: 3, MadeLater: true})
	w.attempt("1", "p-0", "p-1")
	w.step("work", "earlier")
	w.change("earlier", func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodRunning })
	w.attempt("0", "earlier")
	w.play(t.Context(), time.Minute)
	w.refuseTo("w-1")
	w.step("work", "w-0", "w-1", "w-2")
	w.attempt("1", "w-0", "w-1", "w-2")
	w.play(t.Context(), 20*time.Millisecond)
	w.node("n1", "5")
	w.refuse = nil
	w.play(t.Context(), 5*time.Second)
	w.wantBound("in part", "earlier", "p-0", "p-1", "w-0", "w-2")
	w.jobSetUnread(2 * time.Minute)
	w.play(t.Context(), 2*time.Minute)
	w.wantBound("it is read again", "earlier", "p-0", "p-1")
}

// TestALateStepThatWasWholeBeforeItsObjectWasNotRead is no interrupted start when it loses a member afterwards.
func TestALateStepThatWasWholeBeforeItsObjectWasNotRead(t *testing.T) {
	w := firstStepRuns(t)
	w.play(t.Context(), time.Minute)
	w.jobSetUnread(2 * time.Minute)
	w.play(t.Context(), time.Minute)
	w.gone("w-1")
	w.refuseTo("w-3")
	w.step("work", "w-3")
	if deleted := sent(w.play(t.Context(), 2*time.Minute), commit.CallDeleteStarted); len(deleted) != 0 {
		t.Errorf("deleted %q", deleted)
	}
}

// TestAnUndoOfALateStepThatIsRefused is tried again also where no pod of the step waits.
func TestAnUndoOfALateStepThatIsRefused(t *testing.T) {
	w := firstStepRuns(t)
	w.refuseTo("w-1")
	w.play(t.Context(), 20*time.Millisecond)
	w.gone("w-1")
	w.refuseUndo = forbidden
	w.play(t.Context(), time.Minute)
	w.refuseUndo = nil
	w.play(t.Context(), 5*time.Minute)
	w.wantBound("refused for a minute", "p-0", "p-1")
}

// TestAPartOfWhichAContainerHasRun was whole, also when that container has ended before those of the others run: a replacement
// that is refused makes no interrupted start of it, in the next process either.
func TestAPartOfWhichAContainerHasRun(t *testing.T) {
	for name, c := range map[string]struct {
		object func(w *world)
		member func(w *world, i int)
	}{
		"a later step":              {(*world).inSteps, func(w *world, i int) { w.step("work", fmt.Sprint("w-", i)) }},
		"a group without an object": {func(*world) {}, func(w *world, i int) { w.implied("w", i, 3) }},
		"a group of another project": {
			func(w *world) { w.foreignObject(model.SourceCoscheduling, "w") },
			func(w *world, i int) {
				w.member("w", i)
				w.change(fmt.Sprint("w-", i), func(pod *corev1.Pod) { marked(model.SourceCoscheduling, pod, "w", i) })
			},
		},
	} {
		for _, next := range []bool{false, true} {
			w := newWorld(t)
			w.node("n1", "8")
			w.firstStepOf(model.Role{Name: "work", MinMember: 3, MadeLater: true})
			c.object(w)
			for i := range 3 {
				c.member(w, i)
			}
			w.play(t.Context(), time.Minute)
			w.run("w-0")
			w.play(t.Context(), time.Minute)
			if next {
				w = w.next(t)
				w.inSteps()
				c.object(w)
				w.play(t.Context(), time.Second)
			}
			w.gone("w-0")
			w.refuseTo("w-3")
			c.member(w, 3)
			if deleted := sent(w.play(t.Context(), 2*time.Minute), commit.CallDeleteStarted); len(deleted) != 0 {
				t.Errorf("%s, in the next process %t: deleted %q", name, next, deleted)
			}
		}
	}
}

// TestADeadlineOfAnotherStep that is over, while the result of a bind of it is not known, does not end what is prepared for a
// step.
func TestADeadlineOfAnotherStep(t *testing.T) {
	k := newKeeper(t)
	k.node("n1", "7")
	k.firstStepOf(twoLateSteps()...)
	attempts := 0
	k.refuse = func(call commit.Call) error {
		if call.Pod.Name != "w-1" {
			return nil
		}
		if attempts++; attempts == 1 {
			return forbidden(call)
		}
		return errors.New("connection reset")
	}
	k.refuseRead = forbidden
	k.step("work", "w-0", "w-1", "w-2")
	k.play(t.Context(), 40*time.Second)
	if len(k.loop.uncertain) != 1 {
		t.Fatalf("uncertain are %d binds", len(k.loop.uncertain))
	}
	k.keep["s-0"] = commit.Call{}
	k.step("side", "s-0", "s-1")
	k.play(t.Context(), time.Second)
	k.mailbox.Reply(commit.Reply{ID: k.keep["s-0"].ID})
	k.play(t.Context(), time.Second)
	k.wantBound("prepared in a second", "p-0", "p-1", "s-0", "s-1", "w-0", "w-2")
}

// TestAPartThatTheWatchHasShownToBeWhole is no interrupted start when it loses a member, also while the answer to a bind of
// another member is awaited.
func TestAPartThatTheWatchHasShownToBeWhole(t *testing.T) {
	for name, c := range map[string]struct {
		lost, gone string
		begin      func(*world)
	}{
		"a later step beside another": {"s-0", "w-1", func(w *world) {
			w.firstStepOf(twoLateSteps()...)
			w.step("work", "w-0", "w-1", "w-2")
			w.step("side", "s-0", "s-1")
		}},
		"a gang with a member more": {"mpi-3", "mpi-1", func(w *world) { w.implicit("mpi", 4, 3) }},
	} {
		w := newWorld(t)
		w.node("n1", "7")
		w.refuse = func(call commit.Call) error {
			if call.Pod.Name == c.lost {
				return errors.New("connection reset")
			}
			return nil
		}
		c.begin(w)
		w.play(t.Context(), 10*time.Second)
		w.gone(c.gone)
		if deleted := sent(w.play(t.Context(), 2*time.Minute), commit.CallDeleteStarted); slices.ContainsFunc(deleted, func(pod string) bool { return pod[0] != 's' }) {
			t.Errorf("%s: deleted %q", name, deleted)
		}
	}
}

// TestADeadlineThatIsOver does not end what is prepared for a replacement: the start is complete, also where that was not
// recorded, since the answer to the bind of one more member was lost and two are gone since.
func TestADeadlineThatIsOver(t *testing.T) {
	k := newKeeper(t)
	k.node("n1", "7")
	k.refuseTo("mpi-1")
	k.implicit("mpi", 3, 3)
	k.play(t.Context(), 5*time.Second)
	k.refuse = func(call commit.Call) error {
		if call.Pod.Name == "mpi-3" {
			return errors.New("connection reset")
		}
		return nil
	}
	k.implied("mpi", 3, 3)
	k.node("n2", "7")
	k.play(t.Context(), 10*time.Second)
	k.wantBound("the minimum", "mpi-0", "mpi-1", "mpi-2")
	k.gone("mpi-1")
	k.gone("mpi-3")
	k.play(t.Context(), 2*time.Minute)
	k.keep["mpi-4"] = commit.Call{}
	k.implied("mpi", 4, 3)
	k.play(t.Context(), time.Second)
	k.mailbox.Reply(commit.Reply{ID: k.keep["mpi-4"].ID})
	k.play(t.Context(), time.Second)
	k.wantBound("prepared in a second", "mpi-0", "mpi-2", "mpi-4")
}

// TestAStepThatIsCompleteWhileItsObjectIsNotRead is no interrupted start when the object is read again, although it has lost a
// member.
func TestAStepThatIsCompleteWhileItsObjectIsNotRead(t *testing.T) {
	w := firstStepRuns(t)
	for len(w.bound()) < 5 {
		w.play(t.Context(), 10*time.Millisecond)
	}
	w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceJobSet, Reading: cluster.NotServed})
	w.play(t.Context(), time.Minute)
	w.gone("w-1")
	w.play(t.Context(), time.Minute)
	w.inSteps()
	w.play(t.Context(), 2*time.Minute)
	w.wantBound("read again", "p-0", "p-1", "w-0", "w-2")
}

// workersOf makes so many workers of a group of a LeaderWorkerSet whose leader runs on n1, and lets the scheduler lack the
// right to read the set. Bound says which workers were bound an hour ago.
func (w *world) workersOf(cpu string, bound bool) {
	in := func(pod *corev1.Pod) {
		delete(pod.Annotations, sources.LWSExclusiveTopology)
		pod.Labels[sources.LWSName], pod.Labels[sources.LWSGroupIndex] = "mpi", "0"
		if bound || pod.Labels[sources.LWSWorkerIndex] == "0" {
			w.boundAnHourAgo(pod)
		}
	}
	w.node("n1", cpu)
	w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceLeaderWorkerSetObject, Reading: cluster.NotAllowed})
	w.leaderWorkers("lws", 3, 0, 1, in)
	w.run("lws-0")
	w.leaderWorkers("lws", 3, 1, 3, in)
}

// setIsRead shows the LeaderWorkerSet.
func (w *world) setIsRead() {
	parents()["LeaderWorkerSet"].show(w, true)
	w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceLeaderWorkerSetObject, Reading: cluster.IsRead})
}

// TestWorkersThatWereCompleteBeforeTheirSetIsRead are no interrupted start when one is lost before that, whichever process has
// bound them.
func TestWorkersThatWereCompleteBeforeTheirSetIsRead(t *testing.T) {
	for _, bound := range []bool{false, true} {
		w := newWorld(t)
		w.workersOf("3", bound)
		w.play(t.Context(), time.Minute)
		w.wantBound("all", "lws-0", "lws-1", "lws-2")
		w.gone("lws-1")
		w.play(t.Context(), time.Minute)
		w.setIsRead()
		w.play(t.Context(), 2*time.Minute)
		w.wantBound(fmt.Sprintf("bound an hour ago %t", bound), "lws-0", "lws-2")
	}
}

// TestAWorkerThatIsBoundWhileItsSetIsNotRead stays while the other has no node: whether they were complete is not known. The
// reason says which right is missing, and the start is undone once the set is read.
func TestAWorkerThatIsBoundWhileItsSetIsNotRead(t *testing.T) {
	w := newWorld(t)
	w.workersOf("3", false)
	w.refuseTo("lws-2")
	w.play(t.Context(), 20*time.Millisecond)
	w.node("n1", "2")
	w.play(t.Context(), 2*time.Minute)
	w.wantBound("not read", "lws-0", "lws-1")
	for _, want := range []string{
		`LeaderWorkerSet "mpi" is not read`, "what is bound of those is kept until it is read",
		"give the scheduler the right to list and watch objects of this kind",
	} {
		if told := w.told("lws-2"); told == nil || !strings.Contains(told.Message, want) {
			t.Errorf("the condition is %+v, want %q", told, want)
		}
	}
	w.setIsRead()
	w.play(t.Context(), time.Minute)
	w.wantBound("read", "lws-0")
}
