package report

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// desk is a reporter with virtual time, and an API server that takes every write and shows it immediately.
type desk struct {
	*Reporter
	now      time.Time
	groups   map[model.JobKey]*v1alpha1.PodGroup
	pods     map[types.UID]*model.Task
	jobs     []*model.Job
	refusals map[model.JobKey]*model.Refusal
	// wake is when the reporter asked to be called again; rewritten counts the writes about each pod.
	wake      time.Time
	rewritten map[types.UID]int
}

func newDesk() *desk {
	d := &desk{
		now: time.Unix(1_700_000_000, 0), groups: map[model.JobKey]*v1alpha1.PodGroup{}, pods: map[types.UID]*model.Task{},
		refusals: map[model.JobKey]*model.Refusal{}, rewritten: map[types.UID]int{},
	}
	d.Reporter = NewReporter(Source{
		Group:       func(key model.JobKey) *v1alpha1.PodGroup { return d.groups[key] },
		Reservation: func(*model.Job) *v1alpha1.Reservation { return nil },
		Whole:       func(*model.Job) (started model.Minima, whole, known bool) { return },
	})
	return d
}

// gang is a gang that waits for a reason.
func (d *desk) gang(namespace, name string, members int, why model.Code) model.JobKey {
	key := model.JobKey{Namespace: namespace, Name: name}
	job := &model.Job{Key: key, UID: types.UID(namespace + "/" + name), HasGroup: true, Need: model.Need{MinMember: int32(members)}}
	for i := range members {
		ref := model.PodRef{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i)}
		ref.UID = types.UID(namespace + "/" + ref.Name)
		task := &model.Task{PodRef: ref, Pod: &corev1.Pod{}}
		job.Tasks, d.pods[ref.UID] = append(job.Tasks, task), task
	}
	d.jobs = append(d.jobs, job)
	d.groups[key] = &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: int32(members)}}
	d.says(key, why)
	return key
}

func (d *desk) says(key model.JobKey, why model.Code) {
	d.refusals[key] = &model.Refusal{Code: why, Detail: "numbers"}
	d.groups[key].Generation++ // as when a user changes minMember
}

// start binds all members of a gang.
func (d *desk) start(key model.JobKey) {
	delete(d.refusals, key)
	for _, job := range d.jobs {
		if job.Key == key {
			for _, task := range job.Tasks {
				task.Status, task.Node = model.Bound, "n1"
			}
		}
	}
}

// told counts writes.
type told struct{ groups, pods, events int } // a reason is an event of the group, and one of its oldest member

// after lets time pass and reports; it returns the writes by namespace.
func (d *desk) after(pass time.Duration) map[string]told {
	d.now = d.now.Add(pass)
	writes, wake := d.Report(d.jobs, d.refusals, d.now, func(_ model.JobKey, report func()) { report() })
	d.wake = wake
	counts := map[string]told{}
	for _, write := range writes {
		var n told
		namespace := ""
		switch write := write.(type) {
		case *commit.GroupStatus:
			n, namespace = told{groups: 1}, write.Namespace
			group := d.groups[model.JobKey{Namespace: namespace, Name: write.Name}].DeepCopy()
			group.Status = write.Status
			d.groups[model.JobKey{Namespace: namespace, Name: write.Name}] = group
		case *commit.PodCondition:
			n, namespace = told{pods: 1}, write.Pod.Namespace
			d.rewritten[write.Pod.UID]++
			d.pods[write.Pod.UID].Pod = &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{write.Condition}}}
		case *commit.Event:
			n, namespace = told{events: 1}, write.Regarding.Namespace
		}
		sum := counts[namespace]
		counts[namespace] = told{sum.groups + n.groups, sum.pods + n.pods, sum.events + n.events}
	}
	return counts
}

// reason is what the API server has for a gang and for a member.
func (d *desk) reason(key model.JobKey, member int) string {
	condition := meta.FindStatusCondition(d.groups[key].Status.Conditions, v1alpha1.ConditionScheduled)
	pod := model.PodScheduled(d.pods[types.UID(fmt.Sprintf("%s/%s-%d", key.Namespace, key.Name, member))].Pod)
	if condition == nil || pod == nil {
		return ""
	}
	return condition.Reason + " " + pod.Reason
}

