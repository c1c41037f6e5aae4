package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// saysEvicted is nil when the group is Pending for that reason, and its condition Evicted is True by that with these words, since
// no earlier than its pods were evicted first, as the API server has it.
func saysEvicted(t *testing.T, group *v1alpha1.PodGroup, reason, by string, since time.Time, words ...string) error {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(group), group); err != nil {
		return err
	}
	scheduled := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled)
	evicted := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionEvicted)
	if group.Status.Phase != v1alpha1.PodGroupPending || scheduled == nil || scheduled.Reason != reason {
		return fmt.Errorf("phase %s, %+v, want Pending for %s", group.Status.Phase, scheduled, reason)
	}
	if evicted == nil || evicted.Status != metav1.ConditionTrue || evicted.Reason != by || evicted.LastTransitionTime.Time.Before(since.Truncate(time.Second)) {
		return fmt.Errorf("condition %+v, want Evicted %s since %s or later", evicted, by, since)
	}
	return saysAll(evicted.Message, nil, words...)
}

// TestAnEvictedGangSaysSo: by priority for a job of another namespace, which is not named, and by a user. The words are held
// against the pods that the API server has seen go. All of it stays over a restart of the scheduler, and goes when the gang runs.
func TestAnEvictedGangSaysSo(t *testing.T) {
	a := newArena(t, "words", 2)
	other := &arena{t: t, ns: env.Namespace(t), low: a.low, high: a.high}
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	scheduler := env.Scheduler(t, harness.SchedulerOptions{})
	l := &ledger{}
	l.follow(t, a.ns)

	// A Job lets its pods stand as failed until it has counted them; it makes them again.
	gang := group(a.ns, "train", 2)
	env.Create(t, gang)
	template := env.Pod(a.ns, "unused", cpu("4"), ofClass(a.low), goesSlowly, harness.PodLabels(map[string]string{v1alpha1.LabelPodGroup: "train"}))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	env.Create(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: a.ns, Name: "train"}, Spec: batchv1.JobSpec{
		Parallelism: new(int32(2)), Completions: new(int32(2)),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations}, Spec: template.Spec},
	}})
	a.bound("train", 2)
	env.Eventually(t, func() error { return inGroupPhase(t, gang, v1alpha1.PodGroupRunning) })
	before := time.Now()
	other.gang("secret", a.high, 1, 1)
	words := func() string {
		return fmt.Sprintf("Evicted %d members to free capacity for a job of another namespace, whose priority is 1000", l.evicted()["train"])
	}
	env.Eventually(t, func() error { return saysEvicted(t, gang, "Evicted", "ByPriority", before, words()) })
	if n := l.evicted()["train"]; n != 2 {
		t.Errorf("%d pods were evicted", n)
	}
	scheduler.Kill()
	env.Scheduler(t, harness.SchedulerOptions{})
	a.letGo("train")
	other.bound("secret", 1)
	env.Eventually(t, func() error { return saysEvicted(t, gang, "InsufficientResources", "ByPriority", before, words()) })
	env.Eventually(t, func() error {
		text, err := harness.RunCommand(t.Context(), program, "why", "train", "-n", a.ns, "--kubeconfig", env.Cluster.Kubeconfig())
		if strings.Contains(text, "secret") || strings.Contains(text, other.ns) {
			err = errors.New("names the job of another namespace:\n" + text)
		}
		return saysAll(text, err, "train waits: InsufficientResources", "Evicted ", "ByPriority: "+words(), "needs 2, has 2: 0 bound, 2 waiting")
	})
	if err := env.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(other.ns), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	a.bound("train", 2)
	env.Eventually(t, func() error {
		err := inGroupPhase(t, gang, v1alpha1.PodGroupRunning)
		if c := meta.FindStatusCondition(gang.Status.Conditions, v1alpha1.ConditionEvicted); err == nil && (c == nil || c.Status != metav1.ConditionFalse) {
			err = fmt.Errorf("it runs again, and says %+v", c)
		}
		return err
	})
	l.forget()

	// A user evicts both, as kubectl drain does.
	before = time.Now()
	pods, err := env.Pods(t.Context(), a.ns)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: a.ns, Name: pod.Name}}
			if err := env.Clientset.PolicyV1().Evictions(a.ns).Evict(t.Context(), eviction); err != nil {
				t.Fatal(err)
			}
		}
	}
	env.Eventually(t, func() error {
		return saysEvicted(t, gang, "Evicted", "ByUser", before, fmt.Sprintf("Evicted %d members through the API for evictions", l.evicted()["train"]))
	})
	text, err := env.Cluster.Kubectl(t.Context(), "get", "tpg", "train", "-n", a.ns, "--no-headers")
	if err := saysAll(text, err, "Pending", "Evicted"); err != nil {
		t.Error(err)
	}
	a.letGo("train")
	a.bound("train", 2)
}

