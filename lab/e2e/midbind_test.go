package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// The tests of this file change something while two of the three members of a gang are bound and the server refuses the third.

// torn is a gang of three, made by a Job, of which the server refuses to bind the last member until allow is called.
type torn struct {
	*testing.T
	ns    string
	gang  *v1alpha1.PodGroup
	allow func()
	// first are the UIDs of those that were bound, by name.
	first map[string]types.UID
}

// longDeadline is for starts that are completed: no machine is too slow for that.
const longDeadline = "1h"

// newTorn returns when two are bound, on three nodes with capacity for two members each.
func newTorn(t *testing.T, name, deadline string) *torn {
	t.Helper()
	env.Nodes(t, cluster.Nodes(name, 3, map[string]string{"cpu": "2"})...)
	w := &torn{T: t, ns: env.Namespace(t)}
	w.allow = refuse(t, w.ns, `request.name.startsWith("mpi-2-")`, "mpi-2-probe", "nowhere")
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--bind-deadline=" + deadline}})
	w.gang = group(w.ns, "mpi", 3)
	three, indexed := int32(3), batchv1.IndexedCompletion
	template := env.Pod("", "", oneCPU, harness.InGroup("mpi"), harness.PodAnnotations(map[string]string{cluster.RunFor: "1h"}))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	limit := int32(100)
	env.Create(t, w.gang, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "mpi"},
		Spec: batchv1.JobSpec{
			Parallelism: &three, Completions: &three, CompletionMode: &indexed, BackoffLimit: &limit,
			Template: corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: template.Spec},
		},
	})
	env.Eventually(t, func() error {
		w.first = uids(t, w.ns)
		if len(w.first) != 2 {
			return fmt.Errorf("bound are %v, want two", w.first)
		}
		return nil
	})
	return w
}

// member returns a member that is bound or that is not, with that index where it is not empty.
func (w *torn) member(bound bool, index string) *corev1.Pod {
	w.Helper()
	var member *corev1.Pod
	env.Eventually(w.T, func() error { // between a start that is undone and the next one there is none
		pods, err := env.Pods(w.Context(), w.ns, client.MatchingLabels{v1alpha1.LabelPodGroup: "mpi"})
		for i := range pods {
			if (pods[i].Spec.NodeName != "") == bound && strings.HasPrefix(pods[i].Name, "mpi-"+index) {
				member = &pods[i]
				return nil
			}
		}
		return cmp.Or(err, fmt.Errorf("no member mpi-%s among %d", index, len(pods)))
	})
	return member
}

// whole waits until so many members run on nodes that are there, and no other pod has a node.
func (w *torn) whole(count int) map[string]types.UID {
	w.Helper()
	env.Eventually(w.T, func() error { return inGroupPhase(w.T, w.gang, v1alpha1.PodGroupRunning) })
	var nodes corev1.NodeList
	if err := env.Client.List(w.Context(), &nodes); err != nil {
		w.Fatal(err)
	}
	there := map[string]bool{}
	for _, node := range nodes.Items {
		there[node.Name] = true
	}
	pods, err := env.Pods(w.Context(), w.ns)
	if err != nil {
		w.Fatal(err)
	}
	bound := uids(w.T, w.ns)
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "" && !there[node] {
			w.Errorf("%s is on %s, which is not there", pods[i].Name, node)
		}
	}
	if len(bound) != count {
		w.Errorf("%d members are bound, want %d", len(bound), count)
	}
	return bound
}

// kept wants those that were bound first to be bound still.
func (w *torn) kept(bound map[string]types.UID) {
	w.Helper()
	for name, uid := range w.first {
		if bound[name] != uid {
			w.Errorf("%s was bound, and is another one now", name)
		}
	}
}

// TestMemberIsReplacedMidBind: a member that cannot be bound is deleted, and its Job makes another one, which completes the
// start.
func TestMemberIsReplacedMidBind(t *testing.T) {
	w := newTorn(t, "replaced", longDeadline)
	if err := env.Client.Delete(t.Context(), w.member(false, "2-")); err != nil {
		t.Fatal(err)
	}
	w.allow()
	w.kept(w.whole(3))
}

