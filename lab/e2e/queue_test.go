package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// queueOf is a queue with a limit of CPU, for jobs of all namespaces.
func queueOf(name, cpu string) *v1alpha1.Queue {
	return &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
		NamespaceSelector: &metav1.LabelSelector{}, Limit: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}
}

// changeQueue changes the spec of a queue.
func changeQueue(t *testing.T, queue *v1alpha1.Queue, change func(*v1alpha1.QueueSpec)) {
	t.Helper()
	before := queue.DeepCopy()
	change(&queue.Spec)
	if err := env.Client.Patch(t.Context(), queue, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// createQueues makes queues for the time of the test.
func createQueues(t *testing.T, queues ...*v1alpha1.Queue) {
	t.Helper()
	for _, queue := range queues {
		env.Create(t, queue)
		t.Cleanup(func() {
			err := env.Client.Delete(context.WithoutCancel(t.Context()), &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: queue.Name}})
			if client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
}

// isActive is nil when the condition of the queue has that reason, and the queue says how many of its jobs run.
func isActive(t *testing.T, lab *harness.Env, name, reason string, running int32) error {
	t.Helper()
	queue := &v1alpha1.Queue{}
	if err := lab.Client.Get(t.Context(), client.ObjectKey{Name: name}, queue); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionActive)
	if condition == nil || condition.Reason != reason || queue.Status.Running != running {
		return fmt.Errorf("queue %s says %+v, want %s and %d running", name, queue.Status, reason, running)
	}
	return nil
}

// gangIn makes a gang of so many members with one CPU each in a queue.
func gangIn(t *testing.T, namespace, queue, name string, n int) *v1alpha1.PodGroup {
	t.Helper()
	gang := group(namespace, name, int32(n))
	gang.Spec.Queue = queue
	env.Create(t, gang)
	env.Create(t, members(namespace, name, "", n)...)
	return gang
}

// TestQueues: a gang waits for the limit of its queue and starts when it is raised, a paused queue starts nothing and holds up no
// other one, and a queue that is deleted under running jobs and made again evicts none of them.
func TestQueues(t *testing.T) {
	ns := env.Namespace(t)
	env.Nodes(t, cluster.Nodes("queues", 2, map[string]string{"cpu": "8"})...)
	vision, speech := queueOf("queues-vision", "4"), queueOf("queues-speech", "4")
	speech.Spec.Paused = true
	createQueues(t, vision, speech)
	env.Scheduler(t, harness.SchedulerOptions{})
	env.Eventually(t, func() error { return isActive(t, env, vision.Name, "Active", 0) })
	env.Eventually(t, func() error { return isActive(t, env, speech.Name, "Paused", 0) })

	gangIn(t, ns, vision.Name, "first", 3)
	env.Eventually(t, func() error { return boundOf(t, ns, "first", 3) })
	second := gangIn(t, ns, vision.Name, "second", 3)
	env.Eventually(t, func() error { return waits(t, second, "QueueLimit") })
	held := gangIn(t, ns, speech.Name, "held", 2)
	env.Eventually(t, func() error { return waits(t, held, "QueuePaused") })

	changeQueue(t, vision, func(spec *v1alpha1.QueueSpec) { spec.Limit[corev1.ResourceCPU] = resource.MustParse("6") })
	env.Eventually(t, func() error { return boundOf(t, ns, "second", 3) })
	env.Eventually(t, func() error {
		text, err := env.Cluster.Kubectl(t.Context(), "get", "tq", vision.Name, speech.Name, "--no-headers")
		return saysAll(strings.Join(strings.Fields(text), " "), err, "queues-vision 1 Active", "queues-speech 1 Paused")
	})
	changeQueue(t, speech, func(spec *v1alpha1.QueueSpec) { spec.Paused = false })
	env.Eventually(t, func() error { return boundOf(t, ns, "held", 2) })

	before := uidsIn(t, ns)
	if err := env.Client.Delete(t.Context(), vision); err != nil {
		t.Fatal(err)
	}
	third := gangIn(t, ns, vision.Name, "third", 1)
	env.Eventually(t, func() error { return waits(t, third, "QueueNotFound") })
	createQueues(t, queueOf(vision.Name, "7"))
	env.Eventually(t, func() error { return boundOf(t, ns, "third", 1) })
	after := uidsIn(t, ns)
	for uid, name := range before {
		if after[uid] != name {
			t.Errorf("pod %s is gone", name)
		}
	}
}

// TestQueuesTakeBackWhatTheyAreGuaranteed: a team that borrows what another one is guaranteed gives a whole gang back, though
// less would do, and keeps the gang that its own guarantee covers.
func TestQueuesTakeBackWhatTheyAreGuaranteed(t *testing.T) {
	a := &arena{t: t, ns: env.Namespace(t)}
	env.Nodes(t, cluster.Nodes("guaranteed", 2, map[string]string{"cpu": "4"})...)
	borrower, lender := queueOf("guaranteed-borrower", "8"), queueOf("guaranteed-lender", "8")
	for _, queue := range []*v1alpha1.Queue{borrower, lender} {
		queue.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	}
	createQueues(t, borrower, lender)
	env.Scheduler(t, harness.SchedulerOptions{})
	gangIn(t, a.ns, borrower.Name, "kept", 4)
	a.bound("kept", 4)
	lent := gangIn(t, a.ns, borrower.Name, "lent", 4)
	a.bound("lent", 4)

	due := gangIn(t, a.ns, lender.Name, "due", 3)
	a.bound("due", 3)
	env.Eventually(t, func() error { return inGroupPhase(t, due, v1alpha1.PodGroupRunning) })
	if err := errors.Join(a.left("kept", 4), a.left("lent", 0)); err != nil {
		t.Error(err)
	}
	env.Eventually(t, func() error {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(lent), lent)
		if err == nil && lent.Status.Reclaims != 1 {
			err = fmt.Errorf("the gang says that it was evicted %d times for other queues", lent.Status.Reclaims)
		}
		return errors.Join(err, hasEvent(t, a.ns, "PodGroup", "lent", "Reclaimed"), hasEvent(t, a.ns, "PodGroup", "due", "Preempting"))
	})
}

// isMet is nil when the condition GuaranteeMet of the queue has that status and reason, and the message these words.
func isMet(t *testing.T, name, status, reason, words string) error {
	t.Helper()
	queue := &v1alpha1.Queue{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, queue); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionGuaranteeMet)
	if condition == nil || string(condition.Status) != status || condition.Reason != reason || !strings.Contains(condition.Message, words) {
		return fmt.Errorf("queue %s says %+v, want GuaranteeMet %s by %s", name, condition, status, reason)
	}
	return nil
}

