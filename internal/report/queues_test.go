package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// queueDesk is a reporter of queues with virtual time, and an API server that takes every write and shows it immediately.
type queueDesk struct {
	*QueueReporter
	now      time.Time
	objects  map[string]*v1alpha1.Queue
	snapshot *model.Snapshot
	refusals map[model.JobKey]*model.Refusal
	wake     time.Time
	// hidden says that the watch shows nothing.
	hidden bool
}

func newQueueDesk(queues ...*model.Queue) *queueDesk {
	d := &queueDesk{
		now: time.Unix(1_700_000_000, 0), objects: map[string]*v1alpha1.Queue{}, refusals: map[model.JobKey]*model.Refusal{},
		snapshot: &model.Snapshot{Dimensions: model.NewDimensions()},
	}
	d.snapshot.Nodes = []*model.Node{model.NewNode("n", nil, model.Resources{64000})}
	for _, queue := range queues {
		object := &v1alpha1.Queue{}
		object.Name, object.UID, object.Generation = queue.Name, types.UID(queue.Name), 1
		d.objects[queue.Name] = object
	}
	d.snapshot.SetQueues(queues)
	d.QueueReporter = NewQueueReporter([]string{"tutti"}, func(name string) *v1alpha1.Queue { return d.objects[name] })
	return d
}

// job adds a job that holds so many thousandths of a core, or waits for a reason.
func (d *queueDesk) job(name, queue string, holds int64) *model.Job {
	job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: name}}
	task := &model.Task{Request: model.Resources{holds}}
	if holds > 0 {
		task.Status = model.Running
	} else {
		d.refusals[job.Key] = &model.Refusal{Code: model.QueueLimit}
	}
	job.Tasks = []*model.Task{task}
	d.snapshot.Jobs = append(d.snapshot.Jobs, job)
	d.snapshot.Enqueue(job, queue)
	return job
}

// report lets the reporter write, and returns the names of the queues that were written.
func (d *queueDesk) report() string {
	writes, wake := d.Report(d.snapshot, d.refusals, d.now)
	var names []string
	for d.wake = wake; len(writes) > 0; writes = writes[1:] {
		status := writes[0].(*commit.QueueStatus)
		names = append(names, status.Name)
		if !d.hidden {
			object := d.objects[status.Name].DeepCopy()
			object.Status = *status.Status.DeepCopy()
			d.objects[status.Name] = object
		}
	}
	return strings.Join(names, " ")
}

func (d *queueDesk) expect(t *testing.T, names string) {
	t.Helper()
	if got := d.report(); got != names {
		t.Fatalf("written: %q, want %q", got, names)
	}
}

// says is the status of a queue in one line.
func (d *queueDesk) says(name string) string {
	status := d.objects[name].Status
	active := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionActive)
	cpu := status.Used[corev1.ResourceCPU]
	return fmt.Sprintf("%s=%s cpu %s running %d waiting %d of %d: %s",
		active.Reason, active.Status, cpu.String(), status.Running, status.Waiting, status.ObservedGeneration, active.Message)
}

