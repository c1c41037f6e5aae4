package cluster

import (
	"crypto/sha256"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// specInterner lets pods that were made from one template share what they ask for, which is most of what is kept of them: a
// gang has many alike. It forgets the templates that no new pod was made from for long, so that its size is bounded whatever pods
// come and go. The zero interner is ready. It is safe for concurrent use.
type specInterner struct {
	mu sync.Mutex
	// recent are the templates that were used since older was filled, bytes their size in memory.
	recent, older map[[sha256.Size]byte]corev1.PodSpec
	bytes         int
}

// maxTemplates is how much memory the recent templates may take before they become the older ones, in bytes.
const maxTemplates = 16 << 20

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
	known, ok := t.recent[key]
	if !ok {
		if known, ok = t.older[key]; !ok {
			known = spec
		}
		t.add(key, known)
	}
	known.NodeName = pod.Spec.NodeName
	pod.Spec = known
	return pod
}

func (t *specInterner) add(key [sha256.Size]byte, spec corev1.PodSpec) {
	size := int(reflect.TypeFor[corev1.PodSpec]().Size()) + memoryBehind(reflect.ValueOf(&spec).Elem())
	if t.recent == nil || t.bytes+size > maxTemplates {
		t.older, t.recent, t.bytes = t.recent, map[[sha256.Size]byte]corev1.PodSpec{}, 0
	}
	t.recent[key] = spec
	t.bytes += size
}
