package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// An event that asks for no cycle changes nothing a session could decide by, so a loop that leaves out sessions while no
// event asks for one misses nothing.
func TestAnEventThatAsksForNoCycleChangesNoAnswer(t *testing.T) {
	now := start.Add(time.Minute)
	rapid.Check(t, func(t *rapid.T) {
		w, s := newWorld(t), newState()
		before := questions(s.Snapshot(now))
		for range w.number(60, "steps") {
			event := w.step()
			effect := s.Apply(event)
			after := questions(s.Snapshot(now))
			if !effect.Schedule {
				kind, _, _ := event.object()
				same(t, fmt.Sprintf("an event of kind %s asked for no cycle", kind), before, after)
			}
			before = after
		}
	})
}

// Two snapshots of one version lead to the same answers, whatever time has passed; and nothing has a version of its own.
func TestOneVersionIsOneAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, s := newWorld(t), newState()
		now := start.Add(time.Minute)
		snapshot := s.Snapshot(now)
		version, before := snapshot.Version, questions(snapshot)
		for range w.number(60, "steps") {
			now = now.Add(time.Duration(w.number(20, "seconds")) * time.Second)
			if w.number(3, "nothing happens") > 0 {
				s.Apply(w.step())
			}
			after := questions(s.Snapshot(now))
			if snapshot.Version == version {
				same(t, "version "+strconv.FormatUint(version, 10), before, after)
			}
			version, before = snapshot.Version, after
			if s.Snapshot(now); snapshot.Version != version {
				t.Errorf("nothing has happened, and version %d became %d", version, snapshot.Version)
			}
		}
	})
}

// TestAMemberThatAsksSomethingElseMakesAnotherVersionOfItsJob: what was found out about the old one says nothing of the new
// one. Labels are part of the question: a pod may be drawn to its own kind.
func TestAMemberThatAsksSomethingElseMakesAnotherVersionOfItsJob(t *testing.T) {
	for name, c := range map[string]struct {
		change  podOption
		another bool
	}{
		"nothing":             {func(*corev1.Pod) {}, false},
		"a label":             {label("app", "y"), true},
		"an annotation":       {annotation("example.com/note", "seen"), false},
		"what phase it is in": {phase("Pending"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			s.Apply(seen(group("g", 2)))
			s.Apply(seen(pod("a", of("g"), label("app", "x"))))
			s.Apply(seen(pod("b", of("g"), label("app", "x"))))
			key := s.Snapshot(start).Jobs[0].Key
			before := s.Snapshot(start).Job(key).Version
			s.Apply(seen(pod("b", of("g"), label("app", "x"), c.change)))
			if after := s.Snapshot(start).Job(key).Version; (after != before) != c.another {
				t.Errorf("version %d became %d, want another one: %t", before, after, c.another)
			}
		})
	}
}

// questions writes down what decisions depend on. Whether a started pod is known to run does not matter to them.
func questions(snapshot *model.Snapshot) string {
	var b strings.Builder
	for _, n := range snapshot.Nodes {
		fmt.Fprintln(&b, n.Name, n.Object.Labels, n.Object.Spec.Taints, n.Object.Spec.Unschedulable,
			amounts(snapshot.Dimensions, n.Amounts().Idle), amounts(snapshot.Dimensions, n.Amounts().Releasing), n.Invalid,
			n.Isolated != nil, n.AgentExpired, n.HeldCPUs(false), n.HeldCPUs(true))
	}
	for _, hold := range snapshot.Held() {
		fmt.Fprintln(&b, hold.Node, hold.Job, hold.Priority, hold.Pod, amounts(snapshot.Dimensions, hold.Request))
	}
	for _, budget := range snapshot.Budgets {
		fmt.Fprintln(&b, budget.Namespace, budget.Name, budget.Selector, budget.Allowed, budget.ReleasesUnready)
	}
	for _, j := range snapshot.Jobs {
		roles := slices.Clone(j.Roles)
		for i := range roles { // whether it is late matters to members that wait
			roles[i].NotBegun = roles[i].NotBegun && j.Count(func(task *model.Task) bool { return task.Status == model.Pending }) > 0
		}
		fmt.Fprintln(&b, j.Key, j.UID, j.Priority, j.MinMember, roles, j.Invalid)
	}
	for _, hold := range snapshot.Held() {
		fmt.Fprintln(&b, hold.Node, hold.Job, hold.Priority, hold.Pod, amounts(snapshot.Dimensions, hold.Request), hold.LentUntil)
	}
	for _, task := range tasksIn(snapshot) {
		status := task.Status.String()
		if isOnNode(task.Status) {
			status = "started"
		}
		fmt.Fprintln(&b, task.UID, status, task.Node, task.Job, task.Role, task.Priority, task.SchedulingGated, task.TerminationOverdue, task.Invalid,
			task.Shape.Value(), task.Status.HasNode() && model.AskedBudget(snapshot.Budgets, task) != model.Unasked)
	}
	return b.String()
}
