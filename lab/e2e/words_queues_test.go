package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// cpusIn returns how many CPUs the pods in the groups of a queue ask for, as the API server has them: those on nodes, those of
// them with a lower priority than this one, and all.
func cpusIn(t *testing.T, queue string, priority int32) (held, lower, asked int64) {
	t.Helper()
	groups, pods := &v1alpha1.PodGroupList{}, &corev1.PodList{}
	if err := errors.Join(env.Client.List(t.Context(), groups), env.Client.List(t.Context(), pods)); err != nil {
		t.Fatal(err)
	}
	in := map[client.ObjectKey]bool{}
	for i := range groups.Items {
		in[client.ObjectKeyFromObject(&groups.Items[i])] = groups.Items[i].Spec.Queue == queue
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !in[client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelPodGroup]}] {
			continue
		}
		amount := pod.Spec.Containers[0].Resources.Requests.Cpu().Value()
		asked += amount
		if pod.Spec.NodeName == "" {
			continue
		}
		held += amount
		if *pod.Spec.Priority < priority {
			lower += amount
		}
	}
	return held, lower, asked
}

// allCPUs returns how many CPUs the nodes have, and how many are guaranteed to all queues together.
func allCPUs(t *testing.T) (there, guaranteed int64) {
	t.Helper()
	nodes, queues := &corev1.NodeList{}, &v1alpha1.QueueList{}
	if err := errors.Join(env.Client.List(t.Context(), nodes), env.Client.List(t.Context(), queues)); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		there += nodes.Items[i].Status.Allocatable.Cpu().Value()
	}
	for i := range queues.Items {
		guaranteed += queues.Items[i].Spec.Guarantee.Cpu().Value()
	}
	return there, guaranteed
}

// gone takes a group and its pods away.
func (a *arena) gone(name string) {
	a.t.Helper()
	err := errors.Join(env.Client.DeleteAllOf(a.t.Context(), &corev1.Pod{}, client.InNamespace(a.ns),
		client.MatchingLabels{v1alpha1.LabelPodGroup: name}, client.GracePeriodSeconds(0)), env.Client.Delete(a.t.Context(), group(a.ns, name, 1)))
	if err != nil {
		a.t.Fatal(err)
	}
	env.Eventually(a.t, func() error { return a.left(name, 0) })
}

// TestARefusalSaysWhatOtherQueuesKeep: a queue above its share gives nothing as long as its pods have not run for long enough,
// and where its one gang is too large. The amounts are those of the API server's pods; the job of another namespace is not named.
func TestARefusalSaysWhatOtherQueuesKeep(t *testing.T) {
	a, other := &arena{t: t, ns: env.Namespace(t)}, &arena{t: t, ns: env.Namespace(t)}
	env.Nodes(t, cluster.Nodes("keeps", 1, map[string]string{"cpu": "12"})...)
	holder, taker := queueOf("keeps-holder", "20"), queueOf("keeps-taker", "20")
	createQueues(t, holder, taker)
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + reclaimsAfter(t, 3600)}})
	refused := func(due *v1alpha1.PodGroup, least int64, words string) {
		t.Helper()
		env.Eventually(t, func() error {
			held, _, asked := cpusIn(t, holder.Name, 0)
			_, _, others := cpusIn(t, taker.Name, 0)
			there, _ := allCPUs(t)
			share := min(asked, max(there/2, there-others)) // of two queues with the same weight
			if held <= share {
				t.Fatalf("queue %s holds %d of its share of %d", holder.Name, held, share)
			}
			err := a.says(due, fmt.Sprintf("reclaim: by its share there is nothing to take: queue %q holds %d of its share of %d cpu, "+words,
				holder.Name, held, share, least))
			said := meta.FindStatusCondition(due.Status.Conditions, v1alpha1.ConditionScheduled)
			if said != nil && (strings.Contains(said.Message, "secret") || strings.Contains(said.Message, other.ns)) {
				t.Fatalf("names the job of another namespace: %s", said.Message)
			}
			return err
		})
	}

	secret := group(other.ns, "secret", 1) // of which each pod can go alone
	secret.Spec.Queue = holder.Name
	env.Create(t, secret)
	env.Create(t, members(other.ns, "secret", "", 8)...)
	other.bound("secret", 8)
	gangIn(t, a.ns, taker.Name, "own", 4)
	a.bound("own", 4)
	refused(gangIn(t, a.ns, taker.Name, "due", 2), 8, "%d that have not run for long enough yet")

	a.gone("due")
	other.gone("secret")
	gangIn(t, other.ns, holder.Name, "secret-gang", 8)
	other.bound("secret-gang", 8)
	refused(gangIn(t, a.ns, taker.Name, "again", 2), 8, "and the least that could go is %d: queue \""+taker.Name+"\" would then hold more of its share")
}