// TestAQueueSaysWhetherItsGuaranteeIsMet: a disruption budget keeps it from what it is guaranteed, until the budget is gone.
// kubectl tutti why says where the job is in the order of queues.
func TestAQueueSaysWhetherItsGuaranteeIsMet(t *testing.T) {
	a := &arena{t: t, ns: env.Namespace(t)}
	env.Nodes(t, cluster.Nodes("unmet", 1, map[string]string{"cpu": "4"})...)
	borrower, lender := queueOf("unmet-borrower", "8"), queueOf("unmet-lender", "8")
	lender.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	createQueues(t, borrower, lender)
	inspectable(t, a.ns)
	scheduler := env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--leader-elect-namespace=" + a.ns}})
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { return isMet(t, lender.Name, "True", "GuaranteeMet", "no job waits") })
	gangIn(t, a.ns, borrower.Name, "lent", 4)
	a.bound("lent", 4)
	budget := a.keepAll("lent", 4)

	due := gangIn(t, a.ns, lender.Name, "due", 3)
	env.Eventually(t, func() error {
		return isMet(t, lender.Name, "False", "Budget", "1 job waits within the guarantee; with it the queue would hold 3 of its guarantee of 3 cpu")
	})
	env.Eventually(t, func() error {
		text, err := harness.RunCommand(t.Context(), program, "why", "due", "-n", a.ns, "--kubeconfig", env.Cluster.Kubeconfig(),
			"--scheduler-server", scheduler.URL, "--scheduler-namespace", a.ns)
		return saysAll(text, err, "protected by PodDisruptionBudget", "the only waiting job of queue "+lender.Name)
	})
	if err := a.left("lent", 4); err != nil {
		t.Error(err)
	}
	if err := isMet(t, borrower.Name, "", "", ""); err == nil {
		t.Error("a queue without a guarantee says whether it is met")
	}
	if err := env.Client.Delete(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { return inGroupPhase(t, due, v1alpha1.PodGroupRunning) })
	env.Eventually(t, func() error { return isMet(t, lender.Name, "True", "GuaranteeMet", "no job waits") })
}

// uidsIn are the pods of a namespace that are not being deleted.
func uidsIn(t *testing.T, namespace string) map[types.UID]string {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	names := map[types.UID]string{}
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			names[pods[i].UID] = pods[i].Name
		}
	}
	return names
}

// assertQueue wants the scheduler to write the status of the queue of assertGuards, of which another account wrote something.
func assertQueue(t *testing.T, lab *harness.Env) {
	t.Helper()
	lab.Eventually(t, func() error { return isActive(t, lab, "guarded", "Active", 0) })
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}}
	if err := lab.Client.Delete(t.Context(), queue); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}
