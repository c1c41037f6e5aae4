package e2e

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tutti-sched/tutti/lab/harness"
)

// witness watches the pods of an arena and forgets no pod that was evicted, also not those that are gone since.
type witness struct {
	arena *arena
	// looks is how often the test has asked for quiet.
	looks int

	mutex   sync.Mutex
	evicted map[types.UID]string
	bound   map[string]bool
}

// witness begins to watch, until the test ends.
func (a *arena) witness() *witness {
	a.t.Helper()
	w := &witness{arena: a, evicted: map[types.UID]string{}, bound: map[string]bool{}}
	stream, err := env.Clientset.CoreV1().Pods(a.ns).Watch(a.t.Context(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			w.see(event)
		}
	}()
	a.t.Cleanup(func() {
		stream.Stop()
		<-done
	})
	return w
}

func (w *witness) see(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return // the stream has broken; the next quiet waits in vain and says so
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.bound[pod.Name] = pod.Spec.NodeName != ""
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			w.evicted[pod.UID] = pod.Name
		}
	}
}

// quiet waits until the scheduler has looked at everything that was there before, and acted on it: two pods that request
// nothing, and so start in any cycle, are bound one after the other.
func (w *witness) quiet() {
	w.arena.t.Helper()
	for range 2 {
		w.looks++
		name := fmt.Sprintf("sentinel-%d", w.looks)
		env.Create(w.arena.t, env.Pod(w.arena.ns, name))
		env.Eventually(w.arena.t, func() error {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			if !w.bound[name] {
				return fmt.Errorf("%s is not bound", name)
			}
			return nil
		})
	}
}

// evictions waits until so many pods were evicted since the beginning, and fails the test if it are more when all is quiet.
func (w *witness) evictions(want int) {
	w.arena.t.Helper()
	count := func() error {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if len(w.evicted) != want {
			return fmt.Errorf("%d evictions, want %d: %v", len(w.evicted), want, w.evicted)
		}
		return nil
	}
	env.Eventually(w.arena.t, count)
	w.quiet()
	if err := count(); err != nil {
		w.arena.t.Fatal(err)
	}
}

// cpu sets what a member requests, instead of a node.
func cpu(amount string) harness.PodOption { return harness.Requests(map[string]string{"cpu": amount}) }

// selects keeps a pod to the nodes with a label.
func selects(label, value string) harness.PodOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{label: value} }
}
