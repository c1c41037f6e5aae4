package operators

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// The words of Kueue on Jobs and pods.
const (
	kueueQueue    = "kueue.x-k8s.io/queue-name"
	kueuePriority = "kueue.x-k8s.io/priority-class"
	kueueGroup    = "kueue.x-k8s.io/pod-group-name"
	kueueTotal    = "kueue.x-k8s.io/pod-group-total-count"
)

func TestKueue(t *testing.T) {
	kueue, job := queued(t, 30*time.Minute)
	lab := in(t, kueue)
	t.Run("job", func(t *testing.T) { queuedJob(t, lab, job) })
	t.Run("smaller job", func(t *testing.T) { smallerJob(t, lab, job) })
	t.Run("group", func(t *testing.T) { queuedGroup(t, lab, kueue) })
	t.Run("in steps", func(t *testing.T) { admittedInSteps(t, lab, kueue) })
	t.Run("evicted", func(t *testing.T) { evictedGroup(t, lab, kueue) })
}

// TestKueueTakesQuotaBack: a Job that has quota and no room is suspended after a time, and queued again. None of its pods has
// run, and when there is room it starts.
func TestKueueTakesQuotaBack(t *testing.T) {
	_, job := queued(t, 5*time.Second)
	s := begin(t, in(t, job), job)
	s.pool("back", "first", 2)
	s.quota(3)
	s.workload(s.job.GetName(), "Evicted", "True")
	members, err := s.members() // of these some may be deleted already
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range members {
		if pod.Spec.NodeName != "" {
			t.Errorf("pod %s is on node %s", name, pod.Spec.NodeName)
		}
	}
	s.pool("back", "second", 1)
	s.starts()
	s.says(s.suspended, "False")
	s.succeed()
	s.says(s.ended, "True")
}

// queued are rows with Kueue, which has that patience: of its own, and with a Job.
func queued(t *testing.T, patience time.Duration) (kueue, job row) {
	t.Helper()
	kueue = row{operator: Kueue(patience), scheduler: "tutti", args: []string{"--config=" + withJobs(t)}}
	job = kueue
	job.manifest, job.pods, job.suspended, job.ended = "kueue-job.yaml", 3, "Suspended", "Complete"
	return kueue, job
}