// TestAGuaranteeIsHeldAgainstWhatThereIs: more guaranteed than there is is said before a job comes, with both sums; and a
// guarantee is not met while a job within it waits behind lower jobs of its queue and a borrower together, until the lower ones
// end.
func TestAGuaranteeIsHeldAgainstWhatThereIs(t *testing.T) {
	a := &arena{t: t, ns: env.Namespace(t)}
	a.low, a.high = a.class("sums-low", 10, nil), a.class("sums-high", 1000, nil)
	env.Nodes(t, cluster.Nodes("sums", 1, map[string]string{"cpu": "8"})...)
	borrower, owner, beside := queueOf("sums-borrower", "20"), queueOf("sums-owner", "20"), queueOf("sums-beside", "20")
	owner.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	owner.Spec.Weight = new(int32)
	beside.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}
	createQueues(t, borrower, owner, beside)
	inspectable(t, a.ns)
	scheduler := env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--leader-elect-namespace=" + a.ns}})
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []*v1alpha1.Queue{owner, beside} {
		env.Eventually(t, func() error {
			there, guaranteed := allCPUs(t)
			own := queue.Spec.Guarantee.Cpu()
			has := resource.NewMilliQuantity(there*own.MilliValue()/guaranteed, resource.DecimalSI)
			return isMet(t, queue.Name, "Unknown", "Oversubscribed", fmt.Sprintf("the guarantees of all queues are %d cpu together, and there are %d cpu; "+
				"if all queues ask for theirs, this one has %s of its guarantee of %s cpu", guaranteed, there, has, own))
		})
	}
	text, err := harness.RunCommand(t.Context(), program, "get", "queues", owner.Name, "-o", "wide", "--kubeconfig", env.Cluster.Kubeconfig(),
		"--scheduler-server", scheduler.URL, "--scheduler-namespace", a.ns)
	if err := saysAll(text, err, "4 cpu, Oversubscribed", "the guarantees of all queues are"); err != nil {
		t.Error(err)
	}
	changeQueue(t, beside, func(spec *v1alpha1.QueueSpec) { spec.Guarantee[corev1.ResourceCPU] = resource.MustParse("4") })
	env.Eventually(t, func() error { return isMet(t, owner.Name, "True", "GuaranteeMet", "no job waits") })

	gangOf := func(name, class string, n int) *v1alpha1.PodGroup {
		gang := group(a.ns, name, int32(n))
		gang.Spec.Queue = owner.Name
		env.Create(t, gang)
		env.Create(t, members(a.ns, name, "", n, ofClass(class))...)
		return gang
	}
	gangOf("low", a.low, 2)
	a.bound("low", 2)
	gangIn(t, a.ns, borrower.Name, "lent", 6)
	a.bound("lent", 6)
	urgent := gangOf("urgent", a.high, 4)
	env.Eventually(t, func() error {
		held, lower, asked := cpusIn(t, owner.Name, 1000)
		guarantee := owner.Spec.Guarantee.Cpu().Value()
		if needs := asked - held; held+needs <= guarantee || held-lower+needs > guarantee {
			t.Fatalf("the queue holds %d, %d of lower jobs, and asks for %d of its guarantee of %d", held, lower, asked, guarantee)
		}
		return isMet(t, owner.Name, "False", "LowerJobs", fmt.Sprintf("1 job waits within the guarantee; with it the queue would hold %d of its guarantee of "+
			"%d cpu without jobs of lower priority, which hold %d cpu", asked-lower, guarantee, lower))
	})
	if err := errors.Join(a.left("low", 2), a.left("lent", 6)); err != nil {
		t.Error(err)
	}
	a.gone("low")
	a.bound("urgent", 4)
	env.Eventually(t, func() error { return inGroupPhase(t, urgent, v1alpha1.PodGroupRunning) })
	env.Eventually(t, func() error { return isMet(t, owner.Name, "True", "GuaranteeMet", "no job waits") })
}