func TestQueueStatusIsWrittenOnceAndThenAtMostEveryHalfMinute(t *testing.T) {
	d := newQueueDesk(&model.Queue{Name: "leaf", Parent: "top"}, &model.Queue{Name: "top"})
	d.job("runs", "leaf", 1500)
	d.job("waits", "leaf", 0)
	d.expect(t, "leaf top")
	for name, want := range map[string]string{
		"leaf": "Active=True cpu 1500m running 1 waiting 1 of 1: jobs of the queue may start",
		"top":  "Active=True cpu 1500m running 1 waiting 1 of 1: jobs of the queues below it may start",
	} {
		if got := d.says(name); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
	d.expect(t, "")
	if !d.wake.IsZero() {
		t.Errorf("it asks to be called again at %s, at rest", d.wake)
	}
	d.job("more", "leaf", 500)
	d.now = d.now.Add(29 * time.Second)
	d.expect(t, "")
	if d.now = d.wake; d.report() != "leaf top" {
		t.Error("numbers are not written after half a minute")
	}
	if got := d.says("top"); !strings.HasPrefix(got, "Active=True cpu 2 running 2 waiting 1") {
		t.Error(got)
	}
	d.now = d.now.Add(time.Hour)
	d.expect(t, "")
}

func TestWhetherAQueueIsActiveIsWrittenImmediately(t *testing.T) {
	q := &model.Queue{Name: "q"}
	d := newQueueDesk(q)
	d.expect(t, "q")
	for _, reason := range []string{model.QueueParentNotFound, model.QueueInCycle, model.QueueTooDeep, model.QueueUnreadable, model.QueueIsPaused} {
		d.now = d.now.Add(time.Second)
		q.Inactive, q.Invalid = reason, &model.Refusal{Code: model.QueueInvalid, Detail: "why"}
		d.expect(t, "q")
		if got := d.says("q"); got != reason+"=False cpu 0 running 0 waiting 0 of 1: why" {
			t.Error(got)
		}
		d.expect(t, "")
	}
	object := d.objects["q"].DeepCopy()
	object.Generation = 2
	d.objects["q"] = object
	d.expect(t, "q")
}

// TestWhetherAGuaranteeIsMet is written as numbers are: users change it with each job.
func TestWhetherAGuaranteeIsMet(t *testing.T) {
	q := &model.Queue{Name: "q", Guarantee: []model.ListedAmount{{Position: model.CPU, Amount: 1000}}}
	d := newQueueDesk(q)
	said := func() string {
		condition := meta.FindStatusCondition(d.objects["q"].Status.Conditions, v1alpha1.ConditionGuaranteeMet)
		if condition == nil {
			return "nothing"
		}
		return fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
	}
	d.expect(t, "q")
	if got := said(); got != "nothing" {
		t.Errorf("before a session: %s", got)
	}
	for _, step := range []struct {
		change func()
		says   string
	}{
		{func() { q.Parts = []model.QueuePart{} }, "True GuaranteeMet: no job waits that is within the guarantee"},
		{func() { q.Unmet = &model.UnmetGuarantee{Reason: model.UnmetBudget, Message: "numbers"} }, "False Budget: numbers"},
		{func() { q.Unmet = &model.UnmetGuarantee{Reason: model.UnmetBudget, Message: "others"} }, "False Budget: others"},
		{func() { d.missing.Guarantees = "there is no action" }, "Unknown NotEnforced: there is no action"},
		{func() { d.missing.Guarantees, q.Oversubscribed = "", "sums" }, "False Budget: others"},
		{func() { q.Unmet = nil }, "Unknown Oversubscribed: no job waits that is within the guarantee; sums"},
		{func() { q.Oversubscribed = "" }, "True GuaranteeMet: no job waits that is within the guarantee"},
		{func() { q.Parts = nil }, "True GuaranteeMet: no job waits that is within the guarantee"},
		{func() { q.Inactive, q.Invalid = model.QueueIsPaused, &model.Refusal{Detail: "why"} }, "Unknown Paused: why"},
		{func() { q.Guarantee, q.Inactive, q.Invalid = nil, "", nil }, "nothing"},
	} {
		before := said()
		d.now = d.now.Add(time.Second)
		step.change()
		if q.Invalid == nil && (q.Guarantee != nil || before == "nothing") { // else whether it is active has changed, too
			d.expect(t, "")
		}
		if step.says == before {
			continue
		}
		d.now = d.now.Add(queueInterval)
		d.report()
		if got := said(); got != step.says {
			t.Errorf("after %s it says %s, want %s", before, got, step.says)
		}
		d.expect(t, "")
	}
}

func TestWhatOfAQueueHasNoEffectIsInItsMessage(t *testing.T) {
	d := newQueueDesk(&model.Queue{Name: "leaf", Parent: "top"}, &model.Queue{Name: "top"})
	d.job("misplaced", "top", 0)
	one := resource.MustParse("1")
	d.objects["leaf"].Spec.Limit = corev1.ResourceList{"cpu": one, "vendor.com/b": one}
	d.objects["leaf"].Spec.Guarantee = corev1.ResourceList{"vendor.com/a": one}
	for i := range 9 {
		d.objects["top"].Spec.Limit = corev1.ResourceList{}
		d.objects["leaf"].Spec.Limit[corev1.ResourceName(fmt.Sprintf("vendor.com/c%d", i))] = one
	}
	d.expect(t, "leaf top")
	for name, want := range map[string]string{
		"leaf": "its limit or guarantee lists what no node offers: vendor.com/a, vendor.com/b, vendor.com/c0, vendor.com/c1, vendor.com/c2, " +
			"vendor.com/c3, vendor.com/c4, vendor.com/c5, and 3 more",
		"top": "jobs of the queues below it may start; QueueNotLeaf: jobs name this queue, which has queues below it and takes no jobs itself",
	} {
		if got := d.says(name); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
}

// TestEachNameOfAResourceIsOffered: a limit may list a resource by the name that is made of a DeviceClass.
func TestEachNameOfAResourceIsOffered(t *testing.T) {
	d := newQueueDesk(&model.Queue{Name: "leaf"})
	d.snapshot.Dimensions.Alias("deviceclass.resource.kubernetes.io/gpu", corev1.ResourceCPU)
	one := resource.MustParse("1")
	d.objects["leaf"].Spec.Limit = corev1.ResourceList{"deviceclass.resource.kubernetes.io/gpu": one}
	d.expect(t, "leaf")
	if got, want := d.says("leaf"), "jobs of the queue may start"; !strings.HasSuffix(got, want) {
		t.Errorf("%s; want %s", got, want)
	}
}

// TestAnOrderThatTheConfigurationLacksIsInTheMessage: queues without a plugin that orders them are active, and take turns.
func TestAnOrderThatTheConfigurationLacksIsInTheMessage(t *testing.T) {
	for missing, want := range map[Missing]string{
		{}:            "jobs of the queue may start",
		{Order: true}: "jobs of the queue may start; queues take turns whatever they hold, since the configuration has no plugin that orders them, such as proportion",
	} {
		d := newQueueDesk(&model.Queue{Name: "plain"})
		d.objects["plain"].Spec.Limit = corev1.ResourceList{}
		d.Configure(missing)
		d.expect(t, "plain")
		if got := d.says("plain"); !strings.HasSuffix(got, want) {
			t.Errorf("%+v: %s", missing, got)
		}
	}
}

// TestStatusesOfManyQueuesHaveABudget: ten a second, and those first that say whether a queue is active.
func TestStatusesOfManyQueuesHaveABudget(t *testing.T) {
	var queues []*model.Queue
	for i := range 25 {
		queues = append(queues, &model.Queue{Name: fmt.Sprintf("q%02d", i)})
	}
	d := newQueueDesk(queues...)
	for second, want := range []int{10, 10, 5, 0} {
		if got := len(strings.Fields(d.report())); got != want {
			t.Errorf("second %d: %d writes, want %d", second, got, want)
		}
		if got := len(strings.Fields(d.report())); got != 0 {
			t.Errorf("second %d: %d writes above the budget", second, got)
		}
		d.now = d.now.Add(time.Second)
	}
	d.now = d.now.Add(time.Minute)
	for i, queue := range queues {
		d.job(fmt.Sprint(i), queue.Name, 100)
	}
	queues[24].Inactive, queues[24].Invalid = model.QueueIsPaused, &model.Refusal{Code: model.QueuePaused, Detail: "why"}
	if first := strings.Fields(d.report()); len(first) != 10 || first[0] != "q24" {
		t.Errorf("written first: %v", first)
	}
}

func TestARefusedStatusOfAQueueIsTriedAgainLater(t *testing.T) {
	d := newQueueDesk(&model.Queue{Name: "q"})
	d.hidden = true
	d.expect(t, "q")
	d.Failed(&commit.QueueStatus{Name: "q", UID: "q"}, d.now)
	d.expect(t, "")
	if wait := d.wake.Sub(d.now); wait < 5*time.Second || wait > time.Minute {
		t.Fatalf("tried again after %s", wait)
	}
	d.now = d.wake
	d.expect(t, "q")
	d.now = d.now.Add(echoTimeout) // the watch has not shown it: it may be lost
	d.expect(t, "q")
	d.hidden = false
	d.now = d.now.Add(echoTimeout)
	d.expect(t, "q")
	d.now = d.now.Add(time.Hour)
	d.expect(t, "")
	d.Failed(&commit.QueueStatus{Name: "q", UID: "q"}, d.now)
	d.job("runs", "q", 1000)
	if d.expect(t, ""); d.wake.Sub(d.now) != 10*time.Second {
		t.Errorf("the first refusal after a write that was taken delays the next by %s", d.wake.Sub(d.now))
	}
}

// TestAStatusOfAQueueHasOneWriter: of two schedulers over one cluster, the one that wrote it first.
func TestAStatusOfAQueueHasOneWriter(t *testing.T) {
	d := newQueueDesk(&model.Queue{Name: "q"})
	d.expect(t, "q")
	if got := d.objects["q"].Status.SchedulerName; got != "tutti" {
		t.Errorf("the writer is %q", got)
	}
	d.job("runs", "q", 500)
	d.now = d.now.Add(time.Hour)
	object := d.objects["q"].DeepCopy()
	object.Status.SchedulerName = "another"
	d.objects["q"] = object
	d.expect(t, "")
	object = object.DeepCopy()
	object.Status.SchedulerName = ""
	d.objects["q"] = object
	d.expect(t, "q")
}

func TestWithoutObjectsNoStatusOfAQueueIsWritten(t *testing.T) {
	d := newQueueDesk()
	d.job("runs", "default", 1000)
	d.expect(t, "")
	d.snapshot.SetQueues([]*model.Queue{{Name: "default"}, {Name: "gone"}})
	d.expect(t, "")
	if len(d.writer.sent) != 0 || !d.wake.IsZero() {
		t.Errorf("kept %v, to be called at %s", d.writer.sent, d.wake)
	}
}
