package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
)

// TestEachPodIsInOneJob, with each combination of marks, and is found by its name.
func TestEachPodIsInOneJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := []string{v1alpha1.LabelPodGroup, sources.LabelCoscheduling, sources.KueueGroup, sources.LWSGroupKey, sources.LWSRevision}
		annotations := []string{v1alpha1.AnnotationKubeBatchGroup, v1alpha1.AnnotationMinMember, sources.KueueTotal, sources.LWSSize}
		name := rapid.SampledFrom([]string{"", "a", "2"})
		o := &objects{}
		if rapid.Bool().Draw(t, "group") {
			o.groups = []v1alpha1.PodGroup{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}}
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "pods") {
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: "u", Labels: map[string]string{}, Annotations: map[string]string{}}}
			pod.Spec.SchedulerName = rapid.SampledFrom([]string{"tutti", "tuti", corev1.DefaultSchedulerName, ""}).Draw(t, "scheduler")
			pod.Spec.NodeName = name.Draw(t, "node")
			for _, key := range labels {
				if value := name.Draw(t, key); value != "" {
					pod.Labels[key] = value
				}
			}
			for _, key := range annotations {
				if value := name.Draw(t, key); value != "" {
					pod.Annotations[key] = value
				}
			}
			if group := name.Draw(t, "native"); group != "" {
				pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
			}
			o.pods = append(o.pods, &pod)
		}
		list := o.jobs(time.Unix(0, 0), []string{defaultScheduler})
		members := 0
		for _, job := range list.Items {
			members += len(job.Members)
		}
		if members != len(o.pods) {
			t.Fatalf("%d members of %d pods in %+v", members, len(o.pods), list.Items)
		}
		for i := range o.pods {
			if found := among(list, "pod", o.pods[i].Name); len(found.jobs) != 1 {
				t.Fatalf("%s is in %+v", o.pods[i].Name, found.jobs)
			}
		}
	})
}

// screen is where a command writes while a test reads.
type screen chan string

// Write hands the text to the test.
func (s screen) Write(text []byte) (int, error) {
	s <- string(text)
	return len(text), nil
}

// take waits until a text has been written, and returns all that was written meanwhile.
func (s screen) take(want string) (text string) {
	for !strings.Contains(text, want) {
		text += <-s
	}
	return text
}

// TestWatchShowsWhatChanges: all jobs at first, then each one that has changed and no other, although all ages have.
func TestWatchShowsWhatChanges(t *testing.T) {
	s := newServer(t)
	serve := func(at, train string) {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.objects["/debug/jobs"] = fmt.Sprintf(`{leading: true, at: %q, items: [
{metadata: {namespace: ml, name: still, creationTimestamp: "2026-01-05T08:00:00Z"}, source: PodGroup, needs: 2, has: 2, phase: Pending},
{metadata: {namespace: ml, name: train, creationTimestamp: "2026-01-05T08:00:00Z"}, source: PodGroup, needs: 2, has: 2, phase: %s}]}`, at, train)
	}
	serve("2026-01-05T09:00:00Z", "Pending")
	ctx, stop := context.WithCancel(t.Context())
	out, ended := make(screen, 100), make(chan error, 1)
	go func() {
		ended <- s.command(t, out, "status", "-n", "ml", "--watch", "--scheduler-server", s.URL, "--scheduler-insecure-skip-tls-verify",
			"--scheduler-token", "t").ExecuteContext(ctx)
	}()
	out.take("ml: 2 jobs, 2 waiting")
	serve("2026-01-05T09:05:00Z", "Running")
	if text := out.take("65m"); strings.Contains(text, "still") || !strings.Contains(text, "train   Running") {
		t.Errorf("it shows\n%s", text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("interrupted: %v", err)
	}
}