// TestAReasonThatFlipsBackIsWrittenOnce, of the group and of each member; what stays in the end is written, and what is no
// return to the reason before is written immediately.
func TestAReasonThatFlipsBackIsWrittenOnce(t *testing.T) {
	d := newDesk()
	key := d.gang("a", "g", 3, model.InsufficientResources)
	expect := func(what string, pass time.Duration, want told) {
		t.Helper()
		if got := d.after(pass)["a"]; got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	expect("first", 0, told{1, 3, 2})
	d.says(key, model.NotEnoughMembers)
	expect("changed", time.Second, told{1, 3, 2})
	d.says(key, model.InsufficientResources)
	expect("back", time.Second, told{})
	d.says(key, model.NotEnoughMembers)
	expect("and to", time.Second, told{groups: 1}) // the generation that was observed
	d.says(key, model.InsufficientResources)
	expect("and fro", time.Second, told{})
	if until := d.wake.Sub(d.now); until != 7*time.Second {
		t.Errorf("asks to be called after %s, want 10 s after the change", until)
	}
	expect("stays", 7*time.Second, told{1, 3, 2})
	if got := d.reason(key, 1); got != "InsufficientResources Unschedulable" {
		t.Errorf("in the end %s", got)
	}
	d.says(key, model.QueueLimit)
	expect("another one", time.Second, told{1, 3, 2})
	expect("each other member has waited for a while since its first refusal", time.Minute, told{events: 2})
	expect("at rest", time.Minute, told{})
}

// TestAFloodStaysWithinItsBudget: a gang of thousands whose reason changes all the time costs no more writes than the budget
// of its namespace, another namespace waits for none of it, every object has its turn, and in the end all say what is true.
func TestAFloodStaysWithinItsBudget(t *testing.T) {
	const members = 2 * mostRepeated
	d := newDesk()
	flood := d.gang("flood", "g", members, model.InsufficientResources)
	if got := d.after(0)["flood"]; got != (told{1, members, 2}) {
		t.Errorf("at first %+v: the first word about an object is outside of this budget", got)
	}
	reasons := []model.Code{model.NotEnoughMembers, model.QueueLimit, model.InsufficientResources}
	window := told{}
	for step := range 200 { // of a second
		if step%10 == 0 {
			window = told{}
		}
		d.says(flood, reasons[step%len(reasons)])
		if step == 100 {
			d.gang("quiet", "g", 100, model.InsufficientResources)
		}
		got := d.after(time.Second)
		window = told{window.groups + got["flood"].groups, window.pods + got["flood"].pods, window.events + got["flood"].events}
		// A pod is marked Unschedulable without this budget, at most as often as it got another reason within it.
		// Each write about the group, and about its oldest pod, has an event.
		if window.groups > mostRepeated || window.pods > 2*mostRepeated || window.events > mostRepeated+2*window.groups {
			t.Fatalf("%+v of one namespace within %s", window, budgetWindow)
		}
		if step == 100 && got["quiet"] != (told{1, 100, 2}) {
			t.Errorf("the other namespace: %+v", got["quiet"])
		}
	}
	for pod, writes := range d.rewritten {
		if writes < 2 && d.pods[pod].Namespace == "flood" {
			t.Fatalf("pod %s had no turn in 200 s", pod)
		}
	}
	d.says(flood, model.InvalidGroup)
	for range 2 * members / mostRepeated {
		d.after(budgetWindow)
	}
	for i := range members {
		if got := d.reason(flood, i); got != "InvalidGroup InvalidGroup" {
			t.Fatalf("in the end member %d: %s", i, got)
		}
	}
	for range members/mostRepeated + 1 { // the events of first refusals that had to wait
		d.after(budgetWindow)
	}
	if got := d.after(time.Minute); len(got) != 0 || d.wake.Sub(d.now) < repeatAfter/2 {
		t.Errorf("at rest %v, wakes at %s", got, d.wake)
	}
}

// TestWhatARestartReadsWaitsForNoBudget: 100 gangs of 50 start and run in a namespace whose budget is used up.
func TestWhatARestartReadsWaitsForNoBudget(t *testing.T) {
	d := newDesk()
	var keys []model.JobKey
	for i := range 100 {
		keys = append(keys, d.gang("a", fmt.Sprint("g", i), 50, model.NotEnoughMembers))
	}
	d.after(0)
	for range mostRepeated {
		d.writer.budget.take(account{"a", ofGroups}, d.now)
		d.writer.budget.take(account{"a", ofPods}, d.now)
	}
	for _, key := range keys[1:] {
		d.start(key)
	}
	d.says(keys[0], model.InsufficientResources)
	if got := d.after(time.Second)["a"]; got != (told{groups: 99, events: 99}) {
		t.Errorf("%+v, want the status of those that have started", got)
	}
	for _, key := range keys[1:] {
		status := d.groups[key].Status
		if status.Phase != v1alpha1.PodGroupStarting || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduled) {
			t.Fatalf("%s: %+v", key, status)
		}
	}
	for _, job := range d.jobs[1:] {
		for _, task := range job.Tasks {
			task.Status = model.Running
		}
	}
	if got := d.after(time.Second)["a"]; got != (told{groups: 99}) {
		t.Errorf("%+v, want the phase of those that run", got)
	}
	if got := d.after(budgetWindow)["a"]; got != (told{1, 50, 2}) {
		t.Errorf("%+v, want what had to wait", got)
	}
}

