package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// nominatedNode returns the node that a scheduler of ours has nominated to the pod. Autoscalers and others may nominate nodes,
// too, as a hint: no pod was evicted for it. The API server notes for each field who wrote it. Where it says nothing of this
// one, the nomination counts as ours.
func nominatedNode(pod *corev1.Pod) string {
	if pod.Status.NominatedNodeName == "" {
		return ""
	}
	others := false
	for i := range pod.ManagedFields {
		if entry := &pod.ManagedFields[i]; hasNomination(entry) {
			if entry.Manager == model.NominationManager {
				return pod.Status.NominatedNodeName
			}
			others = true
		}
	}
	if others {
		return ""
	}
	return pod.Status.NominatedNodeName
}

// hasNomination reports whether the writer of an entry has written the nomination of a pod. The name of a field has a colon
// behind its quotes where it is a field, and a backslash before them where it is in the key of a list.
func hasNomination(entry *metav1.ManagedFieldsEntry) bool {
	return entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:nominatedNodeName":`)
}
