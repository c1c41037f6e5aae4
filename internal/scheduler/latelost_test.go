package scheduler

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// run lets a container of each pod run.
func (w *world) run(names ...string) {
	for _, name := range names {
		w.inPhase(name, corev1.PodRunning)
	}
}

// bothStepsRun is a process in which both steps have run for minutes.
func bothStepsRun(t *testing.T) *world {
	t.Helper()
	w := firstStepRuns(t)
	w.play(t.Context(), time.Minute)
	w.run("w-0", "w-1", "w-2")
	w.play(t.Context(), 5*time.Minute)
	return w
}

// TestALaterStepRunsOnWithoutTheFirst: all members of the first step are lost while the later one runs. Its replacements start as
// they come, and nothing that runs is deleted, also where one of them has no place.
func TestALaterStepRunsOnWithoutTheFirst(t *testing.T) {
	for name, come := range map[string]func(w *world){
		"one has no place": func(w *world) {
			w.node("n1", "4")
			w.step("prepare", "p-2", "p-3")
		},
		"one is refused": func(w *world) {
			w.step("prepare", "p-2", "p-3")
			w.refuseTo("p-3")
		},
		"one comes later": func(w *world) {
			w.node("n1", "4")
			w.step("prepare", "p-2")
			w.play(t.Context(), time.Second)
			w.step("prepare", "p-3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := bothStepsRun(t)
			w.gone("p-0")
			w.gone("p-1")
			w.play(t.Context(), time.Second)
			come(w)
			calls := w.play(t.Context(), 5*time.Second)
			if slices.Contains(w.bound(), "p-2") {
				w.run("p-2")
			}
			calls = append(calls, w.play(t.Context(), 2*time.Minute)...)
			if deleted := sent(calls, commit.CallDeleteStarted); len(deleted) != 0 {
				t.Errorf("deleted %q", deleted)
			}
		})
	}
}

// slowBinds is a sender whose answers to some binds are held back.
type slowBinds struct {
	*world
	slow map[string]bool
	held map[string]commit.Reply
}

func (s *slowBinds) Send(call commit.Call) {
	if call.Kind != commit.CallBind || !s.slow[call.Pod.Name] {
		s.world.Send(call)
		return
	}
	s.calls = append(s.calls, call)
	s.held[call.Pod.Name] = commit.Reply{ID: call.ID, Err: s.serve(call)}
}

func (s *slowBinds) answer(name string) {
	delete(s.slow, name)
	s.mailbox.Reply(s.held[name])
}

// TestALaterStepIsNotWholeWhileItsBindsAreUnderWay: a replacement of the first step is confirmed before the binds of the later
// step are answered, of which one fails. What is bound of that step is deleted, since there is no place for the rest.
func TestALaterStepIsNotWholeWhileItsBindsAreUnderWay(t *testing.T) {
	w := newWorld(t)
	s := &slowBinds{world: w, slow: map[string]bool{"p-2": true, "w-1": true}, held: map[string]commit.Reply{}}
	w.loop.sender = s
	w.node("n1", "5")
	w.inSteps()
	w.step("prepare", "p-0", "p-1")
	w.play(t.Context(), time.Minute)
	w.run("p-0", "p-1")
	w.play(t.Context(), time.Minute)
	w.gone("p-1")
	w.play(t.Context(), time.Second)
	w.refuseTo("w-1")
	w.step("prepare", "p-2")
	w.step("work", "w-0", "w-1", "w-2")
	w.play(t.Context(), 6*time.Second)
	if held := slices.Sorted(maps.Keys(s.held)); !slices.Equal(held, []string{"p-2", "w-1"}) {
		t.Fatalf("under way are %q", held)
	}
	s.answer("p-2")
	w.play(t.Context(), 200*time.Millisecond)
	s.answer("w-1")
	w.play(t.Context(), 50*time.Millisecond)
	w.node("n1", "4")
	deleted := sent(w.play(t.Context(), 5*time.Minute), commit.CallDeleteStarted)
	if slices.Sort(deleted); !slices.Equal(deleted, []string{"w-0 n1", "w-2 n1"}) {
		t.Errorf("deleted %q, want what is bound of the later step", deleted)
	}
}

// TestAMemberThatHasSucceededShowsThatAStepHasRun: the last member of a later step that runs succeeds while a replacement of
// another pulls its image: that is no interrupted start.
func TestAMemberThatHasSucceededShowsThatAStepHasRun(t *testing.T) {
	w := bothStepsRun(t)
	w.inPhase("w-0", corev1.PodSucceeded)
	w.play(t.Context(), time.Minute)
	w.node("n1", "3")
	w.gone("w-0")
	w.gone("w-1")
	w.step("work", "w-3")
	w.play(t.Context(), time.Minute)
	w.inPhase("w-2", corev1.PodSucceeded)
	if deleted := sent(w.play(t.Context(), time.Minute), commit.CallDeleteStarted); len(deleted) != 0 {
		t.Errorf("deleted %q", deleted)
	}
}

// TestALateStepIsFoundWhenItsSetIsRead: a process that begins to lead knows only by the LeaderWorkerSet that workers are made
// later. One of two is bound, and there is no place for the other: it is undone whenever the set can be read.
func TestALateStepIsFoundWhenItsSetIsRead(t *testing.T) {
	for _, after := range []time.Duration{0, time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", "2")
			w.leaderWorkers("lws", 3, 0, 3, func(pod *corev1.Pod) {
				delete(pod.Annotations, sources.LWSExclusiveTopology)
				pod.Labels[sources.LWSName], pod.Labels[sources.LWSGroupIndex] = "mpi", "0"
				switch pod.Labels[sources.LWSWorkerIndex] {
				case "0":
					w.boundAnHourAgo(pod)
					pod.Status.Phase = corev1.PodRunning
				case "1":
					w.boundAnHourAgo(pod)
				}
			})
			calls := w.play(t.Context(), after)
			parents()["LeaderWorkerSet"].show(w, true)
			w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceLeaderWorkerSetObject, Reading: cluster.IsRead})
			calls = append(calls, w.play(t.Context(), 5*time.Minute)...)
			if deleted := sent(calls, commit.CallDeleteStarted); !slices.Equal(deleted, []string{"lws-1 n1"}) {
				t.Errorf("deleted %q, want the worker that is bound", deleted)
			}
		})
	}
}

// TestALateStepStartsOnceTheFirstIsReplaced, in the next cycle, which nothing else asks for.
func TestALateStepStartsOnceTheFirstIsReplaced(t *testing.T) {
	w := firstStepRuns(t)
	w.gone("p-1")
	w.play(t.Context(), time.Minute)
	w.wantBound("a member of the first step is missing", "p-0")
	w.step("prepare", "p-2")
	w.play(t.Context(), 500*time.Millisecond)
	w.wantBound("it is replaced", "p-0", "p-2", "w-0", "w-1", "w-2")
}