// TestFirstWritesHaveABudgetToo: of a flood of new objects each is written in the end, the oldest of a window first, and the
// group says immediately why it waits.
func TestFirstWritesHaveABudgetToo(t *testing.T) {
	const members = 2*mostUrgent + 1
	d := newDesk()
	flood := d.gang("flood", "g", members, model.InsufficientResources)
	quiet := d.gang("quiet", "g", 100, model.InsufficientResources)
	got := d.after(0)
	if got["flood"] != (told{1, mostUrgent, 2}) || got["quiet"] != (told{1, 100, 2}) {
		t.Errorf("at first: %+v", got)
	}
	if got := d.after(time.Second); len(got) != 0 {
		t.Errorf("in the same window: %v", got)
	}
	if got := d.after(d.wake.Sub(d.now)); got["flood"] != (told{0, mostUrgent, mostRepeated}) {
		t.Errorf("in the second window: %v", got)
	}
	if got := d.after(d.wake.Sub(d.now)); got["flood"] != (told{0, 1, mostRepeated}) || d.reason(flood, members-1) == "" || d.reason(quiet, 0) == "" {
		t.Errorf("in the third window: %v", got)
	}
	for range members / mostRepeated {
		if got := d.after(budgetWindow); got["flood"].events > mostRepeated || got["flood"].pods > 0 {
			t.Errorf("events of first refusals: %v", got)
		}
	}
	if got := d.after(time.Minute); len(got) != 0 {
		t.Errorf("at rest: %v", got)
	}
}

// TestATogglingMinimumStaysWithinItsBudget: of a gang that runs, with each change that a restart reads, up and down the phases.
// What is true in the end is written, and another gang that starts meanwhile is not kept waiting for longer than a window.
func TestATogglingMinimumStaysWithinItsBudget(t *testing.T) {
	for _, minima := range [][]int32{{1, 2}, {2, 3}} {
		d := newDesk()
		key := d.gang("a", "g", 2, model.InsufficientResources)
		d.after(0)
		d.start(key)
		d.after(time.Minute)
		writes, window := 0, d.now
		for step := range 3 * mostUrgent {
			d.jobs[0].MinMember = minima[step%2]
			d.groups[key].Spec.MinMember = minima[step%2]
			writes += d.after(time.Millisecond)["a"].groups
			if d.now.Sub(window) >= budgetWindow {
				if writes > mostUrgent+mostRepeated {
					t.Errorf("minMember %v: %d writes within %s", minima, writes, budgetWindow)
				}
				writes, window = 0, d.now
			}
		}
		other := d.gang("a", "other", 1, model.InsufficientResources)
		d.after(time.Millisecond)
		d.after(budgetWindow)
		if d.groups[other].Status.Phase == "" {
			t.Errorf("minMember %v: the other gang has no status", minima)
		}
		d.after(budgetWindow)
		if got, want := d.groups[key].Status.StartedMinMember, min(2, d.jobs[0].MinMember); got != want {
			t.Errorf("minMember %v: in the end %d, want %d", minima, got, want)
		}
	}
}

// TestADelayedReasonIsTheNewest, and one that has passed is never written.
func TestADelayedReasonIsTheNewest(t *testing.T) {
	d := newDesk()
	key := d.gang("a", "g", 1, model.InsufficientResources)
	d.after(0)
	for range mostRepeated {
		d.writer.budget.take(account{"a", ofGroups}, d.now)
		d.writer.budget.take(account{"a", ofPods}, d.now)
	}
	d.says(key, model.NotEnoughMembers)
	d.after(time.Second)
	d.says(key, model.QueueLimit)
	d.after(time.Second)
	if got := d.reason(key, 0); got != "InsufficientResources Unschedulable" {
		t.Errorf("beyond the budget: %s", got)
	}
	if got := d.after(d.wake.Sub(d.now))["a"]; got != (told{1, 1, 2}) || d.reason(key, 0) != "QueueLimit QueueLimit" {
		t.Errorf("%+v, %s", got, d.reason(key, 0))
	}
	d.Failed(&commit.GroupStatus{UID: "a/g"}, d.now)
	delete(d.refusals, key)
	d.start(key)
	if got := d.after(time.Second)["a"]; got != (told{}) {
		t.Errorf("%+v although the API server has just refused the object", got)
	}
	if got := d.after(10 * time.Second)["a"]; got.groups != 1 || d.groups[key].Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("%+v", got)
	}
}
