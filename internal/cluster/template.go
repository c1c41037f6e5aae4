package cluster

import (
	"crypto/sha256"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// specInterner lets pods that were made from one template share what they ask for, which is most of what is kept of them: a
// gang has many alike. The zero templates are ready. They are safe for concurrent use.
type specInterner struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]corev1.PodSpec
}

// maxTemplates is how many templates are known at a time; past it all are learnt again.
const maxTemplates = 4096

// intern makes the stripped pod share its spec with the pods that asked for the same before. No other code may hold the
// pod yet. A spec that cannot be written down is not shared.
func (t *specInterner) intern(pod *corev1.Pod) *corev1.Pod {
	spec := pod.Spec
	spec.NodeName = "" // the one thing that differs
	written, err := spec.Marshal()
	if err != nil {
		return pod
	}
	key := sha256.Sum256(written)
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[key]
	if !ok {
		if t.known == nil || len(t.known) >= maxTemplates {
			t.known = map[[sha256.Size]byte]corev1.PodSpec{}
		}
		t.known[key] = spec
		return pod
	}
	known.NodeName = pod.Spec.NodeName
	pod.Spec = known
	return pod
}
