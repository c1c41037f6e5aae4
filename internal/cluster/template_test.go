package cluster

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// TestTemplatesChangeNothing: a pod that shares its spec is the pod it was.
func TestTemplatesChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, shared := newWorld(t), &specInterner{}
		for range w.number(40, "steps") {
			event, is := w.step().(*PodSeen)
			if !is {
				continue
			}
			want := StripPod(event.Pod)
			if diff := cmp.Diff(want, shared.intern(StripPod(event.Pod))); diff != "" {
				t.Fatalf("shared (-want +got):\n%s", diff)
			}
		}
	})
}

func TestSiblingsShare(t *testing.T) {
	shared := &specInterner{}
	one := shared.intern(StripPod(pod("one", on("n"))))
	two := shared.intern(StripPod(pod("two", on("m"))))
	other := shared.intern(StripPod(pod("other", asking("cpu", "7"))))
	if &one.Spec.Containers[0] != &two.Spec.Containers[0] {
		t.Error("siblings have containers of their own")
	}
	if one.Spec.NodeName != "n" || two.Spec.NodeName != "m" {
		t.Errorf("siblings are on %s and %s", one.Spec.NodeName, two.Spec.NodeName)
	}
	if &one.Spec.Containers[0] == &other.Spec.Containers[0] {
		t.Error("a pod that asks for something else has the containers of others")
	}
}

// TestTemplatesTakeBoundedMemory: however many templates come and go, the one that is used stays shared.
func TestTemplatesTakeBoundedMemory(t *testing.T) {
	const large = maxMemory / 4
	shared, most, text := &specInterner{}, 0, strings.Repeat("x", large)
	first := shared.intern(StripPod(pod("first")))
	for i := range 4 * maxTemplates / large {
		shared.intern(StripPod(pod("p", func(p *corev1.Pod) { p.Spec.SchedulerName = fmt.Sprint(i, text) })))
		if again := shared.intern(StripPod(pod("again"))); &again.Spec.Containers[0] != &first.Spec.Containers[0] {
			t.Fatalf("after %d others a pod does not share with its siblings", i)
		}
		held := 0
		for _, templates := range []map[[sha256.Size]byte]corev1.PodSpec{shared.recent, shared.older} {
			for _, spec := range templates {
				held += len(spec.SchedulerName)
			}
		}
		most = max(most, held)
	}
	if most > 2*maxTemplates || most < maxTemplates {
		t.Errorf("%d bytes were kept at most", most)
	}
}