// withJobs is a file with the built-in configuration and the source that is off without it: that of Jobs.
func withJobs(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "charts", "tutti", "files", "scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, append(text, "\nsources: {job: true}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// queuedJob has no pods until Kueue admits it, and none after Kueue has evicted it for another. Each time it starts as a whole,
// on the nodes of its flavor.
func queuedJob(t *testing.T, lab *stage, row row) {
	s := begin(t, lab, row)
	s.pool("back", "first", 2)
	s.quota(2)
	s.says(s.suspended, "True")
	s.workload(s.job.GetName(), "QuotaReserved", "False")
	if err := s.bound(0, 0); err != nil {
		t.Error(err)
	}
	s.quota(3)
	s.says(s.suspended, "False")
	s.refused(3, 0, "Unschedulable", "needs 3, 2 would fit")
	s.answers("Job/train", "needs 3, 2 would fit", "3 waiting")
	s.pool("back", "second", 1)
	s.starts()

	urgent := *s
	urgent.job = s.job.DeepCopy()
	urgent.job.SetName("urgent")
	urgent.job.SetLabels(map[string]string{kueueQueue: "research", kueuePriority: "urgent"})
	s.lab.Create(s, urgent.job.DeepCopy())
	s.says(s.suspended, "True")
	s.eventually(func() error { return s.bound(0, 0) })
	urgent.starts()
	s.restart()
	s.quota(2) // it does not resume before there is less room
	urgent.succeed()
	urgent.says(s.ended, "True")
	filler := s.fillPool("back", 1)
	s.quota(3)
	s.refused(3, 0, "Unschedulable", "needs 3, 2 would fit")
	s.remove(filler)
	s.starts()
	s.succeed()
	s.says(s.ended, "True")
	s.workload(s.job.GetName(), "Finished", "True")
}

// smallerJob says that fewer pods will do, and gets as many as there is quota for. Those start as a whole.
func smallerJob(t *testing.T, lab *stage, row row) {
	row.pods = 2
	s := read(t, lab, row)
	s.job.SetAnnotations(map[string]string{
		"kueue.x-k8s.io/job-min-parallelism":               "2",
		"kueue.x-k8s.io/job-completions-equal-parallelism": "true",
	})
	s.lab.Create(s, s.job.DeepCopy())
	s.pool("back", "first", 1)
	s.quota(2)
	s.refused(2, 0, "Unschedulable", "needs 2, 1 would fit")
	s.pool("back", "second", 1)
	s.starts()
	s.succeed()
	s.says(s.ended, "True")
}

// queuedGroup is a leader and three workers, which have other flavors. Kueue takes their gates when there is quota; they start
// when there is room for all. A worker that fails is replaced as Kueue's users do, and the others run on.
func queuedGroup(t *testing.T, lab *stage, row row) {
	s := podGroup(t, lab, row, 4)
	leader, worker := s.pod("train-leader", 1), func(name string) *corev1.Pod { return s.pod("train-worker-"+name, 2) }
	whole := s.asAWhole()
	s.nodes("elsewhere", 10)
	s.pool("front", "first", 1)
	s.pool("back", "second", 4)
	s.quota(4)
	s.lab.Create(s, leader, worker("0"), worker("1"), worker("2"))
	s.workload("train", "QuotaReserved", "False")
	s.refused(4, 0, "SchedulingGated", "")
	s.answers("train", "0 bound, 4 gated")
	s.quota(6)
	s.says("Admitted", "True")
	s.refused(4, 0, "Unschedulable", "needs 4, 3 would fit")
	s.answers("train", "needs 4, 3 would fit", "0 bound, 4 waiting")
	s.pool("back", "third", 2)
	whole()
	before, err := s.members()
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range before {
		node := strings.TrimPrefix(pod.Spec.NodeName, s.namespace+"-")
		if onFront := node == "first-0"; onFront != (name == leader.Name) || node == "elsewhere-0" {
			t.Errorf("%s with the selector %v runs on %s", name, pod.Spec.NodeSelector, node)
		}
	}

	// One member succeeds and another fails: what comes in its place needs nothing but a place.
	s.annotate(leader, cluster.RunFor)
	s.annotate(s.member("train-worker-1"), cluster.FailAfter)
	s.says("WaitingForReplacementPods", "True")
	filler := s.fillPool("back", 2)
	s.restart()
	s.lab.Create(s, worker("again"))
	s.refused(5, 4, "Unschedulable", "cpu")
	s.remove(filler)
	s.eventually(func() error { return s.bound(5, 5) })
	after, err := s.members()
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range before {
		if after[name].UID != pod.UID {
			t.Errorf("%s is another pod than before", name)
		}
	}

	s.succeed()
	s.says("Finished", "True")
	s.cyclesPass()
	if err := s.bound(5, 5); err != nil {
		t.Error(err)
	}
}

// admittedInSteps is a group that has room from the beginning, and loses its gates one after the other while cycles run.
func admittedInSteps(t *testing.T, lab *stage, row row) {
	const pods = 100
	s := podGroup(t, lab, row, pods)
	whole := s.asAWhole()
	s.pool("back", "first", pods)
	s.quota(pods - 1)
	members := make([]*corev1.Pod, pods)
	for i := range members {
		members[i] = s.pod(fmt.Sprintf("train-%d", i), 1)
	}
	if err := s.lab.CreatePods(t.Context(), members...); err != nil {
		t.Fatal(err)
	}
	s.workload("train", "QuotaReserved", "False")
	s.refused(pods, 0, "SchedulingGated", "")
	s.quota(pods)
	whole()
}

// evictedGroup: Kueue deletes the pods of a group for another group, and keeps them until its user makes others. Those start as a
// whole when they are admitted.
func evictedGroup(t *testing.T, lab *stage, row row) {
	s := podGroup(t, lab, row, 3)
	s.pool("back", "first", 3)
	s.quota(3)
	s.lab.Create(s, s.pod("train-0", 1), s.pod("train-1", 1), s.pod("train-2", 1))
	s.starts()

	urgent := *s
	urgent.job = s.job.DeepCopy()
	urgent.job.SetName("urgent")
	for i := range 3 {
		pod := urgent.pod(fmt.Sprintf("urgent-%d", i), 1)
		pod.Labels[kueuePriority] = "urgent"
		s.lab.Create(s, pod)
	}
	urgent.starts()
	s.says("Evicted", "True")
	if err := s.bound(3, 3); err != nil { // they have failed, and are kept
		t.Error(err)
	}
	s.lab.Create(s, s.pod("train-again-0", 1), s.pod("train-again-1", 1), s.pod("train-again-2", 1))
	s.refused(3, 0, "SchedulingGated", "")
	s.restart()
	s.quota(2)
	urgent.succeed()
	urgent.says("Finished", "True")
	filler := s.fillPool("back", 1)
	s.quota(3)
	s.refused(3, 0, "Unschedulable", "needs 3, 2 would fit")
	s.remove(filler)
	s.starts()
	s.succeed()
	s.says("Finished", "True")
}

// podGroup is a group of so many plain pods. The object that says how it is has its name: the Workload, which Kueue makes.
func podGroup(t *testing.T, lab *stage, row row, pods int) *story {
	t.Helper()
	row.pods = pods
	s := &story{T: t, row: row, lab: lab, namespace: lab.Namespace(t), job: workload()}
	s.job.SetNamespace(s.namespace)
	s.job.SetName("train")
	return s
}

// workload is what Kueue knows of a Job or a group.
func workload() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("kueue.x-k8s.io/v1beta2")
	object.SetKind("Workload")
	return object
}

