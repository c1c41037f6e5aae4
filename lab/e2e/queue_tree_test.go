package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// openQueue is a queue without numbers, for jobs of all namespaces.
func openQueue(name, parent string) *v1alpha1.Queue {
	return &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{Parent: parent, NamespaceSelector: &metav1.LabelSelector{}},
	}
}

// guaranteed sets a guarantee of CPU.
func guaranteed(queue *v1alpha1.Queue, amount string) *v1alpha1.Queue {
	queue.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	return queue
}

// TestATreeInErrorStopsNoOther: queues in a cycle, and one whose parent is gone, start nothing and say why; the latter loses
// nothing to another queue that has a guarantee; and once the parent is made again it is as any other.
func TestATreeInErrorStopsNoOther(t *testing.T) {
	a := &arena{t: t, ns: env.Namespace(t)}
	env.Nodes(t, cluster.Nodes("error", 2, map[string]string{"cpu": "4"})...)
	parent, orphan := openQueue("error-parent", ""), openQueue("error-orphan", "error-parent")
	one, two, fine := openQueue("error-one", "error-two"), openQueue("error-two", "error-one"), guaranteed(openQueue("error-fine", ""), "6")
	createQueues(t, parent, orphan, one, two, fine)
	env.Scheduler(t, harness.SchedulerOptions{})
	gangIn(t, a.ns, orphan.Name, "held", 4)
	a.bound("held", 4)
	if err := env.Client.Delete(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error {
		return errors.Join(isActive(t, env, orphan.Name, "ParentNotFound", 1), isActive(t, env, one.Name, "Cycle", 0),
			isActive(t, env, two.Name, "Cycle", 0))
	})

	w := a.witness()
	more, idle, round := gangIn(t, a.ns, orphan.Name, "more", 1), gangIn(t, a.ns, one.Name, "round", 1), gangIn(t, a.ns, two.Name, "trip", 1)
	gangIn(t, a.ns, fine.Name, "due", 4)
	a.bound("due", 4)
	due := gangIn(t, a.ns, fine.Name, "owed", 2)
	env.Eventually(t, func() error {
		return errors.Join(waits(t, more, "QueueInvalid"), waits(t, idle, "QueueInvalid"), waits(t, round, "QueueInvalid"),
			waits(t, due, "InsufficientResources"))
	})
	w.quiet()
	w.evictions(0)

	createQueues(t, openQueue(parent.Name, ""))
	a.bound("owed", 2)
	a.bound("more", 1)
	w.evictions(4)
	if err := errors.Join(a.left("held", 0), a.left("due", 4)); err != nil {
		t.Error(err)
	}
}

// reclaimsSoon is a configuration by which pods are left alone for a second.
func reclaimsSoon(t *testing.T) string { return reclaimsAfter(t, 1) }

// reclaimsAfter is a configuration by which pods are left alone for so many seconds.
func reclaimsAfter(t *testing.T, seconds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := fmt.Sprintf("%sconfigurations: [{name: reclaim, arguments: {minRunSeconds: %d}}]\n", config.DefaultYAML(), seconds)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAWeightIsChangedUnderLoad: two queues that ask for more than there is have half of it each; when one has three parts
// of four, and then the other one, as many pods are evicted as that takes.
func TestAWeightIsChangedUnderLoad(t *testing.T) {
	a := &arena{t: t, ns: env.Namespace(t)}
	env.Nodes(t, cluster.Nodes("weight", 2, map[string]string{"cpu": "4"})...)
	first, second := openQueue("weight-first", ""), openQueue("weight-second", "")
	createQueues(t, first, second)
	for i := range 10 { // before there is a scheduler, so that none is alone for a moment
		for _, queue := range []string{first.Name, second.Name} {
			labels := harness.PodLabels(map[string]string{v1alpha1.LabelQueue: queue})
			env.Create(t, env.Pod(a.ns, fmt.Sprintf("%s-%d", queue, i), oneCPU, labels))
		}
	}
	w := a.witness()
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + reclaimsSoon(t)}})
	a.bound(first.Name, 4)
	a.bound(second.Name, 4)
	w.evictions(0)
	for _, step := range []struct {
		heavy, light *v1alpha1.Queue
		evicted      int
	}{{first, second, 2}, {second, first, 6}} {
		changeQueue(t, step.light, func(spec *v1alpha1.QueueSpec) { spec.Weight = new(int32(1)) })
		changeQueue(t, step.heavy, func(spec *v1alpha1.QueueSpec) { spec.Weight = new(int32(3)) })
		a.bound(step.heavy.Name, 6)
		a.bound(step.light.Name, 2)
		w.evictions(step.evicted)
	}
}