// TestBoundMemberIsLostMidBind: one of those that are bound is deleted before the start is complete, which is no loss of a
// gang that ran; the start is completed with the one that its Job makes instead.
func TestBoundMemberIsLostMidBind(t *testing.T) {
	w := newTorn(t, "bereft", longDeadline)
	lost := w.member(true, "")
	if err := env.Client.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	delete(w.first, lost.Name)
	w.allow()
	w.kept(w.whole(3))
}

// TestNodeIsDeletedMidBind: a node goes under a member that is bound. The start cannot be completed, and is undone; the Job
// makes all members again, and they start on the nodes that are left.
func TestNodeIsDeletedMidBind(t *testing.T) {
	w := newTorn(t, "gone", "6s")
	node := w.member(true, "").Spec.NodeName
	if err := env.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error {
		for name, uid := range uids(t, w.ns) {
			if w.first[name] == uid {
				return fmt.Errorf("%s is still bound", name)
			}
		}
		return nil
	})
	w.allow()
	w.whole(3)
}

// TestMinimumIsRaisedMidBind: the start becomes one of five as soon as there are five.
func TestMinimumIsRaisedMidBind(t *testing.T) {
	w := newTorn(t, "raised", longDeadline)
	w.raise(5)
	w.allow()
	env.Eventually(t, func() error { return waits(t, w.gang, "NotEnoughMembers") })
	if err := inGroupPhase(t, w.gang, v1alpha1.PodGroupPending); err != nil {
		t.Error(err)
	}
	env.Create(t, members(w.ns, "mpi", "more-", 2)...)
	w.kept(w.whole(5))
}

// TestMinimumIsRaisedBeyondReachMidBind: a minimum that is never reached leaves no member bound.
func TestMinimumIsRaisedBeyondReachMidBind(t *testing.T) {
	w := newTorn(t, "beyond", "6s")
	w.raise(9)
	w.allow()
	env.Eventually(t, func() error {
		if bound := uids(t, w.ns); len(bound) > 0 {
			return fmt.Errorf("bound are %v", bound)
		}
		return nil
	})
	env.Eventually(t, func() error { // the owner creates them again
		pods, err := env.Pods(t.Context(), w.ns)
		waiting := slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if len(waiting) < 3 {
			return fmt.Errorf("%d members wait, want 3 or more, error %v", len(waiting), err)
		}
		return nil
	})
	env.AfterCycle(t, env.Pod(w.ns, "later", oneCPU))
	if bound := uids(t, w.ns); len(bound) != 1 {
		t.Errorf("bound are %v, want only the pod that came later", bound)
	}
}

// raise changes the gang's minimum, and returns when the scheduler goes by it.
func (w *torn) raise(minimum int32) {
	w.Helper()
	env.Eventually(w.T, func() error {
		if err := env.Client.Get(w.Context(), client.ObjectKeyFromObject(w.gang), w.gang); err != nil {
			return err
		}
		w.gang.Spec.MinMember = minimum
		return env.Client.Update(w.Context(), w.gang)
	})
	env.Eventually(w.T, func() error {
		if err := env.Client.Get(w.Context(), client.ObjectKeyFromObject(w.gang), w.gang); err != nil {
			return err
		}
		if observed := w.gang.Status.ObservedGeneration; observed != w.gang.Generation {
			return fmt.Errorf("the scheduler knows generation %d of the gang, want %d", observed, w.gang.Generation)
		}
		return nil
	})
}

// TestNodesThatRefuseAreLeft: the server refuses binds to three of six nodes, which the scheduler cannot know; the gang
// starts on the others.
func TestNodesThatRefuseAreLeft(t *testing.T) {
	env.Nodes(t, cluster.Nodes("choosy", 6, map[string]string{"cpu": "1"})...)
	ns := env.Namespace(t)
	refuse(t, ns, `object.target.name in ["choosy-0", "choosy-1", "choosy-2"]`, "probe", "choosy-0")
	env.Scheduler(t, harness.SchedulerOptions{})
	gang := group(ns, "mpi", 3)
	env.Create(t, gang)
	env.Create(t, members(ns, "mpi", "", 3)...)
	env.Eventually(t, func() error { return inGroupPhase(t, gang, v1alpha1.PodGroupRunning) })
	pods, err := env.Pods(t.Context(), ns, client.MatchingLabels{v1alpha1.LabelPodGroup: "mpi"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "choosy-3" && node != "choosy-4" && node != "choosy-5" {
			t.Errorf("%s is on %q", pods[i].Name, node)
		}
	}
}
