package sources

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// This file finds PodGroups whose spec was written with a field that was removed. The API server drops the field from a stored
// object that it reads, and the managed fields of the object still name it.

// annotationRemoved marks such a PodGroup in memory. It is never written to the API server.
const annotationRemoved = "internal.tutti.dev/removed"

// MarkRemoved marks what is kept of a PodGroup, if the PodGroup is one of these.
func MarkRemoved(kept, group *v1alpha1.PodGroup) {
	names := func(entry metav1.ManagedFieldsEntry) bool {
		return entry.FieldsV1 != nil &&
			(strings.Contains(entry.FieldsV1.GetRawString(), `"f:onMemberLoss"`) || strings.Contains(entry.FieldsV1.GetRawString(), `"f:memberLossTimeoutSeconds"`))
	}
	_, marked := group.Annotations[annotationRemoved] // it was kept before
	if marked || slices.ContainsFunc(group.ManagedFields, names) {
		metav1.SetMetaDataAnnotation(&kept.ObjectMeta, annotationRemoved, "")
	}
}

// Removed says which fields of a PodGroup are not read, and what to write in their place. It is empty where there are none, or
// where that is written.
func Removed(group *v1alpha1.PodGroup) string {
	if _, marked := group.Annotations[annotationRemoved]; !marked || group.Spec.MemberLoss != nil {
		return ""
	}
	return "spec.onMemberLoss and spec.memberLossTimeoutSeconds are not read: a gang that loses members waits for others; " +
		"write spec.memberLoss: {policy: Restart, timeoutSeconds: 300} for a restart"
}
