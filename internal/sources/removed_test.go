package sources

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// TestRemoved: removed fields that a client has written are found, also in what was kept before, until what takes their
// place is written.
func TestRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		spec   v1alpha1.PodGroupSpec
		want   bool
	}{
		"the policy":           {`{"f:spec":{"f:minMember":{},"f:onMemberLoss":{}}}`, v1alpha1.PodGroupSpec{}, true},
		"the time":             {`{"f:spec":{"f:memberLossTimeoutSeconds":{}}}`, v1alpha1.PodGroupSpec{}, true},
		"what is read":         {`{"f:spec":{"f:memberLoss":{"f:policy":{},"f:timeoutSeconds":{}}}}`, v1alpha1.PodGroupSpec{MemberLoss: &v1alpha1.MemberLoss{}}, false},
		"neither":              {`{"f:spec":{"f:minMember":{}}}`, v1alpha1.PodGroupSpec{}, false},
		"a label of that name": {`{"f:metadata":{"f:labels":{"f:onMemberLossx":{}}}}`, v1alpha1.PodGroupSpec{}, false},
		"both":                 {`{"f:spec":{"f:onMemberLoss":{},"f:memberLoss":{}}}`, v1alpha1.PodGroupSpec{MemberLoss: &v1alpha1.MemberLoss{}}, false},
		"no fields":            {"", v1alpha1.PodGroupSpec{}, false},
	} {
		group, kept, again := &v1alpha1.PodGroup{Spec: c.spec}, &v1alpha1.PodGroup{Spec: c.spec}, &v1alpha1.PodGroup{Spec: c.spec}
		group.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "none"}, {Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(c.fields)}}
		MarkRemoved(kept, group)
		MarkRemoved(again, kept)
		for what, group := range map[string]*v1alpha1.PodGroup{"kept": kept, "kept twice": again} {
			if got := Removed(group); (got != "") != c.want {
				t.Errorf("%s, %s: %q", name, what, got)
			}
		}
		if got := Removed(group); got != "" {
			t.Errorf("%s: %q without a mark", name, got)
		}
	}
}