// TestAQueueStandsOnItsJobs: and a gang that goes by the guarantee of another queue says so. The numbers of a queue are those of
// the moment where the scheduler may be asked, and say of when they are; each member that waits has an event.
func TestAQueueStandsOnItsJobs(t *testing.T) {
	a := &arena{t: t, ns: env.Namespace(t)}
	env.Nodes(t, cluster.Nodes("stands", 1, map[string]string{"cpu": "4", "example.com/gpu": "2"})...)
	borrower, lender := queueOf("stands-borrower", "8"), queueOf("stands-lender", "8")
	lender.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
	createQueues(t, borrower, lender)
	inspectable(t, a.ns)
	scheduler := env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--leader-elect-namespace=" + a.ns}})
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	lent := gangIn(t, a.ns, borrower.Name, "lent", 4)
	a.bound("lent", 4)
	before := time.Now()
	gangIn(t, a.ns, lender.Name, "due", 3)
	a.bound("due", 3)
	env.Eventually(t, func() error {
		return saysEvicted(t, lent, "Evicted", "ByGuarantee", before, "Evicted 4 members to free capacity for queue "+lender.Name+", by its guarantee")
	})
	env.Eventually(t, func() error { return a.left("lent", 0) })

	// Its pods are made again, and each says why it waits. A resource that no queue limits has a column.
	env.Create(t, members(a.ns, "lent", "again-", 4, cpu("1"), harness.Requests(map[string]string{"example.com/gpu": "1"}))...)
	env.Eventually(t, func() error { return saysEvicted(t, lent, "InsufficientResources", "ByGuarantee", before) })
	ask := func(args ...string) (string, error) {
		return harness.RunCommand(t.Context(), program, append(args, "--kubeconfig", env.Cluster.Kubeconfig())...)
	}
	env.Eventually(t, func() error {
		text, err := ask("get", "queues", borrower.Name, lender.Name, "-o", "wide", "--scheduler-server", scheduler.URL, "--scheduler-namespace", a.ns)
		lines := strings.Split(text, "\n")
		words := func(i int) string { return strings.Join(strings.Fields(lines[min(i, len(lines)-1)]), " ") }
		return errors.Join(err, saysAll(text, nil, " GPU ", "1 InsufficientResources"),
			saysAll(words(1), nil, "stands-borrower Active 0 1 0/8"), saysAll(words(2), nil, "stands-lender Active 1 0 3/8"))
	})
	if _, err := ask("get", "queues", borrower.Name); err == nil || !strings.Contains(err.Error(), "kubectl describe queues.scheduling.tutti.dev") {
		t.Errorf("without a scheduler that may be asked: %v", err)
	}
	env.Eventually(t, func() error { // the status says of when its numbers are
		text, err := env.Cluster.Kubectl(t.Context(), "get", "queues.scheduling.tutti.dev", borrower.Name, "-o", "jsonpath={.status.countedAt} {.status.waiting}")
		return saysAll(text, err, "Z 1")
	})
	env.Eventually(t, func() error {
		text, err := env.Cluster.Kubectl(t.Context(), "get", "tpg", "-n", a.ns)
		return saysAll(text, err, "QUEUE", borrower.Name, lender.Name)
	})
	env.Eventually(t, func() error {
		pods, err := env.Pods(t.Context(), a.ns)
		if err != nil {
			return err
		}
		waiting := 0
		for _, pod := range pods {
			if pod.Spec.NodeName == "" {
				waiting++
				err = errors.Join(err, hasEvent(t, a.ns, "Pod", pod.Name, "FailedScheduling"))
			}
		}
		if waiting != 4 {
			err = errors.Join(err, fmt.Errorf("%d pods wait", waiting))
		}
		return err
	})
}
