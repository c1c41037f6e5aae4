package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// indexedJob makes or changes a Job of so many indexes, of which some have succeeded.
func (w *world) indexedJob(name string, indexes, succeeded int64) {
	watch := sources.WatchOf(model.SourceJob)
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"completionMode": "Indexed", "parallelism": indexes, "completions": indexes},
		"status": map[string]any{"succeeded": succeeded},
	}}
	object.SetNamespace("default")
	object.SetName(name)
	object.SetUID(types.UID("job-" + name))
	w.meta(object)
	w.mailbox.Event(&cluster.ReadingChanged{Source: model.SourceJob, Reading: cluster.IsRead})
	w.mailbox.Event(&cluster.ForeignSeen{Spec: watch.Decode(object)})
}

// index makes a pod of such a Job; those from 10 up are of the indexes that are 10 less.
func (w *world) index(job string, i int) {
	w.member(job, i)
	w.change(fmt.Sprintf("%s-%d", job, i), func(pod *corev1.Pod) {
		delete(pod.Labels, v1alpha1.LabelPodGroup)
		pod.Labels[batchv1.JobNameLabel], pod.Labels[batchv1.JobCompletionIndexAnnotation] = job, fmt.Sprint(i%10)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID("job-" + job), Controller: new(true)}}
	})
}

// TestAnIndexedJobStartsAsAWhole where the source is on, also when it goes on with some of its indexes done.
func TestAnIndexedJobStartsAsAWhole(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.indexedJob("train", 3, 0)
	for i := range 3 {
		w.index("train", i)
	}
	if calls := w.play(t.Context(), time.Minute); len(sent(calls, commit.CallBind)) != 0 {
		t.Error("a part was bound")
	}
	if c := w.told("train-0"); c == nil || !strings.HasPrefix(c.Message, "needs 3, 2 would fit") {
		t.Errorf("the oldest says %+v", c)
	}
	w.node("n2", "1")
	if calls := w.play(t.Context(), time.Second); len(sent(calls, commit.CallBind)) != 3 {
		t.Errorf("it did not start: %v", kinds(calls))
	}

	// One index is done and its pod is deleted; the others are suspended, and resumed where one of two has a place.
	w.indexedJob("train", 3, 1)
	for i := range 3 {
		w.gone(fmt.Sprint("train-", i))
	}
	w.node("n2", "0")
	w.node("n1", "1")
	w.index("train", 11)
	w.play(t.Context(), time.Minute)
	if c := w.told("train-11"); c == nil || !strings.HasPrefix(c.Message, "needs 2, 1 exist") {
		t.Errorf("one of two says %+v", c)
	}
	w.index("train", 12)
	if calls := w.play(t.Context(), time.Minute); len(sent(calls, commit.CallBind)) != 0 {
		t.Error("a part of the rest was bound")
	}
	w.node("n1", "2")
	if calls := w.play(t.Context(), time.Second); len(sent(calls, commit.CallBind)) != 2 {
		t.Errorf("the rest did not start: %v", kinds(calls))
	}
}

// TestTheSourceOfJobsIsOffByDefault: each pod starts when it fits.
func TestTheSourceOfJobsIsOffByDefault(t *testing.T) {
	w := newWorld(t)
	off := w.paused(false)
	off.SourcesOff = []string{"job"}
	w.reconfigure(off)
	w.node("n1", "2")
	w.indexedJob("train", 3, 0)
	for i := range 3 {
		w.index("train", i)
	}
	if calls := w.play(t.Context(), time.Second); len(sent(calls, commit.CallBind)) != 2 {
		t.Errorf("not two were bound: %v", kinds(calls))
	}
}
