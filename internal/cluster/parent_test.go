package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAParentOfAnotherName: what a job says does not depend on which object was seen first, whatever their names.
func TestAParentOfAnotherName(t *testing.T) {
	minimum := func(groupFirst bool) int32 {
		group := foreignSpec("g", 1, 3)
		group.OwnerReferences = []metav1.OwnerReference{{Kind: "MPIJob", Name: "j", Controller: new(true)}}
		s := newState(node("n"), pod("w0", ofForeign("g"), inMPIJob("j", "worker")), pod("w1", ofForeign("g"), inMPIJob("j", "worker")))
		if groupFirst {
			s.Apply(seen(group))
			snap(t, s, start)
			s.Apply(seen(mpiJob("j", 2)))
		} else {
			s.Apply(seen(mpiJob("j", 2)))
			snap(t, s, start)
			s.Apply(seen(group))
		}
		return snap(t, s, start).Job(foreignKey("g")).MinMember
	}
	if first, second := minimum(true), minimum(false); first != 2 || second != 2 {
		t.Errorf("minimum %d when the group is seen first, else %d, want 2", first, second)
	}
}