// pod is a member of the group.
func (s *story) pod(name string, cpus int) *corev1.Pod {
	return s.lab.Pod(s.namespace, name, harness.Requests(map[string]string{"cpu": fmt.Sprint(cpus)}),
		harness.PodLabels(map[string]string{kueueQueue: "research", kueueGroup: s.job.GetName()}),
		harness.PodAnnotations(map[string]string{kueueTotal: fmt.Sprint(s.pods)}))
}

// quota gives the namespace a queue with so many CPUs of the flavor back, and one of front.
func (s *story) quota(back int) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "kueue-queue.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	file := filepath.Join(s.TempDir(), "queue.yaml")
	manifests := strings.NewReplacer("NAMESPACE", s.namespace, "BACK", fmt.Sprint(back)).Replace(string(text))
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		s.Fatal(err)
	}
	if _, err := s.lab.Cluster.Kubectl(s.Context(), "apply", "-f", file); err != nil {
		s.Fatal(err)
	}
}

// pool adds a node with so many CPUs to a pool. Pods of an earlier test may be left on a node of its name.
func (s *story) pool(pool, name string, cpus int) {
	s.Helper()
	s.lab.Nodes(s, cluster.Nodes(s.namespace+"-"+name, 1, map[string]string{"cpu": fmt.Sprint(cpus)}, cluster.NodeLabels(map[string]string{"pool": pool}))...)
}

// fillPool takes places of a pool with a pod of no job.
func (s *story) fillPool(pool string, cpus int) *corev1.Pod {
	s.Helper()
	filler := s.lab.Pod(s.namespace, "filler", harness.Requests(map[string]string{"cpu": fmt.Sprint(cpus)}))
	filler.Spec.NodeSelector = map[string]string{"pool": pool}
	s.lab.AfterCycle(s, filler)
	return filler
}

// succeed lets all members end that have not ended, once they run.
func (s *story) succeed() {
	s.Helper()
	s.eventually(func() error {
		members, err := s.members()
		for name, pod := range members {
			if pod.Status.Phase == corev1.PodPending {
				return fmt.Errorf("%s is pending", name)
			}
		}
		return err
	})
	members, err := s.members()
	if err != nil {
		s.Fatal(err)
	}
	for _, pod := range members {
		if pod.Status.Phase == corev1.PodRunning {
			s.annotate(&pod, cluster.RunFor)
		}
	}
}

// workload waits until the Workload of the Job or group of that name has a condition.
func (s *story) workload(name, condition, status string) {
	s.Helper()
	s.eventually(func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(workload().GroupVersionKind())
		if err := s.lab.Client.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		said := ""
		for _, object := range list.Items {
			owners := object.GetOwnerReferences()
			owned := slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.Name == name || strings.HasPrefix(o.Name, name+"-") })
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
			for _, c := range conditions {
				if c := c.(map[string]any); owned && c["type"] == condition && c["status"] == status {
					return nil
				}
			}
			said += fmt.Sprintf("\n%s of %v: %v", object.GetName(), owners, conditions)
		}
		return fmt.Errorf("no Workload of %s is %s %s%s", name, condition, status, said)
	})
}

// asAWhole watches the members from now on. What it returns waits until all run, and fails the test if one of them had a node
// while another was gated, or did not exist.
func (s *story) asAWhole() (wait func()) {
	s.Helper()
	pods := s.lab.Clientset.CoreV1().Pods(s.namespace)
	known, err := pods.List(s.Context(), metav1.ListOptions{LabelSelector: kueueGroup})
	if err != nil {
		s.Fatal(err)
	}
	// The API server ends the watch of a client that is slow for a moment; this one goes on where it was.
	members, err := watchtools.NewRetryWatcherWithContext(s.Context(), known.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = kueueGroup
			return pods.Watch(ctx, options)
		},
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(members.Stop)
	done := make(chan error, 1)
	go func() { done <- startsAsAWhole(members, s.pods) }()
	return func() {
		s.Helper()
		s.starts()
		if err := <-done; err != nil {
			s.Error(err)
		}
	}
}

// startsAsAWhole follows so many pods until all of them have a node.
func startsAsAWhole(pods watch.Interface, want int) error {
	free, bound := map[string]bool{}, map[string]bool{}
	for event := range pods.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("the watch of pods: %v", event.Object)
		}
		if len(pod.Spec.SchedulingGates) == 0 {
			free[pod.Name] = true
		}
		if pod.Spec.NodeName != "" {
			bound[pod.Name] = true
		}
		if len(bound) > 0 && len(free) < want {
			return fmt.Errorf("%v have a node, and of %d pods those without a gate are %v",
				slices.Sorted(maps.Keys(bound)), want, slices.Sorted(maps.Keys(free)))
		}
		if len(bound) == want {
			return nil
		}
	}
	return errors.New("the watch of pods ended before all had a node")
}
