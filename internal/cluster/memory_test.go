package cluster

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// chartLimit is what the chart allows the scheduler, in bytes: scheduler.resources in its values.
const chartLimit = 2 << 30

// TestMemoryIsBounded holds what the process holds of the objects of users: 100,000 pods on 5,000 nodes, of which 1,000 are of a
// megabyte, in each way that users have, 2,000 PodGroups with annotations of 200 KiB, and 10,000 more pods of a megabyte that are
// made and deleted one after another, as the API server sends them: encoded, each with a spec of its own. It is a hundredth of
// that unless SIZE=whole.
func TestMemoryIsBounded(t *testing.T) {
	part := 100
	if os.Getenv("SIZE") == "whole" {
		part = 1
	}
	encoded, w := encodedPods(t), newWatched()
	for i := range 5000 / part {
		w.store(t, node(fmt.Sprint("n-", i)))
	}
	text := strings.Repeat("x", 200<<10)
	for i := range 2000 / part {
		one := group(fmt.Sprint("g-", i), 50)
		one.Annotations = map[string]string{"example.com/text": fmt.Sprint(i, text)}
		w.store(t, one)
	}
	base := w.heap()
	peak := base
	looks := 0
	look := func() {
		if looks++; looks%(1000/part) == 0 {
			peak = max(peak, w.heap())
		}
	}
	for i := range 100_000 / part {
		pod, kind := encoded["small"], "small"
		if i%100 == 0 {
			kind = largeFields()[i/100%len(largeFields())]
			pod = encoded[kind]
		}
		w.store(t, w.decode(t, pod, i, i%2 == 0))
		if kind != "small" {
			look()
		}
	}
	w.state.Snapshot(start)
	full := w.heap()
	for i := range 10_000 / part {
		pod := w.decode(t, encoded[largeFields()[i%len(largeFields())]], 1_000_000+i, i%2 == 0)
		w.store(t, pod)
		look()
		w.remove(t, pod)
		w.state.Snapshot(start)
	}
	end := w.heap()
	t.Logf("heap: %d MiB before the pods, %d MiB with all, %d MiB at most, %d MiB after the others have come and gone",
		base>>20, full>>20, peak>>20, end>>20)
	if limit := uint64(chartLimit/2/part + 32<<20); full > limit || peak > limit || end > full+limit/8 {
		t.Errorf("more than half of the chart's limit, of which this is a part: %d MiB", limit>>20)
	}
	runtime.KeepAlive(w)
}

// watched is what the informers and the state hold.
type watched struct {
	state     *State
	objects   cache.Store
	templates specInterner
}

func newWatched() *watched {
	return &watched{state: New(Options{SchedulerNames: []string{"tutti"}}), objects: cache.NewStore(func(object any) (string, error) {
		described := object.(metav1.Object)
		return fmt.Sprintf("%T %s/%s", object, described.GetNamespace(), described.GetName()), nil
	})}
}

// kept is what the transform of its informer leaves of an object.
func (w *watched) kept(object metav1.Object) metav1.Object {
	switch o := object.(type) {
	case *corev1.Pod:
		return w.templates.intern(KeptPod(o))
	case *v1alpha1.PodGroup:
		return stripGroup(o)
	default:
		return StripNode(o.(*corev1.Node))
	}
}

func (w *watched) store(t *testing.T, object metav1.Object) {
	t.Helper()
	kept := w.kept(object)
	if err := w.objects.Add(kept); err != nil {
		t.Fatal(err)
	}
	w.state.Apply(seen(kept))
}

func (w *watched) remove(t *testing.T, object metav1.Object) {
	t.Helper()
	kept := w.kept(object)
	if err := w.objects.Delete(kept); err != nil {
		t.Fatal(err)
	}
	w.state.Apply(gone(kept))
}

// heap is what is in use after the garbage is gone, in bytes.
func (w *watched) heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// decode reads a pod as it was sent, and gives it a name and a spec of its own.
func (w *watched) decode(t *testing.T, sent []byte, i int, bound bool) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := pod.Unmarshal(sent); err != nil {
		t.Fatal(err)
	}
	pod.Name, pod.UID = fmt.Sprint("p-", i), types.UID(fmt.Sprint("p-", i))
	pod.Labels[v1alpha1.LabelPodGroup] = fmt.Sprint("g-", i/50)
	if len(sent) > megabyte/4 {
		pod.Spec.NodeSelector = map[string]string{"own": pod.Name}
	}
	if bound {
		pod.Spec.NodeName, pod.Status.Phase = fmt.Sprint("n-", i%500), corev1.PodRunning
	}
	return pod
}

func encodedPods(t *testing.T) map[string][]byte {
	t.Helper()
	encoded := map[string][]byte{}
	for _, field := range append(largeFields(), "small") {
		one := pod("p", of("g"), large(field), asking("cpu", "1", "memory", "1Gi"))
		sent, err := one.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		encoded[field] = sent
	}
	return encoded
}
