package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestANominationOfOthersIsNotTakenOver: an autoscaler may nominate a node as a hint, for which no pod was evicted. A process
// that begins to lead holds nothing for it and does not take it back; what a process before it wrote holds capacity, whatever
// else is noted about the pod, and so does a nomination of which nothing is noted.
func TestANominationOfOthersIsNotTakenOver(t *testing.T) {
	const nomination, conditions = `{"f:status":{"f:nominatedNodeName":{}}}`, `{"f:status":{"f:conditions":{"k:{\"type\":\"PodScheduled\"}":{".":{}}}}}`
	by := func(manager, fields string) metav1.ManagedFieldsEntry {
		entry := metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{},
		}
		entry.FieldsV1.SetRawString(fields)
		return entry
	}
	for name, c := range map[string]struct {
		noted []metav1.ManagedFieldsEntry
		want  string
	}{
		"ours":                          {[]metav1.ManagedFieldsEntry{by("kubelet", conditions), by(model.NominationManager, nomination)}, "n"},
		"of an autoscaler":              {[]metav1.ManagedFieldsEntry{by(model.NominationManager, conditions), by("karpenter", nomination)}, ""},
		"the same by both":              {[]metav1.ManagedFieldsEntry{by("karpenter", nomination), by(model.NominationManager, nomination)}, "n"},
		"nothing is noted":              {nil, "n"},
		"nothing is noted of this":      {[]metav1.ManagedFieldsEntry{by("karpenter", conditions)}, "n"},
		"a key that looks like a field": {[]metav1.ManagedFieldsEntry{by("karpenter", `{"f:status":{"k:{\"f:nominatedNodeName\":1}":{}}}`)}, "n"},
		"an entry without fields":       {[]metav1.ManagedFieldsEntry{{Manager: "karpenter"}}, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("p", nominated("n"), func(p *corev1.Pod) { p.ManagedFields = c.noted })
			s := newState(node("n"))
			s.Apply(seen(KeptPod(p)))
			s.Lead()
			snapshot := snap(t, s, start)
			if got := taskIn(snapshot, "p").Nominated; got != c.want || len(snapshot.Held()) != len(c.want) {
				t.Errorf("nominated to %q, and %d are held; want %q", got, len(snapshot.Held()), c.want)
			}
		})
	}
}
