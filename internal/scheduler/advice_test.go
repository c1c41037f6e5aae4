package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// advice is what the group's status says would let it start.
func (w *world) advice(group string) string {
	if advice := w.groups[group].Status.Advice; advice != nil {
		return advice.Message
	}
	return ""
}

func TestAdviceComesWithTheReasonAndGoesWithIt(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.gang("big", 3, 3)
	counts := kinds(w.play(t.Context(), 2*time.Second))
	if got := w.advice("big"); got != "add 1 node with 1 cpu, or lower minMember from 3 to 2" {
		t.Errorf("advice %q", got)
	}
	if counts[commit.CallGroupStatus] != 1 {
		t.Errorf("the group was written %d times, want once", counts[commit.CallGroupStatus])
	}
	w.play(t.Context(), time.Minute) // the events of first refusals
	if calls := w.play(t.Context(), 2*time.Minute); len(calls) != 0 {
		t.Errorf("%d calls for an unchanged cluster", len(calls))
	}
	w.node("n2", "1")
	w.play(t.Context(), 2*time.Second)
	if c := w.condition("big"); c == nil || c.Status != "True" || w.advice("big") != "" {
		t.Errorf("condition %+v, advice %q after it has started", c, w.advice("big"))
	}
}

// TestEverydayCases: five reasons to wait, each with what would help.
func TestEverydayCases(t *testing.T) {
	w := newWorld(t)
	w.preempting()
	w.node("n1", "2")
	w.low("first", "n1")
	w.raise("first")
	w.gang("high", 1, 1)
	w.raise("high-0")
	w.play(t.Context(), 2*time.Second)
	w.gang("behind", 1, 1)
	w.gang("missing", 2, 3)
	w.gang("too-big", 3, 3)
	w.gang("training", 1, 2)
	w.member("trainnig", 0)
	calls := w.play(t.Context(), 12*time.Second)
	for group, want := range map[string]string{
		"behind":   "free 1 cpu on node n1, or raise its priority from 0 to 101, above that of pods which can be evicted then",
		"missing":  "create 1 more pod of the group and add 2 nodes with 2 cpu each",
		"too-big":  "add 2 nodes with 2 cpu each",
		"training": "create 1 more pod of the group and free 2 cpu on node n1",
	} {
		if got := w.advice(group); got != want {
			t.Errorf("%s: %s\nadvice %q\nwant   %q", group, w.condition(group).Message, got, want)
		}
	}
	if reason := w.condition("behind").Message; !strings.Contains(reason, "(its priority is 0, the lowest in use 100)") {
		t.Errorf("behind waits since %q", reason)
	}
	const misspelt = `PodGroup "trainnig" does not exist in this namespace; correct the pods' label to "training", which is a PodGroup, or create "trainnig"`
	if told := notes(calls, "trainnig-0"); !slices.Contains(told, "Warning FailedScheduling: "+misspelt) {
		t.Errorf("the misspelt pod's events are %q", told)
	}
	if c := model.PodScheduled(w.pods["trainnig-0"]); c == nil || c.Reason != string(model.GroupNotFound) ||
		c.Message != misspelt {
		t.Errorf("the misspelt pod's condition is %+v", c)
	}
}

// backlog makes 300 gangs that find capacity nowhere, each of which asks something of its own.
func (w *world) backlog() {
	for i := range 200 {
		w.node(fmt.Sprintf("n%03d", i), "1")
	}
	for i := range 300 {
		w.gang(fmt.Sprintf("g%03d", i), 2, 2)
		for j := range 2 { // every gang asks something of its own
			pod := w.pods[types.UID(fmt.Sprintf("g%03d-%d", i, j))].DeepCopy()
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(1001+i), resource.DecimalSI)
			w.pod(pod)
		}
	}
}

// TestEveryJobOfABacklogHasAdvice, and nothing is asked once all have.
func TestEveryJobOfABacklogHasAdvice(t *testing.T) {
	w := newWorld(t)
	w.loop.options.Verify = false
	w.backlog()
	counter := &counting{}
	w.loop.profile.Tiers = append(w.loop.profile.Tiers, framework.Tier{{Factory: func() framework.Plugin { return counter }}})
	w.playBy(t.Context(), time.Minute, 50*time.Millisecond)
	for name := range w.groups {
		if w.advice(name) == "" {
			t.Fatalf("%s was never advised", name)
		}
	}
	asked := counter.asked
	w.playBy(t.Context(), 3*time.Minute, 50*time.Millisecond)
	if more := counter.asked - asked; more > 4*len(w.groups)*3 { // cycles that run anyway, once a minute
		t.Errorf("gates were asked %d times at rest", more)
	}
}

// counting counts how often gates are asked.
type counting struct{ asked int }

func (*counting) Name() string { return "counting" }

func (c *counting) JobReady(*model.Job, framework.Readiness) *model.Refusal {
	c.asked++
	return nil
}

// TestAdviceThatPanicsCostsTheAdvice and nothing else.
func TestAdviceThatPanicsCostsTheAdvice(t *testing.T) {
	w := newWorld(t)
	w.loop.options.Verify = false
	w.node("n1", "2")
	plugin := &touchy{}
	w.loop.profile.Tiers = append(w.loop.profile.Tiers, framework.Tier{{Factory: func() framework.Plugin { return plugin }}})
	w.gang("big", 3, 3)
	w.play(t.Context(), 2*time.Second)
	if c := w.condition("big"); c == nil || c.Reason != "InsufficientResources" || w.advice("big") != "" || plugin.panics != 1 {
		t.Errorf("condition %+v, advice %q after %d panics", c, w.advice("big"), plugin.panics)
	}
	snapshot := w.loop.state.Snapshot(w.clock.Now())
	if err := snapshot.Check(); err != nil || snapshot.Job(jobKey("big")).MinMember != 3 {
		t.Errorf("the snapshot after a panic: %v", err)
	}
	if snapshot.Nodes[0].Allocatable[model.CPU] != 2000 || len(snapshot.Nodes[0].Tasks) > 0 {
		t.Errorf("the node after a panic: %+v", snapshot.Nodes[0])
	}
	w.node("n2", "1")
	w.play(t.Context(), 2*time.Second)
	if c := w.condition("big"); c == nil || c.Status != "True" {
		t.Errorf("condition %+v", c)
	}
}

// touchy panics when a lower minimum is supposed.
type touchy struct{ panics int }

func (*touchy) Name() string { return "touchy" }

func (p *touchy) JobReady(job *model.Job, _ framework.Readiness) *model.Refusal {
	if job.MinMember == 2 && job.Count(func(task *model.Task) bool { return task.Status.HasNode() }) > 0 {
		p.panics++
		panic("a lower minimum")
	}
	return nil
}
